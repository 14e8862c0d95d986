"""prepare as a whole: the files it writes, the data it refuses, broken images, and the state after a refusal."""

import fcntl
import hashlib
import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.prepare._data import ODD_CAPTIONS, entry, karpathy, picture, pictures, precomp, prepare, three_splits
from vse_pipe.artifacts import captions, images
from vse_pipe.core.errors import InputError, LockedError, MissingResource
from vse_pipe.prepare import stage
from vse_pipe.prepare.source import Source, caption_table, image_table
from vse_pipe.project import paths, step
from vse_pipe.project.registry import FORMATS


@pytest.fixture(autouse=True)
def _own_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def _files() -> list[str]:
    return sorted(str(path.relative_to("data")) for path in Path("data").rglob("*") if path.is_file())


def _entries() -> list[str]:
    return sorted(path.name for path in Path("data/prepare").iterdir())


def test_writes_two_tables_and_the_time(capsys):
    out = prepare("karpathy", karpathy(Path("raw"), [entry(0), entry(1, "val"), entry(2, "test", ("one",))]))
    assert out == paths.prepared("tiny")
    assert _files() == [f"prepare/tiny{rest}" for rest in (".timing.json", "/captions.parquet", "/images.parquet")]
    table = images.read(out)
    assert images.root(table) == Path("raw/images")
    assert table["image_id"].to_pylist() == [0, 1, 2]
    assert captions.read(out)["text"].to_pylist() == ["a cat", "a dog", "a cat", "a dog", "one"]
    assert json.loads(step.timing_file(out).read_text()).keys() == {"seconds"}
    message = capsys.readouterr().err
    assert "prepare tiny: train 1 images / 2 captions, val 1 images / 2 captions, test 1 images / 1 captions" in message
    assert "repeated: 0 images, 2 captions" in message


def test_repeated_images_are_counted_and_those_across_splits_warned_of(capsys):
    karpathy(Path("raw"), [entry(0), entry(1), entry(2, "test")])
    for number in range(3):
        Path(f"raw/images/{number}.png").write_bytes(picture(0))
    prepare("karpathy", "raw")
    message = capsys.readouterr().err
    assert "repeated: 2 images, 4 captions" in message
    message = " ".join(message.split())
    told = "repeated images: 1.png as 0.png; 2.png as 0.png. Repeated images have the same sha256 in data/prepare/tiny/images.parquet"
    assert told in message
    told = "repeated captions: 'a cat' of image_id 1 as of 0; 'a dog' of image_id 1 as of 0; 'a cat' of image_id 2 as of 0; and 1 more. "
    assert f"{told}Repeated captions have the same text in data/prepare/tiny/captions.parquet" in message
    told = "1 images are in more than one split with the same content: 0.png (train), 1.png (train), 2.png (test)"
    assert f"warning: prepare tiny: {told}" in message


def test_odd_captions_survive_the_parquet():
    karpathy(Path("raw"), [entry(0, captions=tuple(ODD_CAPTIONS))])
    assert captions.read(prepare("karpathy", "raw"))["text"].to_pylist() == ODD_CAPTIONS


@pytest.mark.parametrize("kind", ["karpathy", "csv", "precomp"])
def test_same_bytes_twice(kind):
    source = {"karpathy": "k", "csv": "c/t.csv", "precomp": "p"}[kind]
    karpathy(Path("k"), [entry(0), entry(1, "test")])
    pictures(Path("c"), ["a.png", "b.png"])
    Path("c/t.csv").write_text("image,caption\na.png,x\nb.png,y\n")
    precomp(Path("p"), three_splits())

    def content() -> list[bytes]:
        return [(prepare(kind, source) / name).read_bytes() for name in (images.NAME, captions.NAME)]

    first = content()
    assert content() == first


def _no_image():
    karpathy(Path("raw"), [entry(0), entry(1)])
    Path("raw/images/1.png").unlink()


