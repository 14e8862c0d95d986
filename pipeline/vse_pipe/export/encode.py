"""encode: vectors of the user's captions or pictures by a trained run, equal to the vectors of
``embed`` for the same content."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from vse_pipe.artifacts import embeddings
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core import memory, text
from vse_pipe.core.console import say, warn
from vse_pipe.core.errors import InputError, MissingResource, UsageError
from vse_pipe.embed.stage import about_model, flat, parts_of
from vse_pipe.pictures.images import Item
from vse_pipe.prepare.captions import caption_text
from vse_pipe.prepare.formats.options import ENDINGS
from vse_pipe.prepare.scan import walked
from vse_pipe.prepare.source import read_lines
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.fragments import Sides, pooled
from vse_pipe.train.trained import Trained
from vse_pipe.train.trained import parts_of as sides_of

# Columns of a table of captions; of alternatives the first one in the table counts.
_CAPTION, _IMAGES, _CAPTION_ID = "caption", ("image_id", "image"), "caption_id"
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
# Files of `embed` have a column of splits; test is the split that is searched by default.
_SPLIT = "test"
# Words of a caption, about.
_WORDS = 16
# Consecutive rows of a file: ids of captions or images, those of the images that they show,
# vectors.
Rows = tuple[np.ndarray, np.ndarray, Sides]


def encode_captions(params: Params, run: str, source: Path, out: Path, device: str = "auto") -> dict:
    """Write ``out``, a row for each caption of ``source``; returns counts.

    source: a text file with a caption in each line, whose ids are 0, 1, 2, ..., or a .csv or .tsv
    with a header. Raises UsageError for an unfit run, InputError for a table without the column
    caption, an empty caption or a repeated id, with the line.
    """
    _require_free(out)
    trained = Trained.open(paths.trained(run), device)
    listed = CaptionFile.read(source)
    share = trained.texts.unknown_share(listed.texts)

    def rows(treated: Texts) -> Iterator[Rows]:
        width = trained.width * (_WORDS if trained.has_fragments else 1)
        for part in parts_of(len(listed.ids), width, params.embed.memory):
            places = np.arange(part.start, part.stop)
            owners = np.empty(0) if listed.image_ids is None else listed.image_ids[part]
            yield listed.ids[part], owners, trained.treated(treated, places, "encoding captions, batches")

    with tempfile.TemporaryDirectory(prefix="vse-pipe-") as folder:
        place = Path(folder) / trained.texts.name
        treated = trained.texts.treated(place, np.arange(len(listed.ids)), listed.texts)
        _write(out, "captions", run, trained, rows(treated), source)
    share_text = f"; {share:.1%} of their words are unknown to it" if share is not None else ""
    say(f"{out}: {len(listed.ids)} captions, {trained.width} dimensions, by run {run}{share_text}")
    unknown = {} if share is None else {"unknown_words": share}
    return {"out": str(out), "run": run, "captions": len(listed.ids), "dimensions": trained.width, **unknown}


def encode_images(params: Params, run: str, source: Path, out: Path, device: str = "auto") -> dict:
    """Write ``out``, a row for each picture in ``source``; returns counts, and what is left out.

    A picture's id is its path below ``source``. Raises UsageError for a run without a network for
    pictures, InputError if no picture can be read.
    """
    _require_free(out)
    if not source.is_dir():
        raise MissingResource(f"--images: {source} is no folder")
    trained = Trained.open(paths.trained(run), device)
    files, left_out = walked(source)
    if not files:
        raise InputError(f"{source}: no picture in it, which ends in {', '.join(ENDINGS)}")
    items = [Item(place, file, "", str(source / file)) for place, file in enumerate(files)]
    count = 0

    def rows() -> Iterator[Rows]:
        nonlocal count
        for readable, side, failures in trained.pictures(source, items, "encoding images, batches"):
            left_out.extend(f"{files[image_id]}: {reason}" for image_id, reason in failures.items())
            if side is not None:
                ids = np.array([item.file for item in readable], dtype=object)
                count += len(ids)
                yield ids, ids, side
        if not count:
            reason = f"none of {len(files)} pictures can be read; the first is {left_out[0]}"
            raise InputError(f"{source}: {reason}")

    _write(out, "images", run, trained, rows(), source)
    say(f"{out}: {count} images, {trained.width} dimensions, by run {run}")
    if left_out:
        warn(f"{source}: {len(left_out)} pictures are left out, which --json lists; the first is {left_out[0]}")
    return {"out": str(out), "run": run, "images": count, "dimensions": trained.width, "left_out": left_out}


def _write(out: Path, kind: str, run: str, trained: Trained, rows: Iterator[Rows], source: Path) -> None:
    """kind: ``captions`` or ``images``. Of two networks, vectors and fragments stand side by side,
    scaled so that an inner product is the mean of both."""
    about = {**about_model(run, trained.config), "encoded": str(source)}
    schema = embeddings.fragment_schema if trained.has_fragments else embeddings.schema
    about |= {"dim": str(trained.width)} if trained.has_fragments else {}
    stored = ((ids, owners, *_stored(trained, side)) for ids, owners, side in rows)
    parts = (
        Side(ids, owners, np.full(len(ids), _SPLIT), vectors, {}, lengths) for ids, owners, vectors, lengths in stored
    )
    embeddings.write_each(out, schema(kind, trained.width), parts, about)
    if about["similarity"] != "cosine":
        warn(f"run '{run}' compares by {about['similarity']}, which `rank` does not know")


def _stored(trained: Trained, side: Sides) -> tuple[np.ndarray, np.ndarray | None]:
    """All vectors, and how many fragments each row has."""
    if not trained.has_fragments:
        return pooled(side).numpy(), None
    parts = [flat(part) for part in sides_of(side)]
    return np.concatenate([vectors for vectors, _ in parts], axis=1) / len(parts) ** 0.5, parts[0][1]


@dataclass(frozen=True)
class CaptionFile:
    """Captions of a file. ids, image_ids: int64, or text if they are no numbers; image_ids: None if
    the file does not name the picture of a caption."""

    texts: list[str]
    ids: np.ndarray
    image_ids: np.ndarray | None = None

    @classmethod
    def read(cls, path: Path) -> "CaptionFile":
        if not path.is_file():
            raise MissingResource(f"--captions: {path} is no file")
        if path.suffix in _DELIMITERS:
            return cls._of_table(path)
        lines = list(read_lines(path))
        while lines and not lines[-1].strip():
            lines.pop()
        return cls(_checked(lines, f"{path} line", 1), np.arange(len(lines)))

    @classmethod
    def _of_table(cls, path: Path) -> "CaptionFile":
        memory.require_text(path)
        texts = dict.fromkeys((_CAPTION, *_IMAGES, _CAPTION_ID), pa.string())
        parse = csv.ParseOptions(delimiter=_DELIMITERS[path.suffix], newlines_in_values=True)
        try:
            table = csv.read_csv(path, parse_options=parse, convert_options=csv.ConvertOptions(column_types=texts))
        except pa.ArrowInvalid as error:
            raise InputError(f"{path}: {' '.join(str(error).split())}") from error
        if _CAPTION not in table.column_names:
            raise InputError(f"{path}: no column {_CAPTION} among {', '.join(table.column_names)}")
        ids = np.arange(len(table))
        if _CAPTION_ID in table.column_names:
            ids = _ids(table[_CAPTION_ID], path, unique=True)
        owners = [_ids(table[name], path) for name in _IMAGES if name in table.column_names]
        return cls(_checked(table[_CAPTION].to_pylist(), f"{path} row", 2), ids, owners[0] if owners else None)


def _checked(texts: list[str], place: str, first: int) -> list[str]:
    """The texts, which are captions. place, first: of the first of them in a message."""
    if not texts:
        raise InputError(f"{place.rpartition(' ')[0]}: holds no captions")
    return [caption_text(text, f"{place} {number}") for number, text in enumerate(texts, first)]


def _ids(column: pa.ChunkedArray, path: Path, unique: bool = False) -> np.ndarray:
    """int64 if all ids are numbers, else text. Raises InputError for an invalid id, or with
    ``unique`` for a repeated one."""
    texts = column.combine_chunks()
    if wrong := text.objection(texts if unique else texts.unique()):
        raise InputError(f"{path}: id {wrong[1]}")
    return texts.cast(pa.int64()).to_numpy() if text.are_numbers(texts) else texts.to_numpy(zero_copy_only=False)


def _require_free(out: Path) -> None:
    """Raises UsageError unless ``out`` ends in .parquet and does not exist."""
    if out.suffix != ".parquet" or out.exists():
        raise UsageError(f"--out {out}: expected the name of a new .parquet file")
