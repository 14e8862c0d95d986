"""Mixtures of methods against the methods themselves, row by row."""

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.extract.texts import project
from tests.extract.texts.project import WORDS, as_npz, vectors
from tests.naive.extract import texts_unit
from tests.toy_project import PARAMS, load_params
from vse_pipe.artifacts import texts
from vse_pipe.core.errors import IntegrityError, ParamsError
from vse_pipe.extract.fitted import Fitted
from vse_pipe.extract.text_methods import Corpus
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.extract.texts import mean_vectors, tfidf
from vse_pipe.extract.texts import mixed as method

TEXTS = ["a red dog", "red red ball", "unknown zebra", "a big dog runs", "DOG"]
CORPUS = Corpus(TEXTS, ["train", "train", "val", "train", "test"])


@pytest.fixture
def parts(tmp_path: Path) -> list[dict]:
    file = str(as_npz(tmp_path / "v.npz", WORDS, vectors()))
    return [{"method": "tfidf", "size": 3, "weight": 0.5}, {"method": "mean_vectors", "vectors": file}]


def transformed(member: ModuleType, params: object) -> np.ndarray:
    return member.transform(TEXTS, member.fit(CORPUS, params, 0), params)


def test_rows_are_those_of_the_parts_at_their_weights(parts: list[dict]) -> None:
    found = transformed(method, method.Params(parts=parts))
    terms = transformed(tfidf, tfidf.Params(size=3))
    means = transformed(mean_vectors, mean_vectors.Params(vectors=parts[1]["vectors"]))
    pairs = zip(terms.tolist(), means.tolist(), strict=True)
    expected = [[*(0.5 * value for value in texts_unit(term)), *texts_unit(mean)] for term, mean in pairs]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert not found[2].any()


def test_what_was_learnt_is_enough_for_another_sentence(folder: Path, parts: list[dict]) -> None:
    project.prepared()
    extract_texts(project.params("mixed", parts=parts), "node")
    read = texts.read(project.OUT)
    assert read.array.shape == (6, 3 + 4)
    assert read.meta["libraries"].keys() >= {"numpy", "nltk", "scikit-learn", "scipy", "simplemma"}
    assert len(read.meta["files_sha256"]) == 1
    again = Fitted.of_folder(project.OUT, read.meta, read.meta["options"], []).transformed([project.TEXTS[3]])
    np.testing.assert_allclose(again.array[0], read.array[3], atol=1e-6)
    words = json.loads((project.OUT / "vocabulary.json").read_text())
    (project.OUT / "vocabulary.json").write_text(json.dumps(words[::-1]))
    with pytest.raises(IntegrityError, match=r"vocabulary\.json"):
        Fitted.of_folder(project.OUT, read.meta, read.meta["options"], [])


@pytest.mark.parametrize(("parts", "told"), [
    ([{"method": "tfidf"}], "texts.both.parts: list should have at least 2 items"),
    ([{"method": "tfidf"}, {"method": "words"}], "texts.both.parts.1.method: 'words' cannot be a part; those that can"),
    ([{"method": "tfidf"}, {"method": "tfid"}],
     "texts.both.parts.1.method: unknown text features 'tfid'; did you mean"),
    ([{"method": "tfidf", "sice": 3}, {"method": "tfidf"}],
     "texts.both.parts.0.sice: unknown key"),
    ([{"method": "mixed"}, {"method": "tfidf"}], "texts.both.parts.0"),
    ([{"method": "tfidf", "weight": 0.0}, {"method": "tfidf"}], "texts.both.parts.0.weight: input should be greater"),
])  # fmt: skip
def test_parts_that_do_not_fit(tmp_path: Path, parts: list[dict], told: str) -> None:
    both = {"dataset": "toy", "method": "mixed", "parts": parts}
    with pytest.raises(ParamsError) as error:
        load_params(tmp_path, texts={**PARAMS["texts"], "both": both})
    assert any(told in problem for problem in error.value.args), error.value.args


def test_of_one_file_in_two_parts_the_digest_that_is_given_counts(parts: list[dict]) -> None:
    pinned = {**parts[1], "sha256": "0" * 64}
    for order in ([pinned, parts[1]], [parts[1], pinned]):
        assert method.Params(parts=order).files() == {Path(parts[1]["vectors"]): "0" * 64}
