"""Several processes train as one: the gradient is that of the single batch, whatever the loss, the scheme and the number."""

import numpy as np
import pytest

from pipeline.project.registry import LOSSES
from tests.train.engine import rank_cases
from tests.train.engine.rank_cases import FRAGMENTS, Found
from tests.train.ranked import on

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


def _same(found: list[Found], expected: Found, rtol: float, atol: float) -> None:
    for values, tensors in found:
        np.testing.assert_allclose(values, expected[0], rtol=rtol)
        assert tensors.keys() == expected[1].keys()
        for name, tensor in expected[1].items():
            np.testing.assert_allclose(tensors[name], tensor, rtol=rtol, atol=atol, err_msg=name)


def _gradient_of(
    count: int, how: dict, size: int, exact: bool = True, rtol: float = 1e-12, atol: float = 1e-12
) -> None:
    expected = rank_cases.gradient(how, size, exact)
    assert any(gradient.any() for gradient in expected[1].values())
    _same(on(count, rank_cases.gradient, how, size, exact), expected, rtol, atol)


# 17 pairs are no multiple of 2 or 3, and of 2 pairs the third rank has none.
@pytest.mark.acceptance
@pytest.mark.parametrize("loss", LOSSES.names())
@pytest.mark.parametrize(("count", "size"), [(2, 17), (3, 17), (3, 2)])
def test_every_loss_has_the_gradient_of_the_single_batch(loss, count, size):
    _gradient_of(count, {"loss": loss}, size)


@pytest.mark.acceptance
@pytest.mark.parametrize("similarity", ["order", *FRAGMENTS])
@pytest.mark.parametrize(("count", "size"), [(2, 17), (3, 2)])
def test_similarities_of_fragments_are_shared_out(similarity, count, size):
    _gradient_of(count, {"similarity": similarity}, size)


@pytest.mark.acceptance
@pytest.mark.parametrize("name", DRAWING)
@pytest.mark.parametrize(("count", "size"), [(2, 17), (3, 2)])
def test_random_numbers_and_statistics_are_those_of_one_process(name, count, size):
    _gradient_of(count, DRAWING[name], size)


@pytest.mark.acceptance
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_ends_where_one_process_does(count, name):
    """Four epochs with a moving average, a decayed rate and clipped gradients."""
    how = {**SCHEMES[name], "scheme": name, "train": {"optimiser": "sgd", "lr": 0.05, "average": 0.9, "lr_update": 2}}
    expected = rank_cases.epochs(how, 4)
    _same(on(count, rank_cases.epochs, how, 4), expected, 1e-9, 1e-10)
