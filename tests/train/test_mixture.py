import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from sklearn.mixture import GaussianMixture

from tests.naive import training as naive
from vse_pipe.train import mixture
from vse_pipe.train.mixture import against_truth, auc


def _losses(low: int, high: int, seed: int = 0, shapes=((2.5, 12.0), (8.0, 4.0))) -> np.ndarray:
    rng = np.random.default_rng(seed)
    parts = [rng.beta(*shape, size) for shape, size in zip(shapes, (low, high), strict=True)]
    return 3.0 * np.concatenate(parts)


def test_the_two_distributions_are_found():
    found = mixture.fit_beta(_losses(3000, 1000))
    assert not found.doubts
    assert found.converged
    np.testing.assert_allclose(found.weight, [0.75, 0.25], atol=0.02)
    assert found.mean[0] < found.mean[1]
    clean = found.posterior > 0.5
    assert clean[:3000].mean() > 0.98
    assert clean[3000:].mean() < 0.05


def test_em_is_that_of_the_plain_loops():
    losses = _losses(40, 20, seed=3)
    found = mixture.fit_beta(losses, monotone=False, gain=None)
    x = mixture.scaled(losses).tolist()
    first, second, posterior = naive.fit(x, naive.best_split(x))
    np.testing.assert_allclose(found.posterior, posterior, atol=1e-7)
    for place, component in enumerate([first, second]):
        ours = [found.alpha[place], found.beta[place], found.weight[place]]
        np.testing.assert_allclose(ours, component, rtol=1e-6)


@settings(max_examples=20, deadline=None)
@given(arrays(np.float64, st.integers(2, 25), elements=st.floats(0, 1, width=16)).filter(lambda x: np.ptp(x) > 0))
def test_the_start_is_the_best_split(x):
    low = mixture.halves(x)[0] > 0.5
    theirs = np.array(naive.best_split(x.tolist()))

    def spent(chosen):
        return sum(((x[part] - x[part].mean()) ** 2).sum() for part in (chosen, ~chosen))

    assert low.any()
    assert (~low).any()
    assert spent(low) == pytest.approx(spent(theirs), abs=1e-9)


def test_order_and_scale_of_the_losses_do_not_matter():
    losses = _losses(300, 200)
    order = np.random.default_rng(1).permutation(len(losses))
    found, other = mixture.fit_beta(losses), mixture.fit_beta(7.0 + 0.1 * losses[order])
    np.testing.assert_allclose(other.posterior, found.posterior[order], atol=1e-6)


def test_the_ends_move_inside_and_nothing_else():
    x = mixture.scaled(np.array([2.0, 2.0 + 1e-9, 3.0, 4.0]))
    np.testing.assert_allclose(x, [1e-3, 5e-10, 0.5, 1 - 1e-3])


def test_densities_are_those_of_scipy():
    found = mixture.fit_beta(_losses(300, 200))
    at = np.array([0.1, 0.4, 0.9])
    expected = [w * stats.beta(a, b).pdf(at) for a, b, w in zip(found.alpha, found.beta, found.weight, strict=True)]
    np.testing.assert_allclose(found.density(at), expected)


@pytest.mark.parametrize(
    ("losses", "reason"),
    [
        (np.zeros(0), "fewer than"),
        (np.array([0.4]), "fewer than"),
        (np.linspace(0, 1, 7), "fewer than"),
        (np.full(500, 0.3), "equal"),
    ],
)
def test_nothing_to_split_leaves_all_clean_and_says_why(losses, reason):
    found = mixture.fit_beta(losses)
    assert found.doubts
    assert reason in found.doubts[0]
    assert found.posterior.tolist() == [1.0] * len(losses)


def test_a_component_that_empties_leaves_all_clean(monkeypatch):
    monkeypatch.setattr(mixture, "EMPTY", 0.4)
    found = mixture.fit_beta(_losses(900, 100))
    assert found.doubts == ("one component has no pairs left",)
    assert found.posterior.tolist() == [1.0] * 1000


def test_the_likelihood_only_rises_and_stops_where_it_gains_too_little():
    """On piled-up losses moments lead away from the likeliest mixture, and going on finds fewer mismatched pairs."""
    losses = np.concatenate(
        [_losses(2000, 0, shapes=((0.5, 9.0), (1, 1))), _losses(0, 1000, shapes=((1, 1), (2.5, 5.0)))]
    )

    def likelihood(found):
        return np.log(found.density(mixture.scaled(losses)).sum(axis=0)).sum()

    stopped, further = mixture.fit_beta(losses), mixture.fit_beta(losses, gain=None)
    assert stopped.iterations < further.iterations
    assert likelihood(stopped) > likelihood(further)


def test_two_values_only():
    found = mixture.fit_beta(np.repeat([0.1, 0.9], [60, 40]))
    assert (found.posterior > 0.5).tolist() == [True] * 60 + [False] * 40
    assert np.isfinite(found.alpha).all()


def test_piled_up_losses_give_finite_posteriors_and_no_pair_above_a_clean_one():
    rng = np.random.default_rng(0)
    losses = np.concatenate([np.zeros(800), rng.gamma(0.3, 0.2, 200)])
    found = mixture.fit_beta(losses)
    assert np.isfinite(found.posterior).all()
    ordered = found.posterior[np.argsort(losses, kind="stable")]
    assert (np.diff(ordered) <= 0).all()


