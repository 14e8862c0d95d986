"""BM25 against loops over words, and ensembles with it."""

import math
import re
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.evaluate.embedded import write_dataset
from tests.toy_project import load_params
from vse_pipe.core.errors import InputError
from vse_pipe.evaluate.bm25 import Bm25, WordWeights
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.project import paths
from vse_pipe.ranking.vectors import Vectors

TEXTS = ["A red dog runs", "a dog and a big dog", "the red car", "green trees", "Trees, green and red", "one blue car"]
OWNERS = [7, 7, 3, 3, 3, 9]


def _naive(query: str, document: list[str], documents: list[list[str]], k1: float, b: float) -> float:
    """documents: of all images; document: without the query's own caption."""
    words = Counter(re.findall(r"\w\w+", query.lower()))
    mean, count = sum(map(len, documents)) / len(documents), Counter(document)
    score = largest = 0.0
    for word, times in words.items():
        holding = sum(word in other for other in documents)
        idf = math.log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
        score += times * idf * count[word] / (count[word] + k1 * (1 - b + b * len(document) / mean))
        largest += times * idf
    return score / largest


def test_scores_are_those_of_loops_and_no_image_holds_the_caption_it_is_compared_with():
    texts = WordWeights.index(np.arange(6), np.array(OWNERS), TEXTS)
    found = texts(torch.arange(3)[:, None], torch.arange(6)[:, None])
    words = [re.findall(r"\w\w+", text.lower()) for text in TEXTS]

    def document(image: int, without: int = -1) -> list[str]:
        return [word for place, own in enumerate(words) if OWNERS[place] == image and place != without for word in own]

    images = sorted(set(OWNERS))
    for row, image in enumerate(images):
        for column, text in enumerate(TEXTS):
            expected = _naive(text, document(image, column), [document(other) for other in images], 1.5, 0.75)
            assert float(found[row, column]) == pytest.approx(expected, abs=1e-6)
    assert float(found[2, 5]) == 0.0  # its only caption is the query
    some = texts(torch.tensor([[2], [0]]), torch.tensor([[4], [1], [5]]))
    torch.testing.assert_close(some, found[[2, 0]][:, [4, 1, 5]])


@pytest.fixture
def params(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_dataset()
    both = {"runs": ["sum", "bm25"]}
    ensembles = {"both": both, "ranks": {**both, "rule": "rrf"}, "first": {"runs": ["bm25", "sum"], "rescore": 2}}
    return load_params(tmp_path, ensembles={**ensembles, "words": {**both, "weights": [0, 1]}})


def test_an_ensemble_joins_words_with_vectors(params):
    words = evaluate(params, "words", ["nns", "csls"], "cpu")["nns"]
    assert words["ensemble"] == {"runs": ["sum", "bm25"], "weights": [0, 1], "rule": "mean", "rescore": None}
    for name in ("both", "ranks", "first"):
        assert evaluate(params, name, ["nns", "dual_is"], "cpu")["nns"]["rsum"] != words["rsum"]


def test_a_bank_of_another_folder_is_refused(params):
    folder = params.evaluate.model_copy(update={"bank": str(paths.embedded("sum"))})
    with pytest.raises(InputError, match=r"bank from their own runs: evaluate\.bank test, train or val"):
        evaluate(replace(params, evaluate=folder), "both", ["is"], "cpu")


def test_images_of_one_caption_are_refused(params):
    split = Vectors.of_folder(paths.embedded("sum")).split("test", torch.device("cpu"))
    single = np.unique(split.caption_images, return_index=True)[1]
    few = replace(split, caption_ids=split.caption_ids[single], caption_images=split.caption_images[single])
    part = Bm25(
        SimpleNamespace(split=lambda *_: few, origin=Vectors.of_folder(paths.embedded("sum")).origin),
        paths.prepared("toy"),
    )
    with pytest.raises(
        InputError, match=r"each image of split 'test' has one caption, .* no texts to index; leave bm25"
    ):
        part.split("test", torch.device("cpu"))
