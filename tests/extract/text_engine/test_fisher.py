"""Fisher vectors: the gradient of the log-likelihood, scaled, against differences and plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tests.extract.text_engine.test_mixture import drawn, plain
from tests.naive import texts as naive
from vse_pipe.extract.fisher import Mixture, fisher_vectors, improved


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
