"""Several processes train as one: the gradient is that of the single batch, whatever the loss, the scheme and the number."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.train import ranked
from tests.train.ranked import FRAGMENTS, Found, on
from vse_pipe.project.registry import LOSSES

# Members that draw random numbers or look at the whole batch.
DRAWING = {
    "words dropped": {"text": {"dropout": 0.4, "drop_words": 0.3, "pooling": "gpo", "bidirectional": True}},
    "residual": {"image": {"name": "residual", "hidden": 7, "dropout": 0.5, "drop": 0.4}},
    "batch norm last": {"image": {"name": "two_branch", "hidden": 7, "dropout": 0.5}},
    "batch norm first": {"image": {"name": "two_branch", "hidden": 7, "batch_norm": "first"}},
    "chunks": {"train": {"chunk": 4}, "text": {"dropout": 0.4}},
    "a learned temperature": {"loss": "infonce"},
}
SCHEMES = {
    "memory_bank": {"loss": "hal", "options": {"share": 0.5, "k": 4}},
    "l2rm": {"loss": "max", "options": {"warm_up": 1, "mass": 0.4, "cost_lr": 0.01}},
    "ncr": {"loss": "max", "options": {"warm_up": 1, "noisy_from": 0.0}},
    "crcl": {"loss": "crcl", "options": {"warm_up": 1, "restarts": [2]}},
    "decl": {"loss": "decl", "options": {"warm_up": 1}},
    "distil": {"loss": "max", "options": {}},
}


# In float32 sums are rounded in another order; products in bfloat16 are rounded in other places too.
ROUNDED = {"float32": 2e-5, "bfloat16": 2e-2}


def _same(case: object, found: list[Found], expected: Found, tolerance: float, floor: float) -> None:
    """tolerance: of the largest number of each tensor, or of ``floor`` where that is larger."""
    for values, tensors in found:
        np.testing.assert_allclose(values, expected[0], rtol=tolerance, err_msg=str(case))
        assert tensors.keys() == expected[1].keys()
        for name, tensor in expected[1].items():
            largest = max(floor, np.abs(tensor).max(initial=0))
            np.testing.assert_allclose(tensors[name], tensor, 0, tolerance * largest, err_msg=f"{case} {name}")


def _asked(
    work: Callable[..., Found], count: int, cases: list[dict], *arguments: object, tolerance: float, floor: float = 1.0
) -> None:
    """``work`` of each case by ``count`` ranks against one process, which goes first: what it compiles the ranks find."""
    alone = ranked.each(work, cases, *arguments)
    found = on(count, ranked.each, work, cases, *arguments)
    for case, ranks, expected in zip(cases, zip(*found, strict=True), alone, strict=True):
        assert any(tensor.any() for tensor in expected[1].values())
        _same(case, list(ranks), expected, tolerance, floor)


# 17 pairs are no multiple of 2 or 3, and of 2 pairs the third rank has none.
@pytest.mark.acceptance
@pytest.mark.parametrize(("count", "size"), [(2, 17), (3, 17), (3, 2)])
def test_the_gradient_is_that_of_the_single_batch(count, size):
    """Of every loss, every similarity, and whatever draws numbers or looks at the whole batch."""
    cases = [{"loss": loss} for loss in LOSSES.names()]
    cases += [{"similarity": similarity} for similarity in ("order", *FRAGMENTS)]
    _asked(ranked.gradient, count, [*cases, *DRAWING.values()], size, tolerance=1e-12)


@pytest.mark.acceptance
@pytest.mark.parametrize("precision", ROUNDED)
def test_in_fewer_bits_it_is_so_up_to_rounding(precision):
    cases = [{"loss": loss, "train": {"precision": precision}} for loss in ("max", "infonce", "hal")]
    _asked(ranked.gradient, 2, cases, 17, False, tolerance=ROUNDED[precision], floor=1e-3)


@pytest.mark.acceptance
@pytest.mark.parametrize("count", [2, 3])
def test_every_scheme_ends_where_one_process_does(count):
    """Three epochs with a moving average, a decayed rate and clipped gradients."""
    train = {"optimiser": "sgd", "lr": 0.05, "average": 0.9, "lr_update": 2}
    cases = [{**case, "scheme": name, "train": train} for name, case in SCHEMES.items()]
    _asked(ranked.epochs, count, cases, 3, tolerance=1e-9)


def test_two_ranks_have_the_gradient_of_one():
    _asked(ranked.gradient, 2, [{}], 17, tolerance=1e-12)
