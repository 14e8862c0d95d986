"""Means of word vectors against a plain loop."""

from pathlib import Path

import numpy as np
import pytest

from tests.extract.texts.project import WORDS, as_npz, vectors
from tests.naive import extract as naive
from vse_pipe.extract.text_methods import Corpus
from vse_pipe.extract.texts import mean_vectors as method

TEXTS = ["A red dog", "red red ball", "unknown words", "a big caf\u00e9", "DOG"]
CORPUS = Corpus(TEXTS, ["train", "train", "val", "test", "test"])


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(as_npz(tmp_path / "v.npz", WORDS, vectors()))


def test_means_equal_a_plain_loop(file: str) -> None:
    params = method.Params(vectors=file)
    state = method.fit(CORPUS, params, 0)
    found = method.transform(TEXTS, state, params)
    table = dict(zip(WORDS, vectors().tolist(), strict=True))
    expected = [naive.mean_vector(text.lower().split(), table, 4) for text in TEXTS]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found[2].tolist() == [0, 0, 0, 0]


def test_only_the_words_of_the_captions_are_kept_and_the_others_counted(file: str) -> None:
    state = method.fit(CORPUS, method.Params(vectors=file), 0)
    assert state.words == ["ball", "big", "caf\u00e9", "dog", "red"]
    assert state.arrays["vectors"].shape == (5, 4)
    assert state.about["words"] == {"known_words": 5, "unknown_words": 3, "known_share_of_text": 8 / 12}


def test_the_case_can_be_kept(file: str) -> None:
    params = method.Params(vectors=file, lower=False)
    state = method.fit(CORPUS, params, 0)
    assert not method.transform(["DOG"], state, params).any()
    assert method.transform(["dog"], state, params).any()


def test_words_of_unit_length(file: str) -> None:
    params = method.Params(vectors=file, unit=True)
    state = method.fit(CORPUS, params, 0)
    assert np.linalg.norm(state.arrays["vectors"], axis=1) == pytest.approx(np.ones(5), abs=1e-6)
    expected = naive.texts_unit(vectors()[0].tolist())
    assert method.transform(["dog dog"], state, params)[0] == pytest.approx(np.array(expected), abs=1e-6)


def test_defaults() -> None:
    shown = method.Params(vectors="v.bin").model_dump()
    assert shown == {
        "vectors": "v.bin",
        "words": None,
        "sha256": None,
        "lower": True,
        "unit": False,
        "store": "float32",
        "block": 256,
    }


def test_terms_follow_the_case_that_words_are_looked_up_in():
    params = method.Params(vectors="none.npz")
    assert method.terms("A Dog", params) == ["a", "dog"]
    assert method.terms("A Dog", params.model_copy(update={"lower": False})) == ["A", "Dog"]