def test_densities_that_cross_twice_are_said_and_mended():
    """Clean losses in a heap away from 0, mismatched ones everywhere: the formula gives the lowest losses to the latter."""
    losses = np.concatenate(
        [_losses(2000, 0, shapes=((60.0, 240.0), (1, 1))), _losses(0, 2000, shapes=((1, 1), (1.1, 1.1)))]
    )
    literal, mended = mixture.fit_beta(losses, monotone=False), mixture.fit_beta(losses)
    lowest = int(np.argmin(losses))
    assert literal.posterior[lowest] < 0.5 < mended.posterior[lowest]
    assert mended.doubts
    assert "cross twice" in mended.doubts[0]
    assert mended.doubts == literal.doubts
    ordered = mended.posterior[np.argsort(losses)]
    assert (np.diff(ordered) <= 0).all()


def test_a_wide_clean_density_does_not_take_the_highest_losses():
    """Mismatched losses in a heap, clean ones below it and, by their width, above: only those below are clean."""
    losses = np.concatenate(
        [_losses(1500, 0, shapes=((1.5, 2.5), (1, 1))), _losses(0, 2500, shapes=((1, 1), (120, 110)))]
    )
    literal, mended = mixture.fit_beta(losses, monotone=False), mixture.fit_beta(losses)
    highest, lowest = int(np.argmax(losses)), int(np.argmin(losses))
    assert mended.posterior[highest] < 0.5 < literal.posterior[highest]
    assert mended.posterior[lowest] > 0.99
    assert (np.diff(mended.posterior[np.argsort(losses)]) <= 0).all()
    assert "cross twice" in mended.doubts[0]


def test_the_clean_component_of_the_code_differs_where_alpha_is_below_1():
    losses = np.concatenate(
        [_losses(2000, 0, shapes=((30.0, 120.0), (1, 1))), _losses(0, 2000, shapes=((1, 1), (0.5, 0.3)))]
    )
    ours, theirs = (
        mixture.fit_beta(losses, clean=which, monotone=False, gain=None) for which in ("lower_mean", "code")
    )
    assert ours.alpha[1] < 1
    np.testing.assert_allclose(theirs.posterior, 1 - ours.posterior, atol=1e-12)
    apart = _losses(2000, 1000)
    np.testing.assert_array_equal(mixture.fit_beta(apart).posterior, mixture.fit_beta(apart, clean="code").posterior)


def test_steps_that_do_not_suffice_are_said():
    found = mixture.fit_beta(_losses(300, 200), max_iterations=2)
    assert not found.converged
    assert "still moved after 2" in found.doubts[0]


@settings(max_examples=30, deadline=None)
@given(arrays(np.float64, st.integers(0, 60), elements=st.floats(0, 1e6)))
def test_whatever_the_losses_every_posterior_is_a_probability(losses):
    found = mixture.fit_beta(losses, max_iterations=300)
    assert found.posterior.shape == losses.shape
    assert ((found.posterior >= 0) & (found.posterior <= 1)).all()


def _gaussian_losses(low: int = 60, high: int = 30, apart: float = 0.4, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(0.2, 0.05, low), rng.normal(0.2 + apart, 0.1, high)])


def _scaled(losses: np.ndarray) -> np.ndarray:
    return (losses - losses.min()) / (losses.max() - losses.min())


@pytest.mark.parametrize("apart", [0.1, 0.25, 0.6])
@pytest.mark.parametrize("seed", range(4))
def test_gaussian_em_is_that_of_the_plain_loops(apart, seed):
    losses = _gaussian_losses(apart=apart, seed=seed)
    x = _scaled(losses).tolist()
    expected = naive.fit_normal(x, naive.best_split(x))
    np.testing.assert_allclose(mixture.fit_gaussian(losses).posterior, expected, atol=1e-9)


def test_separable_losses_are_divided_as_the_authors_library_divides_them():
    losses = _gaussian_losses()
    theirs = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=0)
    columns = theirs.fit(_scaled(losses)[:, None]).predict_proba(_scaled(losses)[:, None])
    found = mixture.fit_gaussian(losses)
    np.testing.assert_allclose(found.posterior, columns[:, theirs.means_.argmin()], atol=1e-6)
    np.testing.assert_allclose(found.mean, np.sort(theirs.means_.ravel()), atol=1e-6)
    assert found.doubt is None


def test_scale_and_order_of_the_losses_do_not_matter():
    losses = _gaussian_losses()
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


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30))
def test_auc_is_the_share_of_ordered_pairs(points):
    score = np.array([value for value, _ in points], float)
    wanted = np.array([flag for _, flag in points])
    ordered = [(a > b) + 0.5 * (a == b) for a in score[wanted] for b in score[~wanted]]
    found = auc(score, wanted)
    assert (found is None) == (not ordered)
    if ordered:
        np.testing.assert_allclose(found, np.mean(ordered))


def test_figures_of_a_split():
    posterior = np.array([0.9, 0.8, 0.3, 0.1])
    mismatched = np.array([False, True, False, True])
    found = against_truth(posterior, posterior > 0.5, mismatched)
    assert found == {"mismatched": 0.5, "auc": 0.75, "precision": 0.5, "recall": 0.5}


def test_what_is_undefined_is_none():
    posterior = np.array([0.9, 0.8])
    found = against_truth(posterior, posterior > 0.5, np.zeros(2, bool))
    assert found == {"mismatched": 0.0, "auc": None, "precision": None, "recall": None}
