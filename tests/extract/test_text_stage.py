"""The stage from captions to text features on disk."""

import json
from pathlib import Path

import numpy as np
import pytest

from pipeline.artifacts import texts
from pipeline.errors import InputError, LockedError
from pipeline.extract import text_stage
from pipeline.extract.text_stage import extract_texts
from pipeline.locks import claim
from tests.extract.texts import project
from tests.extract.texts.project import OUT


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    project.prepared()
    return tmp_path


def contents() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in OUT.iterdir()}


def test_token_ids_of_every_caption_in_the_order_of_the_data_set(tiny: Path) -> None:
    assert extract_texts(project.params(min_count=1), "node") == OUT
    found = texts.read(OUT)
    assert found.caption_ids.tolist() == project.IDS
    tokens, lengths = found.tokens.padded(np.arange(6))
    words = [
        [found.words[token] for token in row[:length]] for row, length in zip(tokens, lengths, strict=True)
    ]
    assert words[0] == ["<start>", "a", "red", "ball", "<end>"]
    assert words[5] == ["<start>", "<unk>", "<end>"]


def test_meta_says_what_they_are(tiny: Path) -> None:
    extract_texts(project.params(min_count=2), "node")
    meta = json.loads((OUT / "meta.json").read_text())
    assert meta["kind"] == "tokens"
    assert meta["method"] == "words"
    assert meta["dataset"] == "tiny"
    assert meta["options"] == {"min_count": 2, "max_words": 100}
    assert meta["libraries"].keys() == {"numpy", "nltk"}
    assert meta["sha256"].keys() == {"tokens.npy", "index.parquet", "vocabulary.json"}
    assert "seconds" not in json.dumps(meta)
    assert (OUT.parent / "node.timing.json").is_file()


def test_what_is_there_is_left_as_it_is_and_the_same_call_gives_the_same_bytes(
    tiny: Path, capsys: pytest.CaptureFixture
) -> None:
    extract_texts(project.params(), "node")
    before = {path.name: path.stat().st_mtime_ns for path in OUT.iterdir()}
    first = contents()
    extract_texts(project.params(), "node")
    assert "is up to date" in capsys.readouterr().err
    assert {path.name: path.stat().st_mtime_ns for path in OUT.iterdir()} == before
    (OUT / "meta.json").unlink()
    extract_texts(project.params(), "node")
    assert contents() == first


def test_other_captions_options_or_seeds_are_other_features(tiny: Path) -> None:
    marks = set()

    def mark(**options) -> None:
        extract_texts(project.params(**options), "node")
        marks.add(json.loads((OUT / "meta.json").read_text())["fingerprint"])

    mark()
    mark(max_words=3)
    mark(seed=2)
    project.prepared([*project.TEXTS[:5], "another"])
    mark()
    assert len(marks) == 4


def test_damaged_features_are_made_again(tiny: Path, capsys: pytest.CaptureFixture) -> None:
    extract_texts(project.params(), "node")
    first = contents()
    (OUT / "tokens.npy").write_bytes(first["tokens.npy"][:-1] + b"x")
    extract_texts(project.params(), "node")
    assert "does not match the digest" in capsys.readouterr().err
    assert contents() == first


def test_a_data_set_that_is_not_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        InputError, match=r"captions\.parquet does not exist.*vse-pipe prepare --dataset tiny"
    ):
        extract_texts(project.params(), "node")


def test_a_second_writer_is_refused(tiny: Path) -> None:
    with claim(OUT), pytest.raises(LockedError, match="is being written by process"):
        extract_texts(project.params(), "node")


def test_a_call_that_fails_leaves_what_was_there(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extract_texts(project.params(), "node")
    first = contents()
    monkeypatch.setattr(text_stage.texts, "write_tokens", lambda *a: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        extract_texts(project.params(max_words=2), "node")
    assert contents() == first
