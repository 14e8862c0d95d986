import numpy as np
import pytest

from tests.naive import cca as naive
from vse_pipe.core.errors import InputError
from vse_pipe.train.schemes.cca.canonical import Moments, canonical


def _sides(rows=60, images=7, texts=5, shared=3, seed=0):
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((rows, shared))
    sides = [common @ rng.standard_normal((shared, width)) for width in (images, texts)]
    return [side + 0.5 * rng.standard_normal(side.shape) + 40 for side in sides]


def _ours(images, texts, eta, size, parts=4):
    rows = np.concatenate([images, texts], axis=1)
    found = Moments.of(lambda: np.array_split(rows, parts))
    maps = canonical(found.covariance, images.shape[1], eta, size)
    mapped = (
        (images - found.mean[: images.shape[1]]) @ maps.images.T,
        (texts - found.mean[images.shape[1] :]) @ maps.texts.T,
    )
    units = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in mapped]
    return maps.correlations, units[0] @ units[1].T


@pytest.mark.parametrize("eta", [0.0, 1e-4, 0.1])
@pytest.mark.parametrize(("images", "texts", "size"), [(7, 5, 5), (5, 7, 5), (7, 5, 3), (4, 4, 4), (3, 1, 1)])
def test_they_are_those_of_the_generalised_eigenproblem(eta, images, texts, size):
    sides = _sides(images=images, texts=texts)
    correlations, cosines = naive.correlations_and_cosines(*sides, eta, size)
    ours = _ours(*sides, eta, size)
    np.testing.assert_allclose(ours[0], correlations, atol=1e-9)
    np.testing.assert_allclose(ours[1], cosines, atol=1e-8)


def test_moments_do_not_depend_on_the_blocks_nor_suffer_from_a_large_mean():
    rows = np.concatenate(_sides(), axis=1)
    for shift in (0.0, 1e6):
        found = Moments.of(lambda shift=shift: (block + shift for block in np.array_split(rows, 7)))
        np.testing.assert_allclose(found.mean, rows.mean(axis=0) + shift)
        np.testing.assert_allclose(np.tril(found.covariance), np.tril(np.cov(rows.T)), rtol=1e-7, atol=1e-8)


def test_correlations_fall_and_a_side_that_repeats_the_other_has_1():
    images, _ = _sides()
    correlations, _ = _ours(images, images @ np.diag(np.arange(1.0, 8.0)), 0.0, 7)
    np.testing.assert_allclose(correlations, 1, atol=1e-6)
    rising = _ours(*_sides(), 0.0, 5)[0][::-1]
    assert (np.diff(rising) >= 0).all()
    assert rising[0] >= 0
    assert rising[-1] < 1


def test_more_regularisation_lowers_the_correlations():
    low, high = (_ours(*_sides(), eta, 5)[0] for eta in (0.0, 0.5))
    assert (high < low).all()


def test_a_side_without_variance_maps_to_nothing():
    images, texts = _sides()
    found = Moments.of(lambda: [np.concatenate([images, np.full_like(texts, 3.0)], axis=1)])
    maps = canonical(found.covariance, 7, 1e-3, 5)
    np.testing.assert_allclose(maps.correlations, 0, atol=1e-12)
    np.testing.assert_allclose(maps.images, 0, atol=1e-9)


def test_a_singular_covariance_of_huge_numbers_says_what_to_raise():
    images, texts = _sides()
    rows = np.concatenate([np.repeat(images[:, :1], 4, axis=1) * 1e9, texts], axis=1)
    with pytest.raises(InputError, match=r"singular \(.*\); raise scheme\.cca\.eta"):
        canonical(Moments.of(lambda: [rows]).covariance, 4, 0.0, 2)