def _same_id():
    karpathy(Path("raw"), [entry(0), entry(1) | {"imgid": 0, "sentences": [{"raw": "x", "sentid": 9}]}])


def _nan():
    precomp(Path("raw"), three_splits())
    np.save("raw/test_ims.npy", np.full((2, 4), np.nan, dtype=np.float32))


BAD = [
    ("karpathy", _no_image, "dataset_tiny.json images[1]: 1.png does not exist", InputError),
    ("karpathy", _same_id, "dataset_tiny.json images[1]: imgid 0 was given to", InputError),
    ("karpathy", lambda: None, "source raw does not exist", MissingResource),
    (
        "precomp",
        _nan,
        "2 of 6 images below raw cannot be used: test_ims.npy#0 holds NaN or infinite values",
        InputError,
    ),
]


@pytest.mark.parametrize(("kind", "spoil", "message", "error"), BAD, ids=[case[1].__name__ for case in BAD])
def test_bad_input_leaves_nothing(kind, spoil, message, error):
    spoil()
    with pytest.raises(error) as caught:
        prepare(kind, "raw")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_status == {InputError: 3, MissingResource: 4}[error]
    assert _entries() == []


def test_a_failure_leaves_the_last_good_output():
    karpathy(Path("raw"), [entry(0), entry(1)])
    out = prepare("karpathy", "raw")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    Path("raw/images/1.png").unlink()
    with pytest.raises(InputError):
        prepare("karpathy", "raw")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert _entries() == ["tiny", "tiny.timing.json"]


