import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from tests.naive import mixture as naive
from vse_pipe.train import mixture


def _losses(low: int = 60, high: int = 30, apart: float = 0.4, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(0.2, 0.05, low), rng.normal(0.2 + apart, 0.1, high)])


def _scaled(losses: np.ndarray) -> np.ndarray:
    return (losses - losses.min()) / (losses.max() - losses.min())


@pytest.mark.parametrize("apart", [0.1, 0.25, 0.6])
@pytest.mark.parametrize("seed", range(4))
def test_em_is_that_of_the_plain_loops(apart, seed):
    losses = _losses(apart=apart, seed=seed)
    x = _scaled(losses).tolist()
    expected = naive.fit_normal(x, naive.best_split(x))
    np.testing.assert_allclose(mixture.fit_gaussian(losses).posterior, expected, atol=1e-9)


def test_separable_losses_are_divided_as_the_authors_library_divides_them():
    losses = _losses()
    theirs = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=0)
    columns = theirs.fit(_scaled(losses)[:, None]).predict_proba(_scaled(losses)[:, None])
    found = mixture.fit_gaussian(losses)
    np.testing.assert_allclose(found.posterior, columns[:, theirs.means_.argmin()], atol=1e-6)
    np.testing.assert_allclose(found.mean, np.sort(theirs.means_.ravel()), atol=1e-6)
    assert found.doubt is None


def test_scale_and_order_of_the_losses_do_not_matter():
    losses = _losses()
    order = np.random.default_rng(1).permutation(len(losses))
    found, other = mixture.fit_gaussian(losses), mixture.fit_gaussian(7 * losses[order] - 3)
    np.testing.assert_allclose(other.posterior, found.posterior[order], atol=1e-9)


@pytest.mark.parametrize(
    ("losses", "doubt"),
    [(np.full(20, 0.3), "all losses are equal"), (np.arange(7.0), "fewer than 8"), (np.empty(0), "fewer")],
)
def test_where_there_is_nothing_to_divide_every_pair_is_clean(losses, doubt):
    found = mixture.fit_gaussian(losses)
    assert doubt in found.doubt
    assert found.posterior.tolist() == [1.0] * len(losses)


def test_a_single_loss_apart_is_a_component_of_its_own():
    found = mixture.fit_gaussian(np.array([0.1] * 20 + [5.0]))
    assert np.isfinite(found.posterior).all()
    assert (found.posterior > 0.5).tolist() == [True] * 20 + [False]
