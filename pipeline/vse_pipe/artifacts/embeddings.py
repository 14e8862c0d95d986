"""data/embed/<run>/images.parquet and captions.parquet: ids, splits and float32 vectors.

The footer has run, similarity, normalised and the digest of the model.

A model that compares fragments writes lists of vectors: a row is an image with its regions or a caption with its words, and a row
group holds one split.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vse_pipe.artifacts import names
from vse_pipe.artifacts.joins import FILES, Origin
from vse_pipe.core import mapped, parquet, tables
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import require, whole_file

IMAGES, CAPTIONS = "images.parquet", "captions.parquet"
# The folder beside them with the same files of a run's second network; the footer then has its digest as ``peer_sha256``.
PEER = "peer"
# Footer key: by split, how many images that could not be read and captions of theirs are not in the files.
LEFT_OUT = "left_out"
# Footer key: by split, the digest of the images and captions that are in the files (``vse_pipe.artifacts.joins``).
DATA = "data"
# Footer key, where images are left out: by split, the digest of all its images and captions, as prepared.
PREPARED = "prepared"
# Footer key of a run on a data set it was not trained on: both by name, and the share of unknown words (``Moved``).
TRANSFER = "transfer"
_VECTOR = "embedding"
# Vectors of a row group in memory at a time.
_ROWS = 2**15


def said(about: Mapping[str, str], key: str, split: str, where: Path) -> object:
    """What the footer ``about`` of the file ``where`` has under ``key`` for a split. Raises InputError where it is no JSON."""
    text = about.get(key, "{}")
    try:
        return json.loads(text).get(split)
    except (ValueError, AttributeError) as error:
        raise InputError(f"{where}: {key} in the footer is {text!r}; embed the run again") from error


def left_out(about: Mapping[str, str], split: str, where: Path) -> dict[str, int]:
    """How many images of a split could not be read and are not in the file, with their captions; empty where all are."""
    found = said(about, LEFT_OUT, split, where)
    return {key: int(count) for key, count in found.items()} if isinstance(found, dict) else {}


def origin(folder: Path, about: Mapping[str, str], splits: Iterable[str], mend: str) -> Origin:
    """What the vectors of these splits were made from. about: footer of images.parquet in ``folder``; mend: as of ``Origin``."""
    where = folder / IMAGES
    told = {}
    for split in splits:
        whole = None if left_out(about, split, where) else said(about, DATA, split, where)
        digest = said(about, PREPARED, split, where) or whole
        told[split] = None if digest is None else str(digest)
    files = {key: about[key] for key in FILES if key in about}
    return Origin(folder, mend, told, folder if (folder / names.NAME).is_file() else None, files)


def schema(side: str, dim: int) -> pa.Schema:
    """side: ``images`` (image_id) or ``captions`` (caption_id, image_id)."""
    vector = pa.list_(pa.field("element", pa.float32(), nullable=False), dim)
    return of_side(side, "embeddings", tables.field("embedding", vector, "the vector"))


def of_side(side: str, kind: str, column: pa.Field) -> pa.Schema:
    """The ids, the split and ``column``, for whatever kind of vectors a model has."""
    ids = [tables.field("image_id", pa.int64(), "unique" if side == "images" else "the image it describes")]
    if side == "captions":
        ids.insert(0, tables.field("caption_id", pa.int64(), "unique"))
    columns = [tables.field("split", pa.string(), "train, val or test"), column]
    return pa.schema([*ids, *columns], metadata={"artefact": f"{side} {kind}", "version": "1"})


@dataclass(frozen=True)
class Side:
    """ids: int64 (n,); image_ids: int64 (n,), equal to ids for images; splits: str (n,); vectors: float32 (n, D). Of ``write_each``
    alone ids may be text, and image_ids empty."""

    ids: np.ndarray
    image_ids: np.ndarray
    splits: np.ndarray
    vectors: np.ndarray
    about: dict[str, str]

    def split(self, name: str) -> "Side":
        keep = self.splits == name
        return Side(self.ids[keep], self.image_ids[keep], self.splits[keep], self.vectors[keep], self.about)


def write(path: Path, side: Side) -> None:
    """path: .../images.parquet or .../captions.parquet. Raises InputError on non-finite vectors."""
    table, wanted = _table(path, side, path.stem)
    tables.write(path, table, wanted, side.about)


def write_each(path: Path, sides: Iterable[Side], about: dict[str, str], kind: str | None = None) -> None:
    """``write`` for consecutive parts, of which one is in memory at a time; there is at least one, and each is a row group.

    kind: ``images`` or ``captions``, the name of the file when left out. Ids may be text, and captions may have no ``image_ids``, an empty array: such
    files are not read by ``read`` but as vectors from elsewhere are (``vse_pipe.evaluate.vectors``).
    """
    made = (_table(path, side, kind or path.stem) for side in sides)
    first, wanted = next(made)
    tables.write_each(path, chain([first], (table for table, _ in made)), wanted, about)


def _table(path: Path, side: Side, kind: str) -> tuple[pa.Table, pa.Schema]:
    if not np.isfinite(side.vectors).all():
        raise InputError(f"{path}: the model produced NaN or infinite embeddings")
    dim = side.vectors.shape[1]
    flat = pa.array(np.ascontiguousarray(side.vectors, dtype=np.float32).reshape(-1))
    vector_type = pa.list_(pa.field("element", pa.float32(), nullable=False), dim)
    columns = {
        "caption_id": pa.array(side.ids),
        "image_id": pa.array(side.image_ids),
        "split": pa.array(side.splits, pa.string()),
        "embedding": pa.FixedSizeListArray.from_arrays(flat, type=vector_type),
    }
    columns = {name: column for name, column in columns.items() if len(column) == len(side.ids)}
    wanted = schema(kind, dim)
    fields = [
        field.with_type(pa.string()) if pa.types.is_string(columns[field.name].type) else field
        for field in wanted
        if field.name in columns
    ]
    return pa.table({field.name: columns[field.name] for field in fields}), pa.schema(fields, metadata=wanted.metadata)


def read(path: Path, made_by: str = "vse-pipe embed") -> Side:
    """Raises InputError on missing columns, repeated ids, ragged or non-finite vectors."""
    key = "image_id" if path.stem == "images" else "caption_id"
    table = tables.read(path, schema(path.stem, 1), made_by)
    tables.problems_or_pass(path, tables.repeated(table, key))
    vectors = _vectors(path, table)
    ids, image_ids = table[key].to_numpy(), table["image_id"].to_numpy()
    splits = table["split"].to_numpy(zero_copy_only=False)
    return Side(ids, image_ids, splits, vectors, tables.footer(table))


@dataclass(frozen=True)
class StoredVectors:
    """Vectors that stay in their file. count: of its rows; dim: numbers of a vector; model: its digest, as the footer has it, empty
    where it does not say; state: of the file."""

    path: Path
    count: int
    dim: int
    model: str
    state: mapped.State

    @classmethod
    def of(cls, path: Path) -> "StoredVectors":
        """Raises InputError for a file without vectors, IntegrityError for one whose footer is damaged."""
        state = mapped.file_state(require(path))
        with parquet.opened(path) as file:
            if _VECTOR not in file.schema.names:
                raise InputError(f"{path}: column '{_VECTOR}' is missing")
            kind = _kind(path, file.schema.field(_VECTOR).type)
            model = (file.schema.metadata or {}).get(b"model_sha256", b"").decode(errors="replace")
            return cls(path, file.metadata.num_rows, kind.list_size, model, state)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """(len(rows), D) float32, in the order of ``rows``, which may repeat. Row groups are read one at a time, and those alone that
        are asked for. Raises InputError, IntegrityError for those of them that are not as they were written, and for a file that is another
        one by now."""
        mapped.require_state(self.path, self.state)
        found, order = np.empty((len(rows), self.dim), np.float32), np.argsort(rows)
        rising, first = rows[order], 0
        with parquet.opened(self.path) as file:
            for group in range(file.metadata.num_row_groups):
                end = first + file.metadata.row_group(group).num_rows
                asked = np.searchsorted(rising, (first, end))
                for block in file.batches([_VECTOR], [group], _ROWS) if asked[0] < asked[1] else ():
                    here = slice(*np.searchsorted(rising, (first, first + len(block))))
                    found[order[here]] = _vectors(self.path, block)[rising[here] - first]
                    first += len(block)
                first = end
        mapped.require_state(self.path, self.state)
        return found


def _kind(path: Path, kind: pa.DataType) -> pa.FixedSizeListType:
    if not pa.types.is_fixed_size_list(kind) or kind.value_type != pa.float32():
        raise InputError(f"{path}: column '{_VECTOR}' is {kind}, expected fixed_size_list<float32>")
    return kind


def _vectors(path: Path, table: pa.Table) -> np.ndarray:
    """(rows, D) float32. Raises InputError where they are ragged or not finite."""
    column = table[_VECTOR].combine_chunks()
    flat = column.flatten()
    # ``to_numpy`` imports pandas, which takes half a second.
    if flat.null_count or not np.isfinite(vectors := np.from_dlpack(flat)).all():
        raise InputError(f"{path}: embeddings hold NaN or infinite values")
    return vectors.reshape(len(table), _kind(path, column.type).list_size)


WEIGHTS = "similarity.safetensors"
_COLUMN = "fragments"


@dataclass(frozen=True)
class FragmentRows:
    """Rows of one split. ids, image_ids: int64 (n,), equal for images; vectors: float32 (sum of lengths, D)."""

    split: str
    ids: np.ndarray
    image_ids: np.ndarray
    lengths: np.ndarray
    vectors: np.ndarray


def fragment_schema(side: str, dim: int) -> pa.Schema:
    """side: ``images`` (image_id) or ``captions`` (caption_id, image_id)."""
    vector = pa.list_(pa.field("element", pa.float32(), nullable=False), dim)
    column = tables.field(_COLUMN, pa.list_(pa.field("element", vector, nullable=False)), "a vector each")
    return of_side(side, "fragments", column)


def write_fragments(path: Path, blocks: Iterable[FragmentRows], dim: int, about: dict[str, str]) -> int:
    """path: .../images.parquet or .../captions.parquet; a row group for each block. Returns how many rows there are.

    Raises InputError on vectors that are not finite; then the file is what it was.
    """
    wanted = tables.with_footer(fragment_schema(path.stem, dim), about)
    rows = 0
    with (
        whole_file(path) as temporary,
        pq.ParquetWriter(temporary, wanted, compression="zstd", write_page_checksum=True) as file,
    ):
        for block in blocks:
            if not np.isfinite(block.vectors).all():
                raise InputError(f"{path}: the model produced NaN or infinite embeddings")
            file.write_table(_rows(block, wanted), row_group_size=max(1, len(block.ids)))
            rows += len(block.ids)
    return rows


def _rows(block: FragmentRows, wanted: pa.Schema) -> pa.Table:
    kind = wanted.field(_COLUMN).type
    flat = pa.array(np.ascontiguousarray(block.vectors, np.float32).reshape(-1))
    vectors = pa.FixedSizeListArray.from_arrays(flat, type=kind.value_type)
    offsets = pa.array(np.concatenate([[0], np.cumsum(block.lengths)]).astype(np.int32))
    columns = {
        "caption_id": pa.array(block.ids),
        "image_id": pa.array(block.image_ids),
        "split": pa.array([block.split] * len(block.ids), pa.string()),
        _COLUMN: pa.ListArray.from_arrays(offsets, vectors, type=kind),
    }
    return pa.table([columns[name] for name in wanted.names], schema=wanted)


@dataclass(frozen=True)
class FragmentSide:
    """One of the two files, its vectors still on the disk. ids, image_ids: int64; splits: str; about: the footer."""

    path: Path
    ids: np.ndarray
    image_ids: np.ndarray
    splits: np.ndarray
    about: dict[str, str]

    def split(self, name: str) -> FragmentRows:
        """The rows of one split, with their vectors. Raises IntegrityError when the file is damaged."""
        kept = self.splits == name
        with parquet.opened(self.path) as file:
            counts = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
            parts = np.split(kept, np.cumsum(counts)[:-1])
            groups = [i for i, rows in enumerate(parts) if rows.any()]
            column = file.read([_COLUMN], groups)[_COLUMN]
        lists = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        lengths = np.diff(lists.offsets.to_numpy())
        flat = lists.flatten()
        if str(flat.type.list_size) != self.about.get("dim", str(flat.type.list_size)):
            raise InputError(
                f"{self.path}: vectors of {flat.type.list_size} numbers, the footer says {self.about['dim']}; embed it again"
            )
        # A copy: what Arrow holds cannot be written to, which torch does not accept.
        vectors = np.array(flat.flatten()).reshape(len(flat), flat.type.list_size)
        if len(lengths) != kept.sum() or (len(lengths) and lengths.min() < 1):
            raise InputError(f"{self.path}: the row groups of split '{name}' do not hold its {kept.sum()} rows")
        if not np.isfinite(vectors).all():
            raise InputError(f"{self.path}: fragments hold NaN or infinite values")
        return FragmentRows(name, self.ids[kept], self.image_ids[kept], lengths.astype(np.int64), vectors)


def is_fragments(path: Path, made_by: str) -> bool:
    """Does the file hold fragments, and not vectors? Raises InputError when it is missing, IntegrityError when damaged."""
    require(path, made_by)
    with parquet.opened(path) as file:
        return _COLUMN in file.schema.names


def read_fragments(path: Path) -> FragmentSide:
    """The file without its vectors. Raises InputError on missing columns or repeated ids."""
    with parquet.opened(path) as file:
        found, key = file.schema, "image_id" if path.stem == "images" else "caption_id"
        wanted = fragment_schema(path.stem, 1)
        for field in wanted:
            if field.name not in found.names:
                raise InputError(f"{path}: column '{field.name}' is missing")
        kind = found.field(_COLUMN).type
        if not pa.types.is_list(kind) or not pa.types.is_fixed_size_list(kind.value_type):
            raise InputError(f"{path}: column '{_COLUMN}' is {kind}, expected lists of vectors of one length")
        table = file.read(wanted.names[:-1])
    tables.problems_or_pass(path, tables.repeated(table, key))
    splits = table["split"].to_numpy(zero_copy_only=False)
    with parquet.OURS.named(path, "a footer that is not UTF-8"):
        about = {name.decode(): value.decode() for name, value in (found.metadata or {}).items()}
    return FragmentSide(path, table[key].to_numpy(), table["image_id"].to_numpy(), splits, about)
