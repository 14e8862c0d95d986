"""prepare as a whole: the files it writes, the data it refuses, broken images."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.prepare._data import (
    ODD_CAPTIONS,
    entry,
    karpathy,
    one_line,
    picture,
    precomp,
    prepare,
    shard,
)
from vse_pipe.artifacts import captions, images
from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.prepare import assembly
from vse_pipe.project import paths


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    """Rows go to the disk in blocks of four."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(assembly, "BLOCK", 4)


def _entries() -> list[str]:
    return sorted(path.name for path in Path("data/prepare").iterdir())


def _two(captions: tuple[str, ...] = ("a cat", "a dog")) -> Path:
    return karpathy(Path("raw"), [entry(0, captions=captions), entry(1)])


def test_writes_two_tables_and_the_time(capsys):
    odd = tuple(ODD_CAPTIONS)
    out = prepare("karpathy", karpathy(Path("raw"), [entry(0), entry(1, "val"), entry(2, "test", odd)]))
    assert out == paths.prepared("tiny")
    assert _entries() == ["tiny", "tiny.timing.json"]
    assert sorted(path.name for path in out.iterdir()) == ["captions.parquet", "images.parquet", "made_from.json"]
    table = images.read(out)
    assert images.root(table) == Path("raw/images")
    assert table["image_id"].to_pylist() == [0, 1, 2]
    assert captions.read(out)["text"].to_pylist() == ["a cat", "a dog", "a cat", "a dog", *odd]
    assert json.loads(paths.timing_file(out).read_text()).keys() == {"seconds"}
    message = capsys.readouterr().err
    assert "prepare tiny: train 1 images / 2 captions, val 1 images / 2 captions, test 1 images / 9 captions" in message


@pytest.mark.parametrize(("kind", "write"), [("karpathy", lambda: _two()), ("precomp", lambda: precomp(Path("p")))])
def test_same_bytes_twice(kind, write):
    source = write()
    first, second = (_bytes(prepare(kind, source)) for _ in range(2))
    assert first == second


def _bytes(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir()}


def _nan():
    precomp(Path("raw"))
    np.save("raw/test_ims.npy", np.full((2, 4), np.nan, dtype=np.float32))


BAD = {
    "no image": ("karpathy", lambda: (_two(), Path("raw/images/1.png").unlink()), InputError,
                 "dataset_tiny.json images[1]: 1.png does not exist"),
    "one id twice": ("karpathy", lambda: karpathy(Path("raw"), [entry(0), entry(1) | {"imgid": 0, "sentences": [{"raw": "x", "sentid": 9}]}]),
                     InputError, "dataset_tiny.json images[1]: image_id '0' is given twice"),
    "nothing": ("karpathy", lambda: None, MissingResource, "source raw does not exist"),
    "nan": ("precomp", _nan, InputError,
            "2 of 6 images below raw cannot be used: test_ims.npy#0 holds NaN or infinite values"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "spoil", "error", "message"), BAD.values(), ids=BAD)
def test_bad_input_leaves_nothing_or_the_last_good_output(kind, spoil, error, message):
    spoil()
    with one_line(message, error) as caught:
        prepare(kind, "raw")
    assert caught.value.exit_status == {InputError: 3, MissingResource: 4}[error]
    assert _entries() == []
    _two()
    out = prepare("karpathy", "raw")
    before = _bytes(out)
    shutil.rmtree("raw")
    spoil()
    with one_line(message, error):
        prepare(kind, "raw")
    assert (_bytes(out), _entries()) == (before, ["tiny", "tiny.timing.json"])


@pytest.mark.parametrize("kind", ["karpathy", "webdataset"])
def test_empty_captions_and_images_without_any_are_left_out_and_told(kind, capsys):
    """An image of an empty and a good caption, one of an empty caption alone, and one without any."""
    texts = [["a cat", ""], ["\u200b"], []]
    if kind == "karpathy":
        path, options = karpathy(Path("raw"), [entry(k, captions=tuple(said)) for k, said in enumerate(texts)]), {}
    else:
        written = [(f"{k}.json", json.dumps({"caption": said or None}).encode()) for k, said in enumerate(texts)]
        members = [part for k, one in enumerate(written) for part in ((f"{k}.png", picture(k)), one)]
        path, options = shard(Path("raw/t.tar"), members[:-1]), {"val": 0.0, "test": 0.0, "caption": "json"}
    out = prepare(kind, path, **options)
    assert captions.read(out)["text"].to_pylist() == ["a cat"]
    assert images.read(out).num_rows == 1
    told = capsys.readouterr().err
    assert "captions without text: " in told
    assert "images without a caption: 2 (" in told


def test_broken_images_may_be_left_to_extract(capsys):
    karpathy(Path("raw"), [entry(k) for k in range(4)])
    Path("raw/images/1.png").write_bytes(b"<html>")
    Path("raw/images/3.png").unlink()
    out = prepare("karpathy", "raw", on_error="skip")
    table = images.read(out)
    assert (table["image_id"].to_pylist(), table["width"].to_pylist()) == ([0, 1, 2, 3], [8, 0, 8, 0])
    assert table["height"].to_pylist() == [6, 0, 6, 0]
    assert table["sha256"][1].as_py() == hashlib.sha256(b"<html>").hexdigest()
    assert table["sha256"][3].as_py() == images.UNREAD
    assert captions.read(out).num_rows == 8
    message = capsys.readouterr().err
    assert "2 of 4 images below raw/images cannot be used: dataset_tiny.json images[1]: 1.png is no image" in message


@pytest.mark.parametrize(("filename", "message"), [
    ("0.png", r"1 of 1 images .* No image is left; look at `source` and `images` in datasets.tiny"),
    ("../../secret.png", "lies outside its root"),
], ids=["no image is left", "a path outside of the root"])  # fmt: skip
def test_what_is_refused_in_any_case(filename, message):
    karpathy(Path("raw"), [entry(0)])
    Path("raw/images/0.png").unlink()
    Path("raw/dataset_tiny.json").write_text(json.dumps({"images": [entry(0) | {"filename": filename}]}))
    with pytest.raises(InputError, match=message):
        prepare("karpathy", "raw", on_error="skip")
    assert _entries() == []
