"""Text features on disk: what was written comes back, damage and misfits are refused, nothing is half-written."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from vse_pipe.artifacts import texts
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.text import END, PAD, SPECIAL, START

IDS = np.array([30, 10, 20])
TOKENS = np.array([START, 4, END, START, 5, 4, 5, END, START, END], np.int32)
BLOCK = TOKENS, np.array([3, 5, 2]), 1
WORDS = [*SPECIAL, "dog", "cat"]
ROWS = np.array([[1.0, 2.0], [0.0, 0.0], [3.0, -1.0]], np.float32)


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    texts.write(tmp_path / "words", "tokens", IDS, [BLOCK], {"method": "words"}, WORDS)
    return tmp_path / "words"


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    blocks = map(texts.of_vectors, np.split(ROWS, [2]))
    texts.write(tmp_path / "mean", "vectors", IDS, blocks, {"method": "mean_vectors"}, ["dog"], {"vectors": ROWS[:1]})
    return tmp_path / "mean"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_tokens_come_back(tokens: Path) -> None:
    found = texts.read(tokens)
    assert (found.kind, found.caption_ids.tolist(), found.words) == ("tokens", [30, 10, 20], WORDS)
    assert found.array is None
    assert found.meta["method"] == "words"
    padded, lengths = found.tokens.padded(found.places_of(np.array([10, 30])))
    assert padded.dtype == np.int64
    assert padded.tolist() == [[START, 5, 4, 5, END], [START, 4, END, PAD, PAD]]
    assert lengths.tolist() == [5, 3]
    assert np.load(tokens / "tokens.npy").dtype == np.int32
    assert sorted(contents(tokens)) == ["index.parquet", "made_from.json", "meta.json", "tokens.npy", "vocabulary.json"]


@pytest.mark.parametrize("store", [np.float32, np.float16])
def test_vectors_come_back(tmp_path: Path, store: type) -> None:
    out = tmp_path / "mean"
    state = {"vectors": ROWS[:1], "transposed": np.arange(6.0).reshape(2, 3).T}
    blocks = map(texts.of_vectors, np.split(ROWS.astype(store), [1]))
    assert texts.write(out, "vectors", IDS, blocks, {"a": 1}, ["dog"], state) == 1
    found = texts.read(out)
    assert isinstance(found.array, np.memmap)
    assert (found.kind, found.array.dtype, found.words, found.tokens) == ("vectors", store, ["dog"], None)
    assert found.array[found.rows[found.places_of(np.array([20, 30]))]].tolist() == [[3.0, -1.0], [1.0, 2.0]]
    assert found.meta["shape"] == [3, 2]
    assert load_file(out / "state.safetensors")["transposed"].tolist() == state["transposed"].tolist()


def test_a_caption_without_features_is_named(tokens: Path) -> None:
    with pytest.raises(InputError, match="2 captions have no text features, the first is caption_id 11"):
        texts.read(tokens).places_of(np.array([10, 11, 99]))


OF_TOKENS = ("tokens.npy", "index.parquet", "vocabulary.json")
OF_VECTORS = ("features.npy", "state.safetensors")


@pytest.mark.parametrize(
    ("kind", "name"), [*(("tokens", name) for name in OF_TOKENS), *(("vectors", name) for name in OF_VECTORS)]
)
def test_a_changed_or_missing_file(kind: str, name: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(kind)
    content = bytearray((folder / name).read_bytes())
    content[-2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(IntegrityError, match=f"{name}: content does not match the digest"):
        texts.read(folder)
    (folder / name).unlink()
    with pytest.raises(InputError, match=f"{name} does not exist"):
        texts.read(folder)
