"""The stage from captions to text features on disk."""

import hashlib
import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.extract.texts import project
from tests.extract.texts.project import OUT, as_npz
from vse_pipe.artifacts import captions, texts
from vse_pipe.core.errors import InputError, IntegrityError, LockedError, MissingResource
from vse_pipe.core.locks import claim
from vse_pipe.extract import text_stage
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.project import paths
from vse_pipe.project.registry import TEXT_FEATURES


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
    words = [[found.words[token] for token in row[:length]] for row, length in zip(tokens, lengths, strict=True)]
    assert words[0] == ["<start>", "a", "red", "ball", "<end>"]
    assert words[5] == ["<start>", "<unk>", "<end>"]


def test_a_vocabulary_without_a_word_is_warned_about(tiny: Path, capsys: pytest.CaptureFixture) -> None:
    said = "no word of the train and val captions is kept"
    extract_texts(project.params(min_count=1), "node")
    assert said not in capsys.readouterr().err
    extract_texts(project.params(min_count=1000), "node")
    assert said in capsys.readouterr().err


def test_captions_that_are_prepared_anew_meanwhile_leave_what_was_there(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extract_texts(project.params(min_count=1), "node")
    before, prepared = contents(), paths.prepared("tiny")
    method = TEXT_FEATURES.load("words")
    fit = method.fit

    def meanwhile(*given: object) -> object:
        found = fit(*given)
        captions.write(prepared, captions.read(prepared))
        return found

    monkeypatch.setattr(method, "fit", meanwhile)
    with pytest.raises(
        IntegrityError, match=r"captions\.parquet: written anew while it was read; run the same command"
    ):
        extract_texts(project.params(min_count=2), "node")
    assert contents() == before


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
    with pytest.raises(InputError, match=r"captions\.parquet does not exist.*vse-pipe prepare --dataset tiny"):
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


@pytest.fixture
def vectors(tiny: Path) -> str:
    words = ["red", "ball", "blue", "dog", "big"]
    return str(as_npz(tiny / "v.npz", words, np.arange(15, dtype=np.float32).reshape(5, 3)))


def test_vectors_of_every_caption_block_by_block(tiny: Path, vectors: str, capsys: pytest.CaptureFixture) -> None:
    extract_texts(project.params("mean_vectors", vectors=vectors, block=4), "node")
    found = texts.read(OUT)
    assert found.kind == "vectors"
    assert found.caption_ids.tolist() == project.IDS
    assert found.array.dtype == np.float32
    assert found.array[found.rows].tolist()[0] == [1.5, 2.5, 3.5]
    assert not found.array[5].any()
    assert found.meta["zero_rows"] == 1
    assert "1 of 6 captions hold no known word; their vectors are zero" in capsys.readouterr().err
    assert found.words == ["ball", "big", "blue", "dog", "red"]
    assert load_file(OUT / "state.safetensors")["vectors"].shape == (5, 3)


def test_half_the_size_on_disk(tiny: Path, vectors: str) -> None:
    extract_texts(project.params("mean_vectors", vectors=vectors, store="float16"), "node")
    assert texts.read(OUT).array.dtype == np.float16


def test_values_too_large_for_the_store(tiny: Path) -> None:
    file = as_npz(tiny / "large.npz", ["red", "dog"], np.full((2, 3), 1e6, np.float32))
    with pytest.raises(InputError, match=r"caption row 0 is NaN or infinite as float16.*store: float32"):
        extract_texts(project.params("mean_vectors", vectors=str(file), store="float16"), "node")
    assert not OUT.exists()


def test_every_method_of_word_vectors_and_counts_runs_through_the_stage(tiny: Path, vectors: str) -> None:
    extract_texts(project.params("tfidf", size=4), "node")
    assert texts.read(OUT).array.shape == (6, 4)
    extract_texts(project.params("hglmm", vectors=vectors, components=2, ica="none", pca=3), "node")
    found = texts.read(OUT)
    assert found.array.shape == (6, 3)
    assert found.meta["mixture"]["words"] == 5


def test_the_word_vectors_are_part_of_the_fingerprint(tiny: Path, vectors: str) -> None:
    extract_texts(project.params("mean_vectors", vectors=vectors), "node")
    first = contents()
    as_npz(Path(vectors), ["red", "ball"], np.ones((2, 3), np.float32))
    extract_texts(project.params("mean_vectors", vectors=vectors), "node")
    assert contents()["features.npy"] != first["features.npy"]


def test_word_vectors_that_are_not_there_or_not_those_expected(tiny: Path, vectors: str) -> None:
    with pytest.raises(MissingResource, match=r"gone\.bin: no such file; text features of method 'mean_vectors'"):
        extract_texts(project.params("mean_vectors", vectors="gone.bin"), "node")
    pinned = hashlib.sha256(Path(vectors).read_bytes()).hexdigest()
    extract_texts(project.params("mean_vectors", vectors=vectors, sha256=pinned), "node")
    with pytest.raises(IntegrityError, match=r"v\.npz: sha256 is [0-9a-f]{64}, expected 0{64}"):
        extract_texts(project.params("mean_vectors", vectors=vectors, sha256="0" * 64), "node")


def test_a_package_that_is_not_installed(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        if package == "sentence-transformers":
            raise PackageNotFoundError(package)
        return "1"

    monkeypatch.setattr(text_stage, "version", version)
    message = r"'sentences' need the package sentence-transformers.*pip install 'vse-pipe\[sentences\]'"
    with pytest.raises(MissingResource, match=message):
        extract_texts(project.params("sentences", model="hub/name"), "node")


@pytest.mark.parametrize("method", ["mean_vectors", "tfidf", "hglmm"])
def test_the_same_call_gives_the_same_bytes(tiny: Path, vectors: str, method: str) -> None:
    options = {
        "mean_vectors": {"vectors": vectors},
        "tfidf": {},
        "hglmm": {"vectors": vectors, "components": 2, "ica": 2, "pca": 2},
    }[method]
    extract_texts(project.params(method, **options), "node")
    first = contents()
    (OUT / "meta.json").unlink()
    extract_texts(project.params(method, **options), "node")
    assert contents() == first


@pytest.mark.parametrize("meta", ["[]", "7", "{", None])
def test_a_folder_whose_meta_is_not_one_is_made_again(
    tiny: Path, capsys: pytest.CaptureFixture, meta: str | None
) -> None:
    extract_texts(project.params(), "node")
    first = contents()
    if meta is None:
        found = json.loads(first["meta.json"])
        meta = json.dumps({key: value for key, value in found.items() if key != "cut"})
    (OUT / "meta.json").write_text(meta)
    extract_texts(project.params(), "node")
    assert "they are made again now" in capsys.readouterr().err
    assert contents() == first


class Encoder:
    """A sentence encoder as the method sees it."""

    device = SimpleNamespace(type="cpu")
    max_seq_length = 8

    def encode(self, texts: list[str], **options) -> np.ndarray:
        return np.ones((len(texts), 2), np.float32)


@pytest.mark.parametrize("changed", ["config.json", "1_Pooling/config.json"])
def test_each_of_two_files_of_one_name_is_part_of_the_fingerprint(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, changed: str
) -> None:
    from vse_pipe.extract import text_methods

    monkeypatch.setattr(text_stage, "version", lambda package: "1")
    monkeypatch.setattr(text_methods, "_loaded", lambda *arguments: Encoder())
    folder = tiny / "model"
    (folder / "1_Pooling").mkdir(parents=True)
    for name in ("config.json", "1_Pooling/config.json"):
        (folder / name).write_text("{}")
    extract_texts(project.params("sentences", model=str(folder)), "node")
    first = json.loads((OUT / "meta.json").read_text())["fingerprint"]
    (folder / changed).write_text('{"a": 1}')
    extract_texts(project.params("sentences", model=str(folder)), "node")
    assert json.loads((OUT / "meta.json").read_text())["fingerprint"] != first
    assert "is up to date" not in capsys.readouterr().err
