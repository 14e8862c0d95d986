"""What a source may take in memory, and the lengths and letters of captions, in every format."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import bombs
from tests.mutants import mutants, refusals
from tests.prepare import _data
from tests.prepare.formats.test_webdataset import sample, shard
from vse_pipe.core import memory
from vse_pipe.core.errors import InputError
from vse_pipe.prepare.source import LONGEST_CAPTION


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
        memory.reserve("y", 2**21 - 10_000)
        with pytest.raises(
            InputError, match=r"memory beside the 2 MiB read before, more than the 2 MiB of datasets\.x\.memory"
        ):
            _read(kind, tmp_path, "x" * 20_000)


@pytest.mark.parametrize(
    ("make", "least"),
    [
        (bombs.repeated_caption, "of 4194304 characters"),
        (bombs.repeated_captions_in_lists, "more than the 64 MiB of datasets.tiny.memory"),
        (bombs.shared_beginnings, "of 4194304 characters"),
        (bombs.long_captions, "of 4194304 characters"),
        (bombs.repeated_picture, "image: takes"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
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
