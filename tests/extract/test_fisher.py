"""Fisher vectors: the gradient of the log-likelihood, scaled, against differences and plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tests.naive import extract as naive
from vse_pipe.extract.texts import hglmm as _mixture
from vse_pipe.extract.texts.hglmm import Mixture, fisher_vectors, improved, principal


def counted(seed: int, captions: int, words: int) -> csr_array:
    return csr_array(np.random.default_rng(seed).poisson(0.5, (captions, words)).astype(float))


def repeated(counts: np.ndarray, points: np.ndarray) -> list[list[float]]:
    return np.repeat(points, counts.astype(int), axis=0).tolist()


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 3), st.integers(1, 5))
def test_vectors_equal_a_plain_loop(seed: int, components: int, dim: int, captions: int) -> None:
    mixture = drawn(seed, components, dim)
    points = np.random.default_rng(seed + 1).standard_normal((7, dim))
    counts = counted(seed, captions, 7)
    found = fisher_vectors(counts, points, mixture)
    rows = [repeated(row, points) for row in counts.toarray()]
    expected = [naive.fisher_vector(row, plain(mixture)) for row in rows]
    np.testing.assert_allclose(found, expected, atol=1e-10)
    np.testing.assert_allclose(improved(found), [naive.improved(row) for row in found.tolist()], atol=1e-6)


@given(st.integers(0, 10**6))
def test_unscaled_they_are_the_gradient_of_the_log_likelihood(seed: int) -> None:
    mixture = drawn(seed, 3, 2)
    points = np.random.default_rng(seed + 1).standard_normal((5, 2))
    counts = np.array([1.0, 0.0, 2.0, 1.0, 3.0])
    words, step = repeated(counts, points), 1e-6
    close = np.abs(points[:, None] - mixture.location) < 1e-4
    if close.any():  # a Laplacian has no gradient at its location
        return
    numeric = []
    for name in ("location", "scale"):
        for k in range(3):
            for d in range(2):
                change = np.zeros((3, 2))
                change[k, d] = step
                above, below = (
                    naive.log_likelihood(
                        words, plain(Mixture(**{**vars(mixture), name: getattr(mixture, name) + sign * change}))
                    )
                    for sign in (1, -1)
                )
                numeric.append((above - below) / (2 * step))
    # the diagonal of the Fisher information of N words
    information = counts.sum() * mixture.weights[:, None] / mixture.scale**2
    of_scale = np.where(mixture.laplacian, information, 2 * information)
    scaled = np.array(numeric) / np.sqrt(np.concatenate([information.ravel(), of_scale.ravel()]))
    found = fisher_vectors(csr_array(counts[None]), points, mixture)[0]
    np.testing.assert_allclose(found, scaled, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("laplacian", [True, False])
def test_the_information_is_that_of_the_density(laplacian: bool) -> None:
    """Fisher vectors of single words drawn from the model itself have mean 0 and variance 1."""
    mixture = Mixture(np.ones(1), np.array([[laplacian]]), np.array([[2.0]]), np.array([[0.7]]))
    draw = np.random.default_rng(0).laplace if laplacian else np.random.default_rng(0).normal
    points = draw(2.0, 0.7, (200_000, 1))
    found = fisher_vectors(csr_array(np.eye(1)), points[:1], mixture)
    assert found.shape == (1, 2)
    import scipy.sparse

    found = fisher_vectors(csr_array(scipy.sparse.identity(len(points))), points, mixture)
    assert found.mean(axis=0) == pytest.approx([0, 0], abs=0.02)
    assert found.var(axis=0) == pytest.approx([1, 1], abs=0.03)


def test_captions_without_words_are_zero() -> None:
    counts = csr_array(np.array([[0.0, 0.0], [1.0, 0.0]]))
    found = improved(fisher_vectors(counts, np.zeros((2, 2)) + 0.3, drawn(0)))
    assert not found[0].any()
    assert np.linalg.norm(found[1]) == pytest.approx(1)
    assert not fisher_vectors(csr_array((1, 2)), np.zeros((2, 2)), drawn(0)).any()


def drawn(seed: int, components: int = 3, dim: int = 2) -> Mixture:
    random = np.random.default_rng(seed)
    return Mixture(
        random.dirichlet(np.ones(components)),
        random.random((components, dim)) < 0.5,
        random.standard_normal((components, dim)),
        random.uniform(0.3, 2.0, (components, dim)),
    )


def plain(mixture: Mixture) -> dict:
    return {name: value.tolist() for name, value in vars(mixture).items()}


def two_shapes(seed: int = 0, count: int = 4000) -> np.ndarray:
    """Two far clusters; the first dimension is Laplacian in one and Gaussian in the other, the second the reverse."""
    random = np.random.default_rng(seed)
    one = np.column_stack([random.laplace(-9, 1, count), random.normal(-9, 2, count)])
    other = np.column_stack([random.normal(9, 1, count), random.laplace(9, 2, count)])
    return np.concatenate([one, other])


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 4), st.integers(1, 6))
def test_shares_and_likelihood_equal_a_plain_loop(seed: int, components: int, dim: int, count: int) -> None:
    mixture = drawn(seed, components, dim)
    points = np.random.default_rng(seed + 1).standard_normal((count, dim)) * 2
    shares, likelihood = _mixture.posteriors(mixture, points)
    np.testing.assert_allclose(shares, [naive.shares(p, plain(mixture)) for p in points.tolist()], atol=1e-10)
    assert likelihood.sum() == pytest.approx(naive.log_likelihood(points.tolist(), plain(mixture)))


def test_the_density_integrates_to_one() -> None:
    mixture = drawn(4, components=2, dim=1)
    grid = np.linspace(-60, 60, 240_001)[:, None]
    _, likelihood = _mixture.posteriors(mixture, grid)
    assert np.exp(likelihood).sum() * (grid[1, 0] - grid[0, 0]) == pytest.approx(1, abs=1e-5)


def test_points_far_from_every_component_have_shares() -> None:
    shares, likelihood = _mixture.posteriors(drawn(1), np.array([[1e4, -1e4]]))
    assert shares.sum() == pytest.approx(1)
    assert np.isfinite(likelihood).all()


@given(st.integers(0, 10**6), st.integers(2, 12))
def test_the_m_step_equals_a_plain_loop(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    points, shares = random.standard_normal((count, 2)).round(1), random.dirichlet([0.5] * 3, count)
    floor = np.array([0.05, 0.05])
    found = _mixture.maximise(points, shares, floor)
    assert found.weights == pytest.approx(shares.mean(axis=0))
    for k in range(3):
        for d in range(2):
            values, weights = points[:, d].tolist(), shares[:, k].tolist()
            best = {}
            for laplacian in (False, True):
                location, scale = naive.spread(values, weights, laplacian)
                scale = max(scale, 0.05)
                best[laplacian] = sum(
                    w * naive.log_density(x, laplacian, location, scale) for x, w in zip(values, weights, strict=True)
                )
            chosen = bool(found.laplacian[k, d])
            assert best[chosen] >= best[not chosen] - 1e-9
            here = sum(
                w * naive.log_density(x, chosen, found.location[k, d], found.scale[k, d])
                for x, w in zip(values, weights, strict=True)
            )
            assert here == pytest.approx(best[chosen], abs=1e-8)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from(["normal", "heavy", "lattice", "constant"]))
def test_the_likelihood_never_falls(seed: int, components: int, kind: str) -> None:
    random = np.random.default_rng(seed)
    points = {
        "normal": random.standard_normal((60, 3)),
        "heavy": random.standard_cauchy((60, 3)),
        "lattice": random.integers(0, 3, (60, 3)).astype(float),
        "constant": np.column_stack([random.standard_normal(60), np.ones(60), np.zeros(60)]),
    }[kind]
    found = _mixture.fit_mixture(points, components, seed % 1000, max_iterations=30, tolerance=0.0)
    assert len(found.history) > 1
    assert (np.diff(found.history) >= -1e-9).all()
    assert np.isfinite(found.history).all()
    _, likelihood = _mixture.posteriors(found.mixture, points)
    assert likelihood.mean() == pytest.approx(found.history[-1])


def test_each_dimension_takes_the_density_it_follows() -> None:
    mixture = _mixture.fit_mixture(two_shapes(), 2, 0, 50, 1e-6).mixture
    first, second = np.argsort(mixture.location[:, 0])
    assert mixture.laplacian[first].tolist() == [True, False]
    assert mixture.laplacian[second].tolist() == [False, True]
    assert mixture.location[first] == pytest.approx([-9, -9], abs=0.2)
    assert mixture.scale[first] == pytest.approx([1, 2], rel=0.1)
    assert mixture.scale[second] == pytest.approx([1, 2], rel=0.1)
    assert mixture.weights == pytest.approx([0.5, 0.5], abs=0.01)


def test_scales_have_a_floor() -> None:
    points = np.array([[0.0], [0.0], [0.0], [5.0], [9.0]])
    found = _mixture.fit_mixture(points, 3, 0, 50, 0.0)
    assert (found.mixture.scale >= 0.01 * points.std() - 1e-12).all()
    assert found.mixture.scale.min() == pytest.approx(0.01 * points.std())


def test_the_seed_decides_the_start() -> None:
    points = np.random.default_rng(0).standard_normal((200, 3))
    first, again, other = (_mixture.fit_mixture(points, 5, seed, 3, 0.0) for seed in (1, 1, 2))
    assert first.history == again.history
    np.testing.assert_array_equal(first.mixture.location, again.mixture.location)
    assert first.history != other.history


def test_it_stops_at_the_tolerance_or_says_that_it_did_not() -> None:
    points = two_shapes(count=300)
    found = _mixture.fit_mixture(points, 4, 0, 200, 1e-3)
    assert found.converged
    assert found.history[-1] - found.history[-2] < 1e-3
    assert all(np.diff(found.history)[:-1] >= 1e-3)
    short = _mixture.fit_mixture(points, 4, 0, 2, 0.0)
    assert not short.converged
    assert len(short.history) == 3


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
    from vse_pipe.extract.texts.hglmm import _added

    sums = _added(None, np.ones((3, 4)), 1.0)
    again = _added(sums, np.full((2, 4), 2.0), 0.5)
    assert np.shares_memory(again, sums)
    assert np.triu(again).tolist() == np.triu(np.full((4, 4), 7.0)).tolist()
