"""data/embed/<run>/images.parquet and captions.parquet: ids, splits and float32 vectors.

The footer has run, similarity, normalised and the digest of the model.

A model that compares fragments writes lists of vectors: a row is an image with its regions or a
caption with its words, and a row group holds one split.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from vse_pipe.artifacts.identity import digest_of
from vse_pipe.artifacts.images import places
from vse_pipe.core import tables
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import require
from vse_pipe.core.tables import field

IMAGES, CAPTIONS = "images.parquet", "captions.parquet"
# The folder with the same files of a run's second network; the footer has its digest as
# ``peer_sha256``.
PEER = "peer"
# Keys of the footer, by split: numbers of unreadable images and their captions, which the files
# lack; digest of the images and captions in the files (``artifacts.digests``).
LEFT_OUT, DATA = "left_out", "data"
# Key of the footer of a transfer: both data sets by name, and the share of unknown words.
TRANSFER = "transfer"
# Key of the footer of vectors that were cut short (``embed.dim``): the dimensions that the model
# gives.
CUT_FROM = "cut_from"
WEIGHTS = "similarity.safetensors"
_SCORED = [f"{place}{name}" for place in ("", f"{PEER}/") for name in (IMAGES, CAPTIONS, WEIGHTS)]
_VECTOR, _COLUMN = "embedding", "fragments"


def footer_value(about: Mapping[str, str], key: str, split: str) -> Any:
    """The value for a split under ``key`` of the footer ``about``; None without one."""
    return json.loads(about.get(key, "{}")).get(split)


def schema(side: str, dim: int) -> pa.Schema:
    """side: ``images`` (image_id) or ``captions`` (caption_id, image_id)."""
    return _schema(side, "embeddings", field(_VECTOR, _vector(dim), "the vector"))


def fragment_schema(side: str, dim: int) -> pa.Schema:
    """As ``schema``, for lists of vectors."""
    vectors = pa.list_(pa.field("element", _vector(dim), nullable=False))
    return _schema(side, "fragments", field(_COLUMN, vectors, "a vector each"))


def _vector(dim: int) -> pa.DataType:
    return pa.list_(pa.field("element", pa.float32(), nullable=False), dim)


def _schema(side: str, kind: str, column: pa.Field) -> pa.Schema:
    ids = [field("image_id", pa.int64(), "unique" if side == "images" else "the image it describes")]
    if side == "captions":
        ids.insert(0, field("caption_id", pa.int64(), "unique"))
    columns = [field("split", pa.string(), "train, val or test"), column]
    return pa.schema([*ids, *columns], metadata={"artefact": f"{side} {kind}", "version": "1"})


@dataclass(frozen=True)
class Side:
    """ids: int64 (n,); image_ids: int64 (n,), equal to ids for images; splits: str (n,); vectors:
    float32 (n, D), or (sum of lengths, D) for fragments with ``lengths``, int64 (n,). For
    ``write_each`` ids may be text and image_ids empty."""

    ids: np.ndarray
    image_ids: np.ndarray
    splits: np.ndarray
    vectors: np.ndarray
    about: dict[str, str]
    lengths: np.ndarray | None = None

    def split(self, name: str) -> "Side":
        """The rows of one split, for vectors."""
        keep = self.splits == name
        return Side(self.ids[keep], self.image_ids[keep], self.splits[keep], self.vectors[keep], self.about)


def write(path: Path, side: Side) -> None:
    """path: .../images.parquet or .../captions.parquet. Raises InputError on non-finite vectors."""
    write_each(path, schema(path.stem, side.vectors.shape[1]), [side], side.about)


def write_each(path: Path, full: pa.Schema, parts: Iterable[Side], about: dict[str, str]) -> None:
    """Writes consecutive parts, whole or not at all, with one in memory at a time; each becomes a
    row group.

    full: of ``schema`` or ``fragment_schema``. Files with text ids, or captions without
    ``image_ids``, are read by ``vse_pipe.ranking.files`` and not by ``read``. Raises InputError on
    non-finite vectors."""
    groups = (_table(path, full, part) for part in parts)
    first = next(groups, None)
    rows = [] if first is None else chain([first], groups)
    tables.write(path, rows, full if first is None else first.schema, about)


def _table(path: Path, full: pa.Schema, part: Side) -> pa.Table:
    """The columns of ``full`` that the part has; ids may be text."""
    if not np.isfinite(part.vectors).all():
        raise InputError(f"{path}: the model produced NaN or infinite embeddings")
    kind = full.field(-1).type
    flat = pa.array(np.ascontiguousarray(part.vectors, np.float32).reshape(-1))
    column = pa.FixedSizeListArray.from_arrays(flat, type=kind.value_type if pa.types.is_list(kind) else kind)
    if part.lengths is not None:
        offsets = pa.array(np.concatenate([[0], np.cumsum(part.lengths)]).astype(np.int32))
        column = pa.ListArray.from_arrays(offsets, column, type=kind)
    ids = {"caption_id": pa.array(part.ids), "image_id": pa.array(part.image_ids)}
    columns = {**ids, "split": pa.array(part.splits, pa.string()), full.names[-1]: column}
    names = [name for name in full.names if len(columns[name]) == len(part.ids)]
    fields = [full.field(name).with_type(columns[name].type) for name in names]
    return pa.table([columns[name] for name in names], pa.schema(fields, full.metadata))


def read(path: Path) -> "Side | FragmentSide":
    """The vectors, or fragments that stay in the file. Raises InputError on missing columns."""
    require(path)
    with tables.open_parquet(path) as file:
        has_fragments = _COLUMN in file.schema.names
    full = schema(path.stem, 1)
    if has_fragments:
        keys = full.remove(len(full) - 1)
        table = tables.read(path, keys, keys.names)
        return FragmentSide(path, *_keys(path, table), tables.footer(table))
    table = tables.read(path, full)
    column = table[_VECTOR].combine_chunks()
    # ``to_numpy`` imports pandas, which takes half a second.
    vectors = np.from_dlpack(column.flatten()).reshape(len(table), column.type.list_size)
    return Side(*_keys(path, table), vectors, tables.footer(table))


def _keys(path: Path, table: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids, ids of images and splits."""
    key = "image_id" if path.stem == "images" else "caption_id"
    return table[key].to_numpy(), table["image_id"].to_numpy(), table["split"].to_numpy(zero_copy_only=False)


