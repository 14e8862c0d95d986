"""Fisher vectors of captions from a file of word vectors to rows."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tests.extract.texts.vector_files import as_npz
from tests.naive import extract as naive
from vse_pipe.core.errors import InputError
from vse_pipe.extract.text_methods import Corpus, State
from vse_pipe.extract.texts import hglmm as method

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


def test_vectors_equal_a_plain_loop(file: str) -> None:
    state, params = fitted(file)
    found = method.transform(TEXTS, state, params)
    assert found.shape == (60, 2 * 3 * 3)
    assert found.dtype == np.float32
    mixture = {name: state.arrays[name].tolist() for name in ("weights", "laplacian", "location", "scale")}
    table = dict(zip(WORDS, VECTORS.tolist(), strict=True))
    for text, row in list(zip(TEXTS, found.tolist(), strict=True))[45:]:
        words = [table[token] for token in text.lower().split() if token in table]
        assert row == pytest.approx(naive.improved(naive.fisher_vector(words, mixture)), abs=1e-5)
    assert not found[59].any()
    assert np.linalg.norm(found[:59], axis=1) == pytest.approx(np.ones(59), abs=1e-6)


def test_the_mixture_is_of_the_words_of_the_train_captions(file: str) -> None:
    first, _ = fitted(file)
    other, _ = fitted(file, Corpus([*TEXTS[:50], "w59 w58"], ["train"] * 50 + ["test"]))
    for name in ("weights", "laplacian", "location", "scale", "ica", "ica_mean"):
        np.testing.assert_array_equal(first.arrays[name], other.arrays[name])
    train = {word for text in TEXTS[:50] for word in text.split()}
    assert first.about["mixture"]["words"] == len(train)
    assert set(first.words) > train


def test_how_often_a_word_occurs_does_not_change_the_mixture(file: str) -> None:
    first, _ = fitted(file)
    other, _ = fitted(file, Corpus([*TEXTS, *TEXTS[:20]], [*CORPUS.splits, *["train"] * 20]))
    np.testing.assert_array_equal(first.arrays["location"], other.arrays["location"])


def test_blocks_do_not_change_a_caption(file: str) -> None:
    state, params = fitted(file)
    whole = method.transform(TEXTS, state, params)
    pieces = [method.transform(TEXTS[start : start + 7], state, params) for start in range(0, 60, 7)]
    np.testing.assert_allclose(np.concatenate(pieces), whole, atol=1e-6)


def test_the_seed_decides(file: str) -> None:
    first, again, other = (fitted(file, seed=seed, ica="all")[0].arrays["location"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_independent_components_have_variance_one_and_are_the_sources(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    words = [f"w{number}" for number in range(3000)]
    sources = np.column_stack([random.laplace(size=3000), random.uniform(-1, 1, 3000)])
    file = as_npz(tmp_path / "v.npz", words, (sources @ [[2.0, 1.0], [1.0, 3.0]] + 5).astype(np.float32))
    corpus = Corpus([" ".join(words)], ["train"])
    state, _ = fitted(str(file), corpus, ica="all", max_iterations=5, tolerance=1e3)
    points = state.arrays["vectors"][np.argsort([int(word[1:]) for word in state.words])]
    assert np.cov(points.T, bias=True) == pytest.approx(np.eye(2), abs=1e-3)
    alike = np.abs(np.corrcoef(points.T, sources.T)[:2, 2:])
    assert np.sort(alike.max(axis=1)) == pytest.approx([1, 1], abs=0.01)


def test_fewer_independent_components(file: str) -> None:
    state, params = fitted(file, ica=2)
    assert method.transform(TEXTS, state, params).shape == (60, 2 * 3 * 2)


def test_principal_components_of_the_train_captions(file: str) -> None:
    full_state, full = fitted(file)
    state, params = fitted(file, pca=4, block=16)
    found = method.transform(TEXTS, state, params)
    vectors = method.transform(TEXTS, full_state, full).astype(np.float64)
    centred = vectors - vectors[:50].mean(axis=0)
    directions = np.linalg.svd(centred[:50])[2][:4]
    assert found.shape == (60, 4)
    assert np.abs(found[:59]) == pytest.approx(np.abs(centred[:59] @ directions.T), abs=1e-5)
    assert not found[59].any()
    assert state.about["pca_captions"] == 50


def test_a_sample_of_the_train_captions_for_the_principal_components(file: str) -> None:
    state, _ = fitted(file, pca=4, pca_captions=20)
    again, _ = fitted(file, pca=4, pca_captions=20)
    other, _ = fitted(file, pca=4, pca_captions=20, seed=5)
    assert state.about["pca_captions"] == 20
    np.testing.assert_array_equal(state.arrays["pca"], again.arrays["pca"])
    assert not np.array_equal(state.arrays["pca_mean"], other.arrays["pca_mean"])


@pytest.mark.parametrize(("options", "message"), [
    ({"components": 61}, r"components is 61, the train captions hold \d+ known words"),
    ({"ica": 4}, "ica asks for 4 components of .* known words with 3 dimensions"),
    ({"pca": 19}, "pca is 19, but 50 train captions with 18 dimensions"),
    ({"pca": 12, "pca_captions": 12}, "pca is 12, but 12 train captions"),
])  # fmt: skip
def test_too_few_words_or_captions(file: str, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fitted(file, **options)


def test_too_few_words_for_independent_components(file: str) -> None:
    with pytest.raises(InputError, match="ica asks for 3 components of 2 known words"):
        fitted(file, Corpus(["w01 w02"], ["train"]), ica="all", components=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_iterations": 1, "tolerance": 0.0}, "the mixture still gained after 1 iterations"),
        ({"ica": "all", "ica_iterations": 1}, "the ICA did not converge in 1 iterations"),
    ],
)
def test_what_did_not_converge_is_said(file: str, options: dict, message: str, capsys: pytest.CaptureFixture) -> None:
    fitted(file, **options)
    assert message in capsys.readouterr().err


def test_defaults_are_those_of_the_paper() -> None:
    params = method.Params(vectors="v.bin")
    assert (params.components, params.ica, params.unit, params.pca) == (30, "all", True, None)


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_word_vectors_that_do_not_vary(tmp_path: Path, value: float) -> None:
    file = str(as_npz(tmp_path / "v.npz", WORDS, np.full((60, 3), value, np.float32)))
    with pytest.raises(InputError, match=r"hglmm: the word vectors do not vary .*; set ica: none"):
        fitted(file, ica="all")
    state, params = fitted(file, ica="none")
    assert np.isfinite(method.transform(TEXTS, state, params)).all()


def test_the_memory_of_a_block_is_for_the_words_in_use() -> None:
    """float64 would be twice the vocabulary, for every block of captions."""
    mixture = {"weights": np.ones(1), "laplacian": np.zeros((1, 200), np.uint8)}
    mixture |= {"location": np.zeros((1, 200)), "scale": np.ones((1, 200))}
    vectors = np.ones((20_000, 200), np.float32)
    state = State([f"w{number}" for number in range(len(vectors))], {"vectors": vectors, **mixture})
    params = method.Params(vectors="v.bin")
    method.transform(["w1"], state, params)
    tracemalloc.start()
    method.transform(["w1 w7"], state, params)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < vectors.nbytes / 2


def test_terms_are_the_words_of_the_text():
    assert method.terms("A Dog", method.Params(vectors="none.npz")) == ["a", "dog"]
