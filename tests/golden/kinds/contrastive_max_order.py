"""The loss `max` on order violations."""

from functools import partial

from tests.golden.kinds._contrastive import check_loss

check = partial(check_loss, "max", "order")
