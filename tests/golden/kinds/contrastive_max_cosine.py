"""The loss `max` on cosines."""

from functools import partial

from tests.golden.kinds._contrastive import check_loss

check = partial(check_loss, "max", "cosine")
