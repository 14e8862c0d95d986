"""Tables of captions, pairs, phrases and regions."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.hostile import Hostile
from vse_pipe.artifacts import pairs, regions
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource
from vse_pipe.core.files import sha256


def _saved(folder: Path, values, dtype="int64") -> Path:
    path = folder / "index.npy"
    np.save(path, np.asarray(values, dtype))
    return path


def _read(path: Path, images: int = 4, captions: int = 8) -> np.ndarray:
    return pairs.read_noise_index(path, sha256(path), images, captions)


BAD = [
    ([0, 1, 2], "int64", r"int64 \(3,\) is no index; expected a position, 0 to 3, for each of 4 train images"),
    ([1, 2, 3, 4], "int64", "is no index"),
    ([0, 1, 2, 2**63], "uint64", "uint64 .* is no index"),
    ([0, 1, 1, 3], "int64", "each once"),
]


@pytest.mark.parametrize(("values", "dtype", "message"), BAD, ids=str)
def test_refuses_what_is_no_index(tmp_path, values, dtype, message):
    with pytest.raises(InputError, match=message) as caught:
        _read(_saved(tmp_path, values, dtype))
    assert str(caught.value).startswith(str(tmp_path / "index.npy"))


def test_pickled_objects_are_not_loaded(tmp_path):
    path, written = tmp_path / "index.npy", tmp_path / "pwned.txt"
    np.save(path, np.array([Hostile(written)], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="Python objects"):
        _read(path)
    assert not written.exists()


def test_another_file_than_the_digest_is_of_or_none(tmp_path):
    path = _saved(tmp_path, [0, 1, 2, 3])
    with pytest.raises(IntegrityError, match=f"sha256 is {sha256(path)}, expected 00"):
        pairs.read_noise_index(path, "0" * 64, 4, 8)
    with pytest.raises(MissingResource, match=r"gone\.npy does not exist; put the index file there"):
        pairs.read_noise_index(tmp_path / "gone.npy", "0" * 64, 4, 8)


PHRASE = {
    "phrase_id": 1, "caption_id": 1, "image_id": 1, "chain": 7, "start": 0, "text": "a dog", "type": "animals",
    "x1": 0.0, "y1": 2.0, "x2": 4.0, "y2": 2.0, "split": "test",
    "region_id": None,
}  # fmt: skip
REGION = {
    "image_id": 1, "source_id": 9, "x1": 0.0, "y1": 2.0, "x2": 4.0, "y2": 2.0, "proposed": False, "score": 0.0,
    "split": "test",
}  # fmt: skip


def test_a_box_of_one_row_of_pixels_is_one(tmp_path):
    regions.write_phrases(tmp_path, pa.Table.from_pylist([PHRASE]))
    regions.write(tmp_path, pa.Table.from_pylist([REGION]), "data/prepare/whole")
    assert regions.read_phrases(tmp_path).to_pylist() == [PHRASE]
    found = regions.read(tmp_path)
    assert (found.to_pylist(), str(regions.source(found))) == ([REGION], "data/prepare/whole")


def test_what_is_no_box_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"phrase_id 1: no box: 0.0, 2.0, -1.0, 2.0"):
        regions.write_phrases(tmp_path, pa.Table.from_pylist([PHRASE | {"x2": -1.0}]))