def digest(folder: Path) -> str:
    """A digest of the files that determine the scores."""
    return digest_of(folder, _SCORED)


@dataclass(frozen=True)
class FragmentSide:
    """Fragments that stay in their file. ids, image_ids: int64; splits: str; about: the footer."""

    path: Path
    ids: np.ndarray
    image_ids: np.ndarray
    splits: np.ndarray
    about: dict[str, str]

    def split(self, name: str) -> Side:
        """The rows of one split with their vectors. Raises IntegrityError if damaged."""
        mask = self.splits == name
        with tables.open_parquet(self.path) as file:
            counts = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
            groups = [i for i, rows in enumerate(np.split(mask, np.cumsum(counts)[:-1])) if rows.any()]
            column = file.read([_COLUMN], groups)[_COLUMN]
        lists = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        lengths = np.diff(lists.offsets.to_numpy())
        flat = lists.flatten()
        # A copy: what Arrow holds cannot be written to, which torch does not accept.
        vectors = np.array(flat.flatten()).reshape(len(flat), flat.type.list_size)
        rows = self.ids[mask], self.image_ids[mask], self.splits[mask]
        return Side(*rows, vectors, self.about, lengths.astype(np.int64))

    def take(self, ids: list[int]) -> list[np.ndarray]:
        """(length, D) float32 of each id, with a block of the file in memory at a time. Raises
        InputError for an unknown id."""
        rows, vectors, first = places(self.ids, np.array(ids, np.int64)), {}, 0
        if (rows < 0).any():
            raise InputError(f"{self.path}: no fragments of id {ids[rows.argmin()]}; embed the run again")
        with tables.open_parquet(self.path) as file:
            for block in file.batches([_COLUMN]):
                inside = (rows >= first) & (rows < first + len(block))
                for row in np.unique(rows[inside]).tolist():
                    lists = block[_COLUMN][row - first].values
                    vectors[row] = np.array(lists.flatten()).reshape(len(lists), -1)
                first += len(block)
        return [vectors[row] for row in rows.tolist()]
