"""HAL's evaluation.i2t and t2i with order violations for similarities."""

from functools import partial

from tests.golden.kinds.metrics_1k import check as check_ranking

check = partial(check_ranking, similarity="order")
