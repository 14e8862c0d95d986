"""data/embed/<run>/ of a model that compares fragments: images.parquet and captions.parquet with lists of vectors.

A row is an image with its regions or a caption with its words. A row group holds one split.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vse_pipe.artifacts import embeddings
from vse_pipe.core import parquet, tables
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import require, whole_file

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


def schema(side: str, dim: int) -> pa.Schema:
    """side: ``images`` (image_id) or ``captions`` (caption_id, image_id)."""
    vector = pa.list_(pa.field("element", pa.float32(), nullable=False), dim)
    column = tables.field(_COLUMN, pa.list_(pa.field("element", vector, nullable=False)), "a vector each")
    return embeddings.of_side(side, "fragments", column)


def write(path: Path, blocks: Iterable[FragmentRows], dim: int, about: dict[str, str]) -> int:
    """path: .../images.parquet or .../captions.parquet; a row group for each block. Returns how many rows there are.

    Raises InputError on vectors that are not finite; then the file is what it was.
    """
    wanted = tables.with_footer(schema(path.stem, dim), about)
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


def read(path: Path) -> FragmentSide:
    """The file without its vectors. Raises InputError on missing columns or repeated ids."""
    with parquet.opened(path) as file:
        found, key = file.schema, "image_id" if path.stem == "images" else "caption_id"
        wanted = schema(path.stem, 1)
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
