"""Judgements of correct pairs: of collections, and in files."""

import importlib.util
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.evaluate.files import sample, write
from vse_pipe.core.errors import InputError
from vse_pipe.evaluate import judgements
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking.files import Book

there = importlib.util.find_spec("eccv_caption")
installed = pytest.mark.skipif(there is None, reason="needs the package eccv_caption (extra: eccv)")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of that name with four judgements, whose code must not run."""
    data = tmp_path / "eccv_caption" / "data"
    data.mkdir(parents=True)
    (tmp_path / "eccv_caption" / "__init__.py").write_text("raise RuntimeError('imported')")
    (data / "eccv_image_to_caption.json").write_text('{"7": [70, 71], "8": [71]}')
    (data / "eccv_caption_to_image.json").write_text('{"70": [7]}')
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "eccv_caption", raising=False)
    return data


def test_each_direction_has_its_own_judgements_and_a_damaged_package_is_named(package):
    found = judgements.read_qrels("eccv_caption").pairs
    assert [ids.tolist() for ids in found["image_to_text"]] == [[7, 7, 8], [70, 71, 71]]
    assert [ids.tolist() for ids in found["text_to_image"]] == [[70], [7]]
    (package / "eccv_caption_to_image.json").write_text("{")
    with pytest.raises(InputError, match=r"eccv_caption_to_image.json: not a JSON document"):
        judgements.read_eccv("eccv_caption")


@installed
@pytest.mark.parametrize(("name", "queries"), [("eccv_caption", (1261, 1332)), ("cxc", (5000, 24972))])
def test_the_collections_have_the_published_number_of_queries(name, queries):
    found = judgements.read_eccv(name).pairs
    assert (len(set(found["image_to_text"][0])), len(set(found["text_to_image"][0]))) == queries


PAIRS = {(10, 1), (10, 2), (11, 2)}


def pairs(path) -> tuple[set, set]:
    """(caption, image) of both directions."""
    found = judgements.read_qrels(str(path)).pairs
    both = found["text_to_image"], found["image_to_text"][::-1]
    return tuple(set(zip(*map(np.ndarray.tolist, columns), strict=True)) for columns in both)


@pytest.mark.parametrize(
    "text",
    [
        "caption_id\timage_id\n10\t1\n10\t2\n11\t2\n",
        "10 0 1 1\n10 0 2 2\n11 0 2 1\n11 0 1 0\n12 0 1 -1\n",
    ],
)
def test_text_with_a_header_or_trec_lines(tmp_path, text):
    (tmp_path / "q.txt").write_text(text, encoding="utf-8", newline="")
    assert pairs(tmp_path / "q.txt") == (PAIRS, PAIRS)


def test_lines_that_name_the_image_first_are_refused(tmp_path):
    vectors = sample()
    rows = zip(vectors.owners, vectors.caption_ids, strict=True)
    (tmp_path / "q.txt").write_text("".join(f"{image} 0 {caption} 1\n" for image, caption in rows))
    files = replace(write(vectors, tmp_path), qrels=str(tmp_path / "q.txt"))
    with pytest.raises(InputError, match="none of its image_ids is in the files"):
        files.ranked(["nns"], EvaluateParams())


def test_parquet(tmp_path):
    columns = {"image_id": [1, 2, 2, 1], "caption_id": [10, 10, 11, 11], "relevance": [0.5, 1.0, 2.0, 0.0]}
    pq.write_table(pa.table(columns), tmp_path / "q.parquet")
    assert pairs(tmp_path / "q.parquet") == (PAIRS, PAIRS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("caption_id image\n1 2\n", "1 rows of caption_id, image; expected a header with"),
        ("caption_id image_id\n1 2\nx 3\n", "the caption_ids are text, those of a.npy are numbers"),
        ("1 0 2 yes\n", "row 1: relevance 'yes' is not a finite number"),
        ("1 0 2 0\n", "no pair with a relevance above 0 among 1 lines"),
    ],
)
def test_unfit_text_is_refused_with_its_line(tmp_path, text, message):
    (tmp_path / "q.txt").write_text(text)
    book = Book()
    book.numbers("caption_id", "a.npy", pa.array(["0", "1", "2"]))
    with pytest.raises(InputError, match=message):
        judgements.read_qrels(str(tmp_path / "q.txt"), book)
