"""Every format: the memory that a source takes, the lengths and letters of captions, and ids that are text."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import bombs
from tests.mutants import mutants, refusals
from tests.prepare import _data
from tests.prepare._data import entry, karpathy, picture, pictures, prepare, read
from tests.prepare.formats.test_webdataset import sample, shard
from vse_pipe.artifacts import images, names
from vse_pipe.core import memory, tables
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import sha256
from vse_pipe.prepare.source import LONGEST_CAPTION, numbered
from vse_pipe.project.stages import Node, declarations


def _cc(folder: Path, text: str) -> Path:
    _data.precomp(folder, {"train": (_data.rows(1), [])})
    (folder / "train_caps.tsv").write_text(f"x\t{text}\n", encoding="utf-8")
    return folder


def _csv(folder: Path, text: str) -> Path:
    _data.pictures(folder, ["a.png"])
    (folder / "a.csv").write_text(f'image,caption,split\na.png,"{text}",train\n', encoding="utf-8")
    return folder / "a.csv"


def _entities(folder: Path, text: str) -> Path:
    boxed = ["a [/EN#1/animals dog]"], _data.marked(11, {(1,): (1, 1, 2, 2)})
    return _data.entities(folder, {11: ("train", [text], boxed[1]), 22: ("train", *boxed)})


FORMATS: dict[str, Callable[[Path, str], Path]] = {
    "cc": _cc,
    "csv": _csv,
    "entities": _entities,
    "karpathy": lambda folder, text: _data.karpathy(folder, [_data.entry(1, captions=(text,))]),
    "parquet": lambda folder, text: bombs.captioned(folder / "a.parquet", [text]),
    "precomp": lambda folder, text: _data.precomp(folder, {"train": (_data.rows(1), [text])}),
    "webdataset": lambda folder, text: shard(folder / "a.tar", sample("a", 0, text)),
}
OPTIONS = {
    "cc": {"splits": ["train"]},
    "precomp": {"splits": ["train"]},
    "parquet": {"val": 0.0, "test": 0.0},
    "webdataset": {"val": 0.0, "test": 0.0},
}


@pytest.mark.parametrize("kind", FORMATS)
def test_captions_have_a_longest_length_and_something_to_see(tmp_path: Path, kind: str) -> None:
    for text, message in [
        (
            "x" * (LONGEST_CAPTION + 1),
            r"131073 characters; expected no more than 131072|field larger than field limit \(131072\)",
        ),
        ("\u200b", r"the caption '\\u200b' shows nothing; write one or remove the row"),
        ("\u2060 \ufeff", r"the caption '\\u2060 \\ufeff' shows nothing"),
    ]:
        with pytest.raises(InputError, match=rf"^\S.*: .*({message})"):
            _read(kind, tmp_path, text)
    for text in ["x" * LONGEST_CAPTION, "\u200bx", "\U0001f408", "\u0e01", "\ue000", "\u2764\ufe0f"]:
        assert _read(kind, tmp_path, text).captions["text"][0].as_py() == text


@pytest.mark.parametrize("kind", FORMATS)
def test_memory_is_what_the_data_set_says(tmp_path: Path, kind: str) -> None:
    with memory.limit(2, "datasets.x.memory"):
        memory.take("y", 2**21 - 10_000)
        with pytest.raises(
            InputError, match=r"memory beside the 2 MiB read before, more than the 2 MiB of datasets\.x\.memory"
        ):
            _read(kind, tmp_path, "x" * 20_000)


@pytest.mark.parametrize(("make", "least"), [
    (bombs.repeated_caption, "of 4194304 characters"),
    (bombs.repeated_captions_in_lists, "more than the 64 MiB of datasets.tiny.memory"),
    (bombs.shared_beginnings, "of 4194304 characters"),
    (bombs.long_captions, "of 4194304 characters"),
    (bombs.repeated_picture, "image: takes"),
], ids=lambda value: getattr(value, "__name__", ""))  # fmt: skip
def test_bombs(tmp_path: Path, make: Callable, least: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = make(tmp_path / "raw" / "a.parquet", length=2**22, rows=60)
    ended, peak = bombs.in_child(lambda: _data.prepare("parquet", path, memory=64, val=0.0, test=0.0))
    assert ended.startswith(f"InputError: {path}"), ended
    assert least in ended
    assert peak < 250, ended
    assert not (tmp_path / "data/prepare/tiny").exists()


@pytest.mark.parametrize("kind", FORMATS)
def test_mutants_are_read_or_refused_in_one_line(tmp_path: Path, kind: str) -> None:
    source = FORMATS[kind](tmp_path, "a cat, and a dog")
    written = {"cc": "*_caps.*", "precomp": "*_caps.*", "entities": "Sentences/11.*"}.get(kind, "*.json")
    path = source if source.is_file() else next(source.glob(written))
    contents = list(mutants(path.read_bytes(), 60))
    read = _data.FORMATS.load(kind).read
    options = _data.FORMATS.options(kind)(**OPTIONS.get(kind, {}))
    assert refusals(path, contents, lambda: read(source, tmp_path, options, 1))


def _read(kind: str, folder: Path, text: str):
    return _data.read(kind, FORMATS[kind](folder, text), folder, **OPTIONS.get(kind, {}))


IDS = ["urn:uuid:8c1f", "beach/boat.jpg", "007"]


def _text_ids_csv(
    folder, ids=IDS, captions=("c-1", "c-2", "c-3", "c-4"), header="image_id,image,caption_id,caption,split"
):
    pictures(folder, ["0.png", "1.png", "2.png"])
    rows = [(ids[at], f"{at}.png", name, "a cat", "train") for at, name in zip((1, 0, 2, 0), captions, strict=True)]
    path = folder / "captions.csv"
    path.write_text("\n".join([header, *(",".join(row) for row in rows)]) + "\n")
    return path


def _texts(source, key: str) -> list:
    ids = (source.images if key == "image_id" else source.captions)[key].to_numpy()
    return source.names.texts(key, ids).to_pylist()


def test_of_a_table(tmp_path):
    source = read("csv", _text_ids_csv(tmp_path), tmp_path / "out")
    assert source.images["image_id"].to_pylist() == [0, 1, 2]
    assert source.images["file"].to_pylist() == ["1.png", "0.png", "2.png"]
    assert _texts(source, "image_id") == [IDS[1], IDS[0], IDS[2]]
    assert source.captions["image_id"].to_pylist() == [0, 1, 2, 1]
    assert _texts(source, "caption_id") == ["c-1", "c-2", "c-3", "c-4"]


def test_numbers_of_a_table_are_numbers(tmp_path):
    source = read("csv", _text_ids_csv(tmp_path, ["5", "-3", "40"], "9876"), tmp_path / "out")
    assert source.names is None
    assert source.images["image_id"].to_pylist() == [-3, 5, 40]
    assert source.captions.select(["caption_id", "image_id"]).to_pydict() == {
        "caption_id": [9, 8, 7, 6],
        "image_id": [-3, 5, 40, 5],
    }


def test_one_side_may_have_text_and_the_other_numbers(tmp_path):
    source = read("csv", _text_ids_csv(tmp_path, captions="4567"), tmp_path / "out")
    assert source.captions["caption_id"].to_pylist() == [4, 5, 6, 7]
    assert source.names.texts("caption_id", source.captions["caption_id"].to_numpy()) is None
    assert source.names.has("image_id")


@pytest.mark.parametrize(("ids", "captions", "message"), [
    (["A", "b", "a"], "wxyz", "row 4: image_id 'a' differs from 'A' in capitals only"),
    (["A", "b", "b"], "wxyz", "row 4: image_id 'b' is given twice"),
    (["5", "7", "7"], "1234", "row 4: image_id '?7'? was given to .*row 2 already"),
    (IDS, ["w", "x", "x", "z"], "row 4: caption_id 'x' is given twice"),
    (IDS, ["w", "x", "", "z"], "row 4: caption_id '' is empty"),
    (["a\tb", "c", "d"], "wxyz", r"row 3: image_id 'a\\tb' holds a control character"),
    (["x" * 201, "c", "d"], "wxyz", r"row 3: image_id 'x{40}'\.\.\. is longer than 200 characters"),
])  # fmt: skip
def test_what_cannot_be_an_id_is_named_with_its_row(tmp_path, ids, captions, message):
    with pytest.raises(InputError, match=message):
        read("csv", _text_ids_csv(tmp_path, ids, captions), tmp_path / "out")


def test_an_image_has_one_id(tmp_path):
    path = _text_ids_csv(tmp_path)
    path.write_text(path.read_text().replace(f"{IDS[0]},0.png,c-4", "other,0.png,c-4"))
    with pytest.raises(
        InputError, match=r"row 5: image '0.png' has image_id 'other' here, but 'urn:uuid:8c1f' in row 3"
    ):
        read("csv", path, tmp_path / "out")


def test_of_a_karpathy_json(tmp_path):
    entries = [entry(number) for number in range(3)]
    for one, name in zip(entries, IDS, strict=True):
        one["imgid"] = name
        for place, sentence in enumerate(one["sentences"]):
            sentence |= {"imgid": name, "sentid": f"{name}#{place}"}
    pictures(tmp_path, ["0.png", "1.png", "2.png"])
    source = read("karpathy", karpathy(tmp_path, entries), tmp_path / "out", images=".")
    assert _texts(source, "image_id") == IDS
    assert _texts(source, "caption_id") == [f"{name}#{place}" for name in IDS for place in (0, 1)]
    assert source.captions["image_id"].to_pylist() == [0, 0, 1, 1, 2, 2]


def _shard(path, keys):
    with tarfile.open(path, "w") as file:
        for number, key in enumerate(keys):
            for name, content in ((f"{key}.png", picture(number)), (f"{key}.txt", b"a cat")):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                file.addfile(member, io.BytesIO(content))


def test_of_shards_where_keys_are_asked_for(tmp_path):
    _shard(tmp_path / "train.tar", ["boat-1", "boat-2"])
    plain = read("webdataset", tmp_path / "train.tar", tmp_path / "out", val=0.0, test=0.0)
    assert plain.names is None
    source = read("webdataset", tmp_path / "train.tar", tmp_path / "out", val=0.0, test=0.0, ids="key")
    assert _texts(source, "image_id") == ["boat-1", "boat-2"]
    assert source.images.equals(plain.images)
    _shard(tmp_path / "train2.tar", ["boat-2"])
    with pytest.raises(InputError, match=r"train2\.tar key 'boat-2': image_id 'boat-2' is given twice"):
        read("webdataset", tmp_path, tmp_path / "out", val=0.0, test=0.0, ids="key")


def test_of_a_parquet_file(tmp_path):
    table = {"image": [picture(0), picture(1)], "caption": ["a", "b"], "uuid": IDS[:2], "number": [8, 3]}
    pq.write_table(pa.table(table), tmp_path / "train.parquet")
    asked = {"val": 0.0, "test": 0.0}
    assert _texts(read("parquet", tmp_path, tmp_path / "out", **asked, image_id="uuid"), "image_id") == IDS[:2]
    source = read("parquet", tmp_path, tmp_path / "out", **asked, image_id="number")
    assert (source.names, source.captions["image_id"].to_pylist()) == (None, [8, 3])
    with pytest.raises(InputError, match=r"column 'image' is .*binary, expected string, or a signed integer"):
        read("parquet", tmp_path, tmp_path / "out", **asked, image_id="image")


def _karpathy(folder, ids):
    entries = [{**entry(number), "imgid": name} for number, name in enumerate(ids)]
    return karpathy(folder, [{**one, "sentences": [{"raw": "a cat"}]} for one in entries])


def _parquet(folder, ids):
    columns = {"image": [picture(number) for number in range(len(ids))], "caption": ["a cat"] * len(ids), "key": ids}
    pq.write_table(pa.table(columns), folder / "train.parquet")
    return folder


def _tar(folder, ids):
    _shard(folder / "train.tar", ids)
    return folder / "train.tar"


_WHOLE = {"val": 0.0, "test": 0.0}
_FORMATS = {
    "csv": (lambda folder, ids: _text_ids_csv(folder, ids, "4567"), {}),
    "karpathy": (_karpathy, {"images": "."}),
    "parquet": (_parquet, {**_WHOLE, "image_id": "key"}),
    "webdataset": (_tar, {**_WHOLE, "ids": "key"}),
}


@pytest.mark.parametrize("kind", _FORMATS)
@pytest.mark.parametrize(
    "number", [2**53 - 1, 2**53, 2**53 + 1, 10**18 - 1, 10**18, 1212345678901234567, 2**63 - 1, 2**63, -(2**63)]
)
def test_what_int64_holds_is_a_number_in_every_format(tmp_path, kind, number):
    """The neighbour of each number as well: nothing passes through a float."""
    ids = [str(number), str(number - 1 if number > 0 else number + 1), "12"]
    pictures(tmp_path, ["0.png", "1.png", "2.png"])
    write, options = _FORMATS[kind]
    source = read(kind, write(tmp_path, ids), tmp_path / "out", **options)
    if number < 2**63:
        assert source.names is None
        assert sorted(source.images["image_id"].to_pylist()) == sorted(map(int, ids))
    else:
        assert sorted(_texts(source, "image_id")) == sorted(ids)


def test_the_file_is_there_for_text_alone_and_images_tell_its_change(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = _text_ids_csv(tmp_path, ["5", "-3", "40"], "9876")
    out = prepare("csv", path)
    assert not (out / names.NAME).exists()
    path.write_text(_text_ids_csv(tmp_path).read_text())
    prepare("csv", path)
    held = names.read(out)
    assert held.number("image_id", IDS[1]) == 0
    assert held.number("image_id", "nothing") is None
    assert held.shown("caption_id", 3) == "c-4"
    with pytest.raises(InputError, match=r"names\.parquet: no name for caption_id 4; prepare and embed"):
        held.shown("caption_id", 4)
    assert tables.footer(images.read(out))[names.NAME] == sha256(out / names.NAME)
    json.dumps(held.table.to_pylist())


def test_check_compares_the_file_with_what_images_tell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = prepare("csv", _text_ids_csv(tmp_path))
    node = Node(declarations()["prepare"], "toy", out)
    assert node.problems(None) == []
    (out / names.NAME).unlink()
    (found,) = node.problems(None)
    assert (found.status, found.address) == (5, str(out / names.NAME))


def test_half_of_a_surrogate_pair_is_one_line():
    with pytest.raises(InputError, match=r"row 1: imgid .b.+ud800' is no text that UTF-8 can hold"):
        numbered(["a", "b\ud800"], "image_id", lambda place: f"row {place}", "imgid")
