"""Karpathy's json: ids, splits, options, and every way an entry can be wrong."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.naive.data import hashed_split
from tests.prepare._data import entry, karpathy, one_line, picture, read
from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.prepare.source import Source


def made(folder: Path, entries: list[dict], **options) -> Source:
    return read("karpathy", karpathy(folder, entries), folder / "out", **options)


def test_ids_splits_and_pixels(tmp_path):
    entries = [entry(7, "val"), entry(3, "train"), entry(5, "restval", ("one",)), entry(4, "test", ("a", "b", "c"))]
    source = made(tmp_path, entries)
    assert source.root == str(tmp_path / "images")
    pictured, said = source.images.to_pydict(), source.captions.to_pydict()
    assert pictured["image_id"] == [7, 3, 5, 4]
    assert pictured["split"] == ["val", "train", "train", "test"]
    assert pictured["file"] == ["7.png", "3.png", "5.png", "4.png"]
    assert said["caption_id"] == [70, 71, 30, 31, 50, 40, 41, 42]
    assert said["image_id"] == [7, 7, 3, 3, 5, 4, 4, 4]
    assert said["split"] == ["val", "val", "train", "train", "train", "test", "test", "test"]
    assert (set(pictured["width"]), set(pictured["height"])) == ({8}, {6})
    assert pictured["sha256"][1] == hashlib.sha256(picture(1)).hexdigest()


def test_where_json_and_pictures_may_lie(tmp_path):
    """The json with a byte order mark and under another name; pictures in folders of their own."""
    path = karpathy(tmp_path, [entry(0) | {"filepath": "val2014"}], "one.json") / "one.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    (tmp_path / "images").rename(tmp_path / "jpg")
    source = read("karpathy", path, tmp_path / "out", images="jpg")
    assert source.root == str(tmp_path / "jpg")
    assert source.images["file"].to_pylist() == ["val2014/0.png"]
    with pytest.raises(MissingResource, match=r"image folder .*/photos does not exist; .* `images`"):
        read("karpathy", path, tmp_path / "out", images="photos")


def test_restval_can_be_left_out_and_needs_no_images_then(tmp_path):
    karpathy(tmp_path, [entry(0, "restval"), entry(1, "train")])
    (tmp_path / "images/0.png").unlink()
    source = read("karpathy", tmp_path, tmp_path / "out", include_restval=False)
    assert source.images["image_id"].to_pylist() == [1]
    assert set(source.captions["image_id"].to_pylist()) == {1}
    with pytest.raises(InputError, match=r"no images below .*images are named"):
        made(tmp_path, [entry(0, "restval")], include_restval=False)


def test_a_share_for_val_and_other_names_of_splits(tmp_path):
    entries = [entry(k) for k in range(40)] + [entry(40, "validation"), entry(41, "Test")]
    source = made(tmp_path, entries, val=0.3)
    drawn = [hashed_split(1, f"{k}.png", 0.3, 0.0) for k in range(40)]
    assert source.images["split"].to_pylist() == [*drawn, "val", "test"]
    assert set(drawn) == {"train", "val"}


def test_ids_as_pandas_writes_them_and_numbers_that_begin_anew(tmp_path):
    entries = [entry(k) | {"imgid": float(k)} for k in range(2)]
    for node in entries:
        node["sentences"] = [sentence | {"sentid": k} for k, sentence in enumerate(node["sentences"])]
    source = made(tmp_path, entries)
    assert source.images["image_id"].to_pylist() == [0, 1]
    assert source.captions["caption_id"].to_pylist() == [0, 1, 2, 3]


# Of which of three entries or, of the last one's second sentence, what is changed; None takes it out.
BAD = {
    "imgid twice": (2, {"imgid": 0, "sentences": [{"raw": "x", "sentid": 99}]},
                    "images[2]: image_id '0' is given twice"),
    "sentid twice": ("sentence", {"sentid": 0},
                     "images[2].sentences[1]: caption_id '0' is given twice"),
    "filename twice": (2, {"filename": ".//0.png"}, "images[2]: file '0.png' was given to dataset_tiny.json images[0]"),
    "other image": ("sentence", {"imgid": 77}, "images[2].sentences[1]: imgid 77, but its image has imgid 2"),
    "split": (1, {"split": "trian"}, "images[1]: unknown split 'trian'; known: train, "),
    "imgid for some": (1, {"imgid": None}, "images[1]: has no image_id, which others have"),
    "sentid for some": ("sentence", {"sentid": None},
                        "images[2].sentences[1]: has no caption_id, which others have"),
    "filepath parent": (1, {"filepath": "../.."}, "images[1]: file '../../1.png' lies outside its root"),
}  # fmt: skip


@pytest.mark.parametrize(("place", "change", "message"), BAD.values(), ids=BAD)
def test_bad_entry(tmp_path, place, change, message):
    entries = [entry(k) for k in range(3)]
    karpathy(tmp_path, entries)
    changed = entries[2]["sentences"][1] if place == "sentence" else entries[place]
    changed |= change
    (tmp_path / "dataset_tiny.json").write_text(json.dumps({"images": entries}), encoding="utf-8")
    with one_line(message) as caught:
        read("karpathy", tmp_path, tmp_path / "out")
    assert "dataset_tiny.json images[" in str(caught.value)


MALFORMED = [
    (b"", "EOF while parsing"),
    (b"{}", "dataset_tiny.json images: Field required"),
    (b'{"images": []}', "dataset_tiny.json: no image has a sentence"),
    (b'{"images": [{"split": "train"}]}', "images[0].filename: Field required (and 1 more problems)"),
    (b'{"images": [{"filename": 3, "split": "train", "sentences": []}]}', "images[0].filename: Input should be a valid string"),
    (b'{"images": [{"filename": "a", "imgid": 9223372036854775808, "split": "train", "sentences": []}]}', "images[0].imgid: Input should be less than"),
    (b'{"images": [{"filename": "a", "split": "train", "sentences": [{"raw": "\\ud83d"}]}]}', "Invalid JSON"),
    (b'{"images": ' + b"[" * 100_000, "Invalid JSON"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), MALFORMED)
def test_malformed_json(tmp_path, content, message):
    (tmp_path / "dataset_tiny.json").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read("karpathy", tmp_path, tmp_path / "out")
    assert message in str(caught.value)
    assert str(tmp_path / "dataset_tiny.json") in str(caught.value)
