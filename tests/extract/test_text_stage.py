"""The stage from captions to text features on disk."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.extract.texts import project
from tests.extract.texts.project import OUT, as_npz
from vse_pipe.artifacts import texts
from vse_pipe.core.errors import IntegrityError, MissingResource
from vse_pipe.extract.text_stage import extract_texts


@pytest.fixture
def tiny(folder: Path) -> Path:
    project.prepared()
    return folder


def extract(method: str = "words", **options) -> dict[str, bytes]:
    """The stage with these options; what there is then."""
    assert extract_texts(project.params(method, **options), "node") == OUT
    return contents()


def contents() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in OUT.iterdir()}


def fingerprint() -> str:
    return json.loads((OUT / "meta.json").read_text())["fingerprint"]


def test_token_ids_of_every_caption_in_the_order_of_the_data_set(tiny: Path) -> None:
    extract(min_count=1)
    found = texts.read(OUT)
    assert found.caption_ids.tolist() == project.IDS
    tokens, lengths = found.tokens.padded(np.arange(6))
    words = [[found.words[token] for token in row[:length]] for row, length in zip(tokens, lengths, strict=True)]
    assert words[0] == ["<start>", "a", "red", "ball", "<end>"]
    assert words[5] == ["<start>", "<unk>", "<end>"]


def test_what_is_there_is_left_as_it_is(tiny: Path, capsys: pytest.CaptureFixture) -> None:
    extract()
    before = {path.name: path.stat().st_mtime_ns for path in OUT.iterdir()}
    extract()
    assert "is up to date" in capsys.readouterr().err
    assert {path.name: path.stat().st_mtime_ns for path in OUT.iterdir()} == before


def test_other_captions_options_or_seeds_are_other_features(tiny: Path) -> None:
    marks = set()
    for options in ({}, {"max_words": 3}, {"seed": 2}):
        extract(**options)
        marks.add(fingerprint())
    project.prepared([*project.TEXTS[:5], "another"])
    extract()
    assert len(marks | {fingerprint()}) == 4


@pytest.mark.parametrize(("name", "damaged", "said"), [
    ("tokens.npy", lambda whole: whole[:-1] + b"x", "does not match the digest"),
    *(("meta.json", lambda whole, meta=meta: meta, "they are made again now") for meta in (b"[]", b"7", b"{")),
])  # fmt: skip
def test_damaged_features_are_made_again(tiny: Path, capsys, name: str, damaged: Callable, said: str) -> None:
    first = extract()
    (OUT / name).write_bytes(damaged(first[name]))
    assert extract() == first
    assert said in capsys.readouterr().err


@pytest.fixture
def vectors(tiny: Path) -> str:
    words = ["red", "ball", "blue", "dog", "big"]
    return str(as_npz(tiny / "v.npz", words, np.arange(15, dtype=np.float32).reshape(5, 3)))


def test_vectors_of_every_caption_block_by_block(tiny: Path, vectors: str, capsys: pytest.CaptureFixture) -> None:
    extract("mean_vectors", vectors=vectors, block=4)
    found = texts.read(OUT)
    assert (found.kind, found.array.dtype) == ("vectors", np.float32)
    assert found.caption_ids.tolist() == project.IDS
    assert found.array[found.rows].tolist()[0] == [1.5, 2.5, 3.5]
    assert not found.array[5].any()
    assert "1 of 6 captions hold no known word; their vectors are zero" in capsys.readouterr().err
    assert found.words == ["ball", "big", "blue", "dog", "red"]
    assert load_file(OUT / "state.safetensors")["vectors"].shape == (5, 3)
    extract("mean_vectors", vectors=vectors, store="float16")
    assert texts.read(OUT).array.dtype == np.float16


def test_word_vectors_that_are_not_there_changed_or_not_those_expected(tiny: Path, vectors: str) -> None:
    with pytest.raises(MissingResource, match=r"gone\.bin: no such file; text features of method 'mean_vectors'"):
        extract("mean_vectors", vectors="gone.bin")
    first = extract("mean_vectors", vectors=vectors, sha256=hashlib.sha256(Path(vectors).read_bytes()).hexdigest())
    with pytest.raises(IntegrityError, match=r"v\.npz: sha256 is [0-9a-f]{64}, expected 0{64}"):
        extract("mean_vectors", vectors=vectors, sha256="0" * 64)
    assert extract("mean_vectors", vectors=vectors)["features.npy"] == first["features.npy"]
    as_npz(Path(vectors), ["red", "ball"], np.ones((2, 3), np.float32))
    assert extract("mean_vectors", vectors=vectors)["features.npy"] != first["features.npy"]


@pytest.mark.parametrize(("method", "options", "shape"), [
    ("words", {}, None),
    ("tfidf", {"size": 4}, (6, 4)),
    ("mean_vectors", {"vectors": "v.npz"}, (6, 3)),
    ("hglmm", {"vectors": "v.npz", "components": 2, "ica": 2, "pca": 3}, (6, 3)),
])  # fmt: skip
def test_every_method_runs_through_the_stage_and_gives_the_same_bytes_twice(tiny, vectors, method, options, shape):
    first = extract(method, **options)
    found = texts.read(OUT)
    assert shape is None or found.array.shape == shape
    assert method != "hglmm" or found.meta["mixture"]["words"] == 5
    (OUT / "meta.json").unlink()
    assert extract(method, **options) == first
