"""Fisher vectors of a mixture: the method, the mixture's fit, and vectors against differences and plain loops."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, vstack

from tests.extract.texts.project import as_npz
from tests.naive import extract as naive
from vse_pipe.core.errors import InputError
from vse_pipe.extract.text_methods import Corpus, State
from vse_pipe.extract.texts import hglmm as method
from vse_pipe.extract.texts.hglmm import Mixture, fisher_vectors, improved, principal

WORDS = [f"w{number:02d}" for number in range(60)]
RANDOM = np.random.default_rng(0)
SOURCES = np.column_stack([RANDOM.laplace(size=60), RANDOM.uniform(-2, 2, 60), RANDOM.normal(size=60)])
VECTORS = (SOURCES @ RANDOM.standard_normal((3, 3)) + 2).astype(np.float32)
TEXTS = [" ".join(RANDOM.choice(WORDS[:40], 6)) for _ in range(50)]
TEXTS += [" ".join(RANDOM.choice(WORDS, 6)) for _ in range(9)] + ["Nothing known ."]
CORPUS = Corpus(TEXTS, ["train"] * 50 + ["val"] * 5 + ["test"] * 5)
SMALL = {"components": 3, "ica": "none", "unit": False}


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(as_npz(tmp_path / "v.npz", WORDS, VECTORS))


def fitted(file: str, corpus: Corpus = CORPUS, seed: int = 0, **options) -> tuple[State, method.Params]:
    params = method.Params(vectors=file, **{**SMALL, **options})
    return method.fit(corpus, params, seed), params


def described(file: str, **options) -> tuple[State, np.ndarray]:
    state, params = fitted(file, **options)
    return state, method.transform(TEXTS, state, params)


def test_vectors_equal_a_plain_loop_in_blocks_too(file: str) -> None:
    state, params = fitted(file)
    found = method.transform(TEXTS, state, params)
    assert (found.shape, found.dtype) == ((60, 2 * 3 * 3), np.float32)
    mixture = {name: state.arrays[name].tolist() for name in ("weights", "laplacian", "location", "scale")}
    table = dict(zip(WORDS, VECTORS.tolist(), strict=True))
    for text, row in list(zip(TEXTS, found.tolist(), strict=True))[45:]:
        words = [table[token] for token in text.lower().split() if token in table]
        assert row == pytest.approx(naive.improved(naive.fisher_vector(words, mixture)), abs=1e-5)
    assert not found[59].any()
    assert np.linalg.norm(found[:59], axis=1) == pytest.approx(np.ones(59), abs=1e-6)
    pieces = [method.transform(TEXTS[start : start + 7], state, params) for start in range(0, 60, 7)]
    np.testing.assert_allclose(np.concatenate(pieces), found, atol=1e-6)
    assert method.terms("A Dog", params) == ["a", "dog"]


def test_the_mixture_is_of_the_words_of_the_train_captions(file: str) -> None:
    """However often one occurs."""
    first, _ = fitted(file)
    other, _ = fitted(file, Corpus([*TEXTS[:50], "w59 w58"], ["train"] * 50 + ["test"]))
    for name in ("weights", "laplacian", "location", "scale", "ica", "ica_mean"):
        np.testing.assert_array_equal(first.arrays[name], other.arrays[name])
    train = {word for text in TEXTS[:50] for word in text.split()}
    assert first.about["mixture"]["words"] == len(train)
    assert set(first.words) > train
    more, _ = fitted(file, Corpus([*TEXTS, *TEXTS[:20]], [*CORPUS.splits, *["train"] * 20]))
    np.testing.assert_array_equal(first.arrays["location"], more.arrays["location"])


def test_independent_components_have_variance_one_and_are_the_sources(tmp_path: Path, file: str) -> None:
    random = np.random.default_rng(1)
    words = [f"w{number}" for number in range(3000)]
    sources = np.column_stack([random.laplace(size=3000), random.uniform(-1, 1, 3000)])
    mixed = as_npz(tmp_path / "m.npz", words, (sources @ [[2.0, 1.0], [1.0, 3.0]] + 5).astype(np.float32))
    corpus = Corpus([" ".join(words)], ["train"])
    state, _ = fitted(str(mixed), corpus, ica="all")
    points = state.arrays["vectors"][np.argsort([int(word[1:]) for word in state.words])]
    assert np.cov(points.T, bias=True) == pytest.approx(np.eye(2), abs=1e-3)
    alike = np.abs(np.corrcoef(points.T, sources.T)[:2, 2:])
    assert np.sort(alike.max(axis=1)) == pytest.approx([1, 1], abs=0.01)
    assert described(file, ica=2)[1].shape == (60, 2 * 3 * 2)


def test_principal_components_of_the_train_captions(file: str) -> None:
    vectors = described(file)[1].astype(np.float64)
    _, found = described(file, pca=4, block=16)
    centred = vectors - vectors[:50].mean(axis=0)
    directions = np.linalg.svd(centred[:50])[2][:4]
    assert found.shape == (60, 4)
    assert np.abs(found[:59]) == pytest.approx(np.abs(centred[:59] @ directions.T), abs=1e-5)
    assert not found[59].any()


TWO = Corpus(["w01 w02"], ["train"])


@pytest.mark.parametrize(("corpus", "options", "message"), [
    (CORPUS, {"components": 61}, r"components is 61, the train captions hold \d+ known words"),
    (CORPUS, {"ica": 4}, "ica asks for 4 components of .* known words with 3 dimensions"),
    (CORPUS, {"pca": 19}, "pca is 19, but 50 train captions with 18 dimensions"),
    (TWO, {"ica": "all", "components": 1}, "ica asks for 3 components of 2 known words"),
])  # fmt: skip
def test_too_few_words_or_captions(file: str, corpus: Corpus, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fitted(file, corpus, **options)


def test_a_dimension_that_is_constant_is_refused(tmp_path: Path) -> None:
    flat = as_npz(tmp_path / "flat.npz", WORDS, np.column_stack([VECTORS[:, :2], np.ones(60, np.float32)]))
    with pytest.raises(InputError, match="of which 2 vary independently"):
        fitted(str(flat), ica="all")


def counted(seed: int, captions: int, words: int) -> csr_array:
    return csr_array(np.random.default_rng(seed).poisson(0.5, (captions, words)).astype(float))


def repeated(counts: np.ndarray, points: np.ndarray) -> list[list[float]]:
    return np.repeat(points, counts.astype(int), axis=0).tolist()


def plain(mixture: Mixture) -> dict:
    return {name: value.tolist() for name, value in vars(mixture).items()}


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 3), st.integers(1, 5))
def test_fisher_vectors_equal_a_plain_loop(seed: int, components: int, dim: int, captions: int) -> None:
    """Those of captions without words are zero."""
    mixture = drawn(seed, components, dim)
    points = np.random.default_rng(seed + 1).standard_normal((7, dim))
    counts = vstack([counted(seed, captions, 7), csr_array((1, 7)), csr_array(np.eye(1, 7))]).tocsr()
    found = fisher_vectors(counts, points, mixture)
    expected = [naive.fisher_vector(repeated(row, points), plain(mixture)) for row in counts.toarray()]
    np.testing.assert_allclose(found, expected, atol=1e-10)
    np.testing.assert_allclose(improved(found), [naive.improved(row) for row in found.tolist()], atol=1e-6)
    assert not improved(found)[-2].any()
    assert np.linalg.norm(improved(found)[-1]) == pytest.approx(1)


@settings(max_examples=10)
@given(st.integers(0, 10**6))
def test_unscaled_they_are_the_gradient_of_the_log_likelihood(seed: int) -> None:
    mixture = drawn(seed)
    points = np.random.default_rng(seed + 1).standard_normal((5, 2))
    counts = np.array([1.0, 0.0, 2.0, 1.0, 3.0])
    words, step = repeated(counts, points), 1e-6
    assume(not (np.abs(points[:, None] - mixture.location) < 1e-4).any())  # there a Laplacian has no gradient
    numeric = []
    for name, k, d in itertools.product(("location", "scale"), range(3), range(2)):
        beside = []
        for sign in (1, -1):
            values = getattr(mixture, name).copy()
            values[k, d] += sign * step
            beside.append(naive.log_likelihood(words, plain(Mixture(**{**vars(mixture), name: values}))))
        numeric.append((beside[0] - beside[1]) / (2 * step))
    # the diagonal of the Fisher information of N words
    information = counts.sum() * mixture.weights[:, None] / mixture.scale**2
    of_scale = np.where(mixture.laplacian, information, 2 * information)
    scaled = np.array(numeric) / np.sqrt(np.concatenate([information.ravel(), of_scale.ravel()]))
    found = fisher_vectors(csr_array(counts[None]), points, mixture)[0]
    np.testing.assert_allclose(found, scaled, rtol=1e-4, atol=1e-6)


def drawn(seed: int, components: int = 3, dim: int = 2) -> Mixture:
    random, shape = np.random.default_rng(seed), (components, dim)
    weights, laplacian = random.dirichlet(np.ones(components)), random.random(shape) < 0.5
    return Mixture(weights, laplacian, random.standard_normal(shape), random.uniform(0.3, 2.0, shape))


def two_shapes(seed: int = 0, count: int = 4000) -> np.ndarray:
    """Two far clusters; the first dimension is Laplacian in one and Gaussian in the other, the second the reverse."""
    random = np.random.default_rng(seed)
    one = np.column_stack([random.laplace(-9, 1, count), random.normal(-9, 2, count)])
    return np.concatenate([one, np.column_stack([random.normal(9, 1, count), random.laplace(9, 2, count)])])


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 4), st.integers(1, 6))
def test_shares_and_likelihood_equal_a_plain_loop(seed: int, components: int, dim: int, count: int) -> None:
    mixture = drawn(seed, components, dim)
    points = np.random.default_rng(seed + 1).standard_normal((count, dim)) * 2
    shares, likelihood = method.posteriors(mixture, points)
    np.testing.assert_allclose(shares, [naive.shares(p, plain(mixture)) for p in points.tolist()], atol=1e-10)
    assert likelihood.sum() == pytest.approx(naive.log_likelihood(points.tolist(), plain(mixture)))


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(2, 12))
def test_the_m_step_equals_a_plain_loop(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    points, shares = random.standard_normal((count, 2)).round(1), random.dirichlet([0.5] * 3, count)
    found = method.maximise(points, shares, np.array([0.05, 0.05]), points.argsort(axis=0, kind="stable"))
    assert found.weights == pytest.approx(shares.mean(axis=0))
    for k, d in itertools.product(range(3), range(2)):
        pairs = list(zip(points[:, d].tolist(), shares[:, k].tolist(), strict=True))
        best = {}
        for laplacian in (False, True):
            location, scale = naive.spread(*map(list, zip(*pairs, strict=True)), laplacian)
            best[laplacian] = weighted(pairs, laplacian, location, max(scale, 0.05))
        chosen = bool(found.laplacian[k, d])
        assert best[chosen] >= best[not chosen] - 1e-9
        here = weighted(pairs, chosen, found.location[k, d], found.scale[k, d])
        assert here == pytest.approx(best[chosen], abs=1e-8)


def weighted(pairs: list[tuple[float, float]], laplacian: bool, location: float, scale: float) -> float:
    return sum(w * naive.log_density(x, laplacian, location, scale) for x, w in pairs)


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from(["normal", "heavy", "lattice", "constant"]))
def test_the_likelihood_never_falls(seed: int, components: int, kind: str) -> None:
    random = np.random.default_rng(seed)
    points = {
        "normal": random.standard_normal((60, 3)),
        "heavy": random.standard_cauchy((60, 3)),
        "lattice": random.integers(0, 3, (60, 3)).astype(float),
        "constant": np.column_stack([random.standard_normal(60), np.ones(60), np.zeros(60)]),
    }[kind]
    mixture, history = method.fit_mixture(points, components, seed % 1000)
    assert len(history) > 1
    assert (np.diff(history) >= -1e-9).all()
    assert np.isfinite(history).all()
    _, likelihood = method.posteriors(mixture, points)
    assert likelihood.mean() == pytest.approx(history[-1])


def test_each_dimension_takes_the_density_it_follows() -> None:
    mixture = method.fit_mixture(two_shapes(), 2, 0)[0]
    order = np.argsort(mixture.location[:, 0])
    assert mixture.laplacian[order].tolist() == [[True, False], [False, True]]
    assert mixture.location[order[0]] == pytest.approx([-9, -9], abs=0.2)
    assert mixture.scale[order] == pytest.approx(np.array([[1, 2], [1, 2]]), rel=0.1)
    assert mixture.weights == pytest.approx([0.5, 0.5], abs=0.01)
    # Scales have a floor.
    points = np.array([[0.0], [0.0], [0.0], [5.0], [9.0]])
    scale = method.fit_mixture(points, 3, 0)[0].scale
    assert scale.min() == pytest.approx(0.01 * points.std())


ROWS = (np.random.default_rng(0).standard_normal((80, 6)) * [5, 1, 3, 0.5, 2, 0.1] + 7).astype(np.float32)


@pytest.mark.parametrize("cuts", [[], [1], [30, 60]])
def test_directions_equal_those_of_the_decomposition(cuts: list[int]) -> None:
    mean, directions = principal(np.split(ROWS, cuts), 4)
    rows = ROWS.astype(np.float64)
    assert mean == pytest.approx(rows.mean(axis=0))
    expected = np.linalg.svd(rows - rows.mean(axis=0))[2][:4]
    assert np.abs((directions * expected).sum(axis=1)) == pytest.approx(np.ones(4), abs=1e-6)
    assert (directions[np.arange(4), np.abs(directions).argmax(axis=1)] > 0).all()
