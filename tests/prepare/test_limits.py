"""Every format: the memory that a source takes, the lengths and letters of captions, and ids that are text."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import bombs
from tests.prepare import _data
from tests.prepare._data import entry, karpathy, picture, pictures, read, sample, shard
from vse_pipe.core import memory
from vse_pipe.core.errors import InputError
from vse_pipe.prepare.captions import LONGEST_CAPTION


def _cc(folder: Path, text: str) -> Path:
    _data.precomp(folder, {"train": (_data.rows(1), [])})
    (folder / "train_caps.tsv").write_text(f"x\t{text}\n", encoding="utf-8")
    return folder


def _coco(folder: Path, text: str) -> Path:
    pictures(folder, ["a.png"])
    return _data.coco(folder / "captions_.json", ["a.png"], [(0, text)])


def _csv(folder: Path, text: str) -> Path:
    pictures(folder, ["a.png"])
    (folder / "a.csv").write_text(f'image,caption,split\na.png,"{text}",train\n', encoding="utf-8")
    return folder / "a.csv"


def _entities(folder: Path, text: str) -> Path:
    boxed = ["a [/EN#1/animals dog]"], _data.marked(11, {(1,): (1, 1, 2, 2)})
    return _data.entities(folder, {11: ("train", [text], boxed[1]), 22: ("train", *boxed)})


WHOLE, TRAIN = {"val": 0.0, "test": 0.0}, {"splits": ["train"]}
FORMATS: dict[str, tuple[Callable[[Path, str], Path], dict]] = {
    "cc": (_cc, TRAIN),
    "coco": (_coco, {}),
    "csv": (_csv, {}),
    "entities": (_entities, {}),
    "karpathy": (lambda folder, text: karpathy(folder, [entry(1, captions=(text,))]), {}),
    "parquet": (lambda folder, text: bombs.captioned(folder / "a.parquet", [text]), WHOLE),
    "precomp": (lambda folder, text: _data.precomp(folder, {"train": (_data.rows(1), [text])}), TRAIN),
    "webdataset": (lambda folder, text: shard(folder / "a.tar", sample("a", 0, text)), WHOLE),
}


def _read(kind: str, folder: Path, text: str):
    write, options = FORMATS[kind]
    return read(kind, write(folder, text), folder, **options)


@pytest.mark.parametrize("kind", FORMATS)
def test_captions_have_a_longest_length_and_something_to_see(tmp_path: Path, kind: str) -> None:
    longest = r"131073 characters; expected no more than 131072|field larger than field limit \(131072\)"
    with pytest.raises(InputError, match=rf"^\S.*: .*({longest})"):
        _read(kind, tmp_path, "x" * (LONGEST_CAPTION + 1))
    for text in ["\u200b", "\u2060 \ufeff"]:  # the stage leaves out what is empty
        assert "" in _read(kind, tmp_path, text).captions["text"].to_pylist()
    for text in ["x" * LONGEST_CAPTION, "\u200bx", "\U0001f408", "\u0e01", "\ue000", "\u2764\ufe0f"]:
        assert _read(kind, tmp_path, text).captions["text"][0].as_py() == text


@pytest.mark.parametrize("kind", FORMATS)
def test_memory_is_what_the_data_set_says(tmp_path: Path, kind: str) -> None:
    with memory.limit(2, "datasets.x.memory"):
        memory.reserve("y", 2**21 - 10_000)
        message = r"memory beside the 2 MiB read before, more than the 2 MiB of datasets\.x\.memory"
        with pytest.raises(InputError, match=message):
            _read(kind, tmp_path, "x" * 20_000)


@pytest.mark.parametrize(("make", "least"), [
    (bombs.repeated_caption, "of 4194304 characters"),
    (bombs.shared_beginnings, "of 4194304 characters"),
    (bombs.long_captions, "of 4194304 characters"),
    (bombs.repeated_picture, "image: takes"),
], ids=lambda value: getattr(value, "__name__", ""))  # fmt: skip
def test_bombs(tmp_path: Path, make: Callable, least: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = make(tmp_path / "raw" / "a.parquet", length=2**22, rows=40)
    ended, peak = bombs.in_child(lambda: _data.prepare("parquet", path, memory=64, val=0.0, test=0.0))
    assert ended.startswith(f"InputError: {path}"), ended
    assert least in ended
    assert peak < 500, ended
    assert not (tmp_path / "data/prepare/tiny").exists()


IDS = ["urn:uuid:8c1f", "beach/boat.jpg", "007"]


def ids_csv(folder: Path, ids=IDS, captions=("c-1", "c-2", "c-3", "c-4")) -> Path:
    pictures(folder, ["0.png", "1.png", "2.png"])
    rows = [f"{ids[at]},{at}.png,{name},a cat,train\n" for at, name in zip((1, 0, 2, 0), captions, strict=True)]
    path = folder / "captions.csv"
    path.write_text("image_id,image,caption_id,caption,split\n" + "".join(rows))
    return path


def ids_karpathy(folder: Path, ids=IDS) -> Path:
    """Of captions too."""
    entries = [{**entry(number), "imgid": name} for number, name in enumerate(ids)]
    for one in entries:
        raws = [{"raw": "a cat", "imgid": one["imgid"], "sentid": f"{one['imgid']}#{place}"} for place in (0, 1)]
        one["sentences"] = raws
    pictures(folder, ["0.png", "1.png", "2.png"])
    return karpathy(folder, entries)


def ids_parquet(folder: Path, ids=IDS) -> Path:
    columns = {"image": [picture(number) for number in range(len(ids))], "caption": ["a cat"] * len(ids), "key": ids}
    pq.write_table(pa.table({**columns, "number": [8, 3, 4]}), folder / "train.parquet")
    return folder


def ids_tar(folder: Path, ids=IDS) -> Path:
    members = [member for number, key in enumerate(ids) for member in sample(key, number)]
    return shard(folder / "train.tar", members)


IDENTIFIED = {
    "csv": (lambda folder, ids: ids_csv(folder, ids, "4567"), {}),
    "karpathy": (ids_karpathy, {"images": "."}),
    "parquet": (ids_parquet, {**WHOLE, "image_id": "key"}),
    "webdataset": (ids_tar, {**WHOLE, "ids": "key"}),
}


def _texts(source, key: str) -> list:
    ids = (source.images if key == "image_id" else source.captions)[key].to_numpy()
    return source.names.texts(key, ids).to_pylist()


@pytest.mark.parametrize(("ids", "captions", "message"), [
    (["A", "b", "a"], "wxyz", "row 4: image_id 'a' differs from 'A' in capitals only"),
    (["A", "b", "b"], "wxyz", "row 4: image_id 'b' is given twice"),
    (["5", "7", "7"], "1234", "row 4: image_id '?7'? is given twice"),
    (IDS, ["w", "x", "", "z"], "row 4: caption_id '' is empty"),
    (["a\tb", "c", "d"], "wxyz", r"row 3: image_id 'a\\tb' holds a control character"),
])  # fmt: skip
def test_what_cannot_be_an_id_is_named_with_its_row(tmp_path, ids, captions, message):
    with pytest.raises(InputError, match=message):
        read("csv", ids_csv(tmp_path, ids, captions), tmp_path / "out")


def test_of_shards_where_keys_are_asked_for(tmp_path):
    path = ids_tar(tmp_path, ["boat-1", "boat-2"])
    plain = read("webdataset", path, tmp_path / "out", **WHOLE)
    assert plain.names is None
    source = read("webdataset", path, tmp_path / "out", **WHOLE, ids="key")
    assert _texts(source, "image_id") == ["boat-1", "boat-2"]
    assert source.images.equals(plain.images)
    shard(tmp_path / "train2.tar", sample("boat-2", 0))
    with pytest.raises(InputError, match=r"train2\.tar key 'boat-2': image_id 'boat-2' is given twice"):
        read("webdataset", tmp_path, tmp_path / "out", **WHOLE, ids="key")


def test_of_a_parquet_file(tmp_path):
    ids_parquet(tmp_path)
    assert _texts(read("parquet", tmp_path, tmp_path / "out", **WHOLE, image_id="key"), "image_id") == IDS
    source = read("parquet", tmp_path, tmp_path / "out", **WHOLE, image_id="number")
    assert (source.names, source.captions["image_id"].to_pylist()) == (None, [8, 3, 4])
    with pytest.raises(InputError, match=r"column .image. holds .*, no text"):
        read("parquet", tmp_path, tmp_path / "out", **WHOLE, image_id="image")


@pytest.mark.parametrize("kind", IDENTIFIED)
@pytest.mark.parametrize("number", [2**53 + 1, 2**63 - 1, 2**63, -(2**63)])
def test_what_int64_holds_is_a_number_in_every_format(tmp_path, kind, number):
    """The neighbour of each number as well: nothing passes through a float."""
    ids = [str(number), str(number - 1 if number > 0 else number + 1), "12"]
    write, options = IDENTIFIED[kind]
    source = read(kind, write(tmp_path, ids), tmp_path / "out", **options)
    if number < 2**63:
        assert source.names is None or (kind == "karpathy" and not source.names.has("image_id"))
        assert sorted(source.images["image_id"].to_pylist()) == sorted(map(int, ids))
    else:
        assert sorted(_texts(source, "image_id")) == sorted(ids)