def test_a_second_writer_is_refused():
    karpathy(Path("raw"), [entry(0)])
    Path("data/prepare").mkdir(parents=True)
    with Path("data/prepare/tiny.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(LockedError, match="data/prepare/tiny is being written"):
            prepare("karpathy", "raw")
    prepare("karpathy", "raw")


def _source(images_: list[tuple[int, str]], captions_: list[tuple[int, int, str]]) -> Source:
    ids, splits = zip(*images_, strict=True)
    names = [f"{number}.png" for number in ids]
    zeros = [0] * len(ids)
    caption_ids, owners, caption_splits = zip(*captions_, strict=True)
    table = caption_table(caption_ids, owners, ["{text}"] * len(owners), caption_splits)
    return Source(image_table(ids, names, splits, zeros, zeros, names), table, "raw")


MISFITS = [
    ([(1, "train")], [(5, 1, "train"), (6, 9, "train"), (7, 8, "train")],
     "data set tiny, caption_id 6: its image_id 9 does not exist (and 1 more)"),
    ([(1, "train"), (2, "test")], [(5, 1, "train"), (6, 2, "train")],
     "data set tiny, caption_id 6: its split train is not that of image_id 2"),
    ([(1, "train"), (2, "test")], [(5, 1, "train")], "data set tiny, image_id 2: 2.png has no caption"),
]  # fmt: skip


@pytest.mark.parametrize(("pictured", "described", "message"), MISFITS)
def test_tables_that_do_not_fit_together(pictured, described, message):
    with pytest.raises(InputError) as caught:
        stage.check("tiny", _source(pictured, described))
    assert message in str(caught.value)


def test_a_format_that_returns_a_misfit_is_stopped_by_the_stage(monkeypatch):
    pictured, described, _ = MISFITS[0]
    monkeypatch.setattr(FORMATS.load("csv"), "read", lambda *_: _source(pictured, described))
    with pytest.raises(InputError, match="caption_id 6: its image_id 9 does not exist"):
        prepare("csv", "raw.csv")
    assert _entries() == []


def test_tables_that_fit():
    stage.check("tiny", _source([(2, "val"), (1, "train")], [(5, 1, "train"), (6, 2, "val"), (9, 1, "train")]))


def test_only_proposed_boxes_need_no_caption():
    stage.check("tiny", _source([(1, "test"), (2, "proposal"), (3, "proposal")], [(5, 1, "test")]))
    with pytest.raises(InputError, match=r"image_id 3: 3\.png has no caption"):
        stage.check("tiny", _source([(1, "test"), (2, "proposal"), (3, "val")], [(5, 1, "test")]))


def test_chunked_tables_are_checked_too():
    source = _source([(2, "val"), (1, "train")], [(5, 1, "train"), (6, 2, "val")])
    twice = [pa.concat_tables([table.slice(0, 1), table.slice(1)]) for table in (source.images, source.captions)]
    stage.check("tiny", Source(*twice, "raw"))


DATA = os.environ.get("VSE_PIPE_DATA")


@pytest.mark.skipif(not DATA, reason="VSE_PIPE_DATA is not set to a folder with flickr8k and flickr8k_precomp")
@pytest.mark.parametrize(("kind", "name"), [("karpathy", "flickr8k"), ("precomp", "flickr8k_precomp")])
def test_flickr8k(kind, name):
    out = prepare(kind, Path(DATA) / name)
    counts = [Counter(table["split"].to_pylist()) for table in (images.read(out), captions.read(out))]
    assert counts == [{"train": 6000, "val": 1000, "test": 1000}, {"train": 30000, "val": 5000, "test": 5000}]


def _skipping(kind: str, source: str, **options) -> Path:
    return prepare(kind, source, on_error="skip", **options)


def test_broken_images_may_be_left_to_extract(capsys):
    karpathy(Path("raw"), [entry(k) for k in range(4)])
    Path("raw/images/1.png").write_bytes(b"<html>")
    Path("raw/images/3.png").unlink()
    out = _skipping("karpathy", "raw")
    table = images.read(out)
    assert table["image_id"].to_pylist() == [0, 1, 2, 3]
    assert table["width"].to_pylist() == [8, 0, 8, 0]
    assert table["height"].to_pylist() == [6, 0, 6, 0]
    assert table["sha256"][1].as_py() == hashlib.sha256(b"<html>").hexdigest()
    assert table["sha256"][3].as_py() == images.UNREAD
    assert captions.read(out).num_rows == 8
    message = capsys.readouterr().err
    assert "2 of 4 images below raw/images cannot be used: dataset_tiny.json images[1]: 1.png is no image" in message
    assert "repeated: 0 images" in message


def test_what_to_do_about_broken_images_is_said():
    karpathy(Path("raw"), [entry(0), entry(1)])
    Path("raw/images/1.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"1 of 2 .* set on_error: skip in datasets.tiny$"):
        prepare("karpathy", "raw")


@pytest.mark.parametrize("on_error", ["fail", "skip"])
@pytest.mark.parametrize(("folder", "named"), [("raw/pics", "pics"), ("elsewhere", "FOLDER")])
def test_pictures_in_another_folder_are_looked_for_there(on_error, folder, named):
    Path("raw").mkdir()
    Path("raw/captions.csv").write_text("image,caption\n0.png,one\n1.png,two\n")
    pictures(Path(folder), ["0.png", "1.png"])
    advice = rf"2 of 2 images .* If they lie in another folder, name it: images: {named} in datasets\.tiny$"
    with pytest.raises(InputError, match=advice):
        prepare("csv", "raw/captions.csv", on_error=on_error)


def test_a_data_set_without_any_image_is_refused_in_any_case():
    karpathy(Path("raw"), [entry(0), entry(1)])
    for number in (0, 1):
        Path(f"raw/images/{number}.png").unlink()
    with pytest.raises(InputError, match=r"2 of 2 images .* images: FOLDER in datasets.tiny"):
        _skipping("karpathy", "raw")
    assert [path.name for path in paths.prepared("tiny").parent.iterdir()] == []


def test_a_path_outside_of_the_root_is_an_error_in_any_case():
    karpathy(Path("raw"), [entry(0)])
    spoilt = {"images": [entry(0) | {"filename": "../../secret.png"}]}
    Path("raw/dataset_tiny.json").write_text(json.dumps(spoilt))
    with pytest.raises(InputError, match="lies outside its root"):
        _skipping("karpathy", "raw")
