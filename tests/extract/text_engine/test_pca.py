"""Principal components in blocks against a singular value decomposition of everything."""

import numpy as np
import pytest

from vse_pipe.extract.fisher import principal

ROWS = (np.random.default_rng(0).standard_normal((80, 6)) * [5, 1, 3, 0.5, 2, 0.1] + 7).astype(np.float32)


@pytest.mark.parametrize("cuts", [[], [1], [30, 60]])
def test_directions_equal_those_of_the_decomposition(cuts: list[int]) -> None:
    mean, directions = principal(np.split(ROWS, cuts), 4)
    rows = ROWS.astype(np.float64)
    assert mean == pytest.approx(rows.mean(axis=0))
    expected = np.linalg.svd(rows - rows.mean(axis=0))[2][:4]
    assert np.abs((directions * expected).sum(axis=1)) == pytest.approx(np.ones(4), abs=1e-6)
    largest = directions[np.arange(4), np.abs(directions).argmax(axis=1)]
    assert (largest > 0).all()


@pytest.mark.parametrize(("rows", "components"), [(ROWS, 7), (ROWS[:4], 4)])
def test_more_components_than_there_are(rows: np.ndarray, components: int) -> None:
    with pytest.raises(ValueError, match="principal components of"):
        principal([rows], components)


def test_one_covariance_is_in_memory_while_it_is_summed() -> None:
    from vse_pipe.extract.fisher import _added

    sums = _added(None, np.ones((3, 4)), 1.0)
    again = _added(sums, np.full((2, 4), 2.0), 0.5)
    assert np.shares_memory(again, sums)
    assert np.triu(again).tolist() == np.triu(np.full((4, 4), 7.0)).tolist()
