"""data/extract/<dataset>/<features>/: features.npy, index.parquet and meta.json.

features.npy is (rows, D) or (rows, R, D), float16 or float32, read through a memory map.
index.parquet has the row of each image, and the picture behind it: rows of the same pictures are
computed once.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts.images import places
from vse_pipe.core import arrays, tables
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import read_json, require, require_digests, sha256, whole_file, write_json

ARRAY, INDEX, META = "features.npy", "index.parquet", "meta.json"
# Values of the column status.
OK, UNREADABLE = "ok", "unreadable"
# Keys of meta.json that writing adds; the other keys decide the features.
WRITTEN = ("fingerprint", "shape", "sha256", "index_sha256")
# Key of the digest of images.parquet in meta.json.
IMAGES = "images_sha256"
BESIDE = ("boxes", "scores")
_FLOATS = pa.list_(pa.float32())
_COLUMNS = pa.schema(
    [
        tables.field("image_id", pa.int64(), "unique"),
        tables.field("row", pa.int64(), "row of features.npy; null unless status is ok", nullable=True),
        tables.field("status", pa.string(), "ok, or why the image has no features"),
        tables.field("detail", pa.string(), "empty when ok"),
    ]
)
_PLACES = pa.schema([_COLUMNS.field("row"), _COLUMNS.field("status")])
_ABOUT_BOXES = "x1, y1, x2, y2 of region 0, then 1, ...: edges in pixels of the upright image; null: none"
_ABOUT_CONTENT = "digest of the picture, as in images.parquet, and which box of it; null: nobody knows"
_WHY = pa.schema([*_COLUMNS, tables.field("content", pa.string(), _ABOUT_CONTENT, nullable=True)])
SCHEMA = tables.schema(
    "features 3",
    *_WHY,
    tables.field("boxes", _FLOATS, _ABOUT_BOXES, nullable=True),
    tables.field("scores", _FLOATS, "of the R regions, 0..1 and falling; null: none", nullable=True),
)


@dataclass(frozen=True)
class Features:
    """array: memory map (rows, D) or (rows, R, D); image_ids and rows: int64, parallel, images with
    status ok.

    failed: int64, ids of unreadable images. folder: of the files; boxes and scores are read from it
    at their first use.
    """

    array: np.ndarray
    image_ids: np.ndarray
    rows: np.ndarray
    meta: dict
    folder: Path | None = None
    failed: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    @cached_property
    def boxes(self) -> np.ndarray | None:
        """(rows, R, 4) float32, in the rows of ``array``: x1, y1, x2, y2 in pixels of the upright
        image, NaN in rows without boxes. None for features without boxes."""
        values = self._region_column("boxes")
        return None if values is None else values.reshape(len(values), -1, 4)

    @cached_property
    def scores(self) -> np.ndarray | None:
        """(rows, R) float32: the detector's confidence in each region, or None."""
        return self._region_column("scores")

    def _region_column(self, name: str) -> np.ndarray | None:
        if self.folder is None or self.array.ndim != 3:
            return None
        index = tables.read(self.folder / INDEX, _PLACES, columns=[*_PLACES.names, name])
        if name not in index.column_names:
            return None
        index = index.filter(pc.and_(pc.equal(index["status"], OK), pc.is_valid(index[name])))
        if not index.num_rows:
            return None
        values = np.stack(index[name].to_numpy())
        filled = np.full((len(self.array), values.shape[1]), np.nan, dtype=np.float32)
        filled[index["row"].to_numpy()] = values
        return filled

    def readable(self, image_ids: np.ndarray) -> np.ndarray:
        """bool, False for unreadable images, which later stages omit with their captions. Unknown
        images count as readable, and ``rows_of`` refuses them."""
        return ~np.isin(image_ids, self.failed)

    def rows_of(self, image_ids: np.ndarray) -> np.ndarray:
        """The row of each image. Raises InputError when one has no features."""
        rows = places(self.image_ids, image_ids)
        if (wrong := image_ids[rows < 0]).size:
            raise InputError(f"{len(wrong)} images have no features, the first is image_id {wrong[0]}")
        return self.rows[rows]


def write(
    folder: Path, blocks: np.ndarray | Iterable[np.ndarray], index: pa.Table | Iterable[pa.Table], meta: dict
) -> None:
    """Write the three files from consecutive blocks of rows, with one block in memory at a time, or
    from one array.

    index: as one or more tables. meta.json is written last, with the array's shape and the digests
    that ``read`` requires.
    """
    path = folder / ARRAY
    # Appended and not mapped, so that a full disk is an error and no SIGBUS.
    with whole_file(path) as temporary, temporary.open("wb") as file:
        shape = append_rows(file, [blocks] if isinstance(blocks, np.ndarray) else blocks)
    parts = [index] if isinstance(index, pa.Table) else index
    complete = pa.concat_tables(parts, promote_options="default")
    for column in SCHEMA:
        if column.name not in complete.column_names:
            complete = complete.append_column(column, pa.nulls(len(complete), column.type))
    tables.write(folder / INDEX, complete, SCHEMA, {})
    # Checksums of Parquet cover pages and not the footer with its columns and numbers of rows.
    digests = {"sha256": sha256(path), "index_sha256": sha256(folder / INDEX)}
    write_json(folder / META, {**meta, "shape": shape, **digests})


def append_rows(file: BinaryIO, blocks: Iterable[np.ndarray]) -> list[int]:
    """Write a ``.npy`` file in blocks; returns its shape. Raises InputError for rows of another
    type or shape than the first."""
    blocks = iter(blocks)
    first = next(blocks)
    shape, kind, written = first.shape[1:], first.dtype, 0
    _write_header(file, (0, *shape), kind)
    for block in chain([first], blocks):
        if (block.shape[1:], block.dtype) != (shape, kind):
            rows = f"rows {list(block.shape[1:])} of {block.dtype} follow rows {list(shape)} of {kind}"
            raise InputError(f"{file.name}: {rows}; all have to be alike")
        file.write(np.ascontiguousarray(block).data)
        written += len(block)
    # The header keeps its length, because numpy leaves room for more digits.
    file.seek(0)
    _write_header(file, (written, *shape), kind)
    return [written, *shape]


def _write_header(file: BinaryIO, shape: tuple[int, ...], kind: np.dtype) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


def read(folder: Path, verify: bool = True) -> Features:
    """Open without loading. ``verify`` compares digests with meta.json (IntegrityError)."""
    meta = read_json(folder / META)
    array = open_array(require(folder / ARRAY))
    if verify:
        require_digests(folder, META, {ARRAY: meta.get("sha256"), INDEX: meta.get("index_sha256")}, (ARRAY, INDEX))
    index = tables.read(folder / INDEX, _COLUMNS, columns=_COLUMNS.names)
    failed = index.filter(pc.not_equal(index["status"], OK))["image_id"].to_numpy()
    index = index.filter(pc.equal(index["status"], OK))
    rows = index["row"].to_numpy().astype(np.int64)
    return Features(array, index["image_id"].to_numpy(), rows, meta, folder, failed)


def read_contents(folder: Path) -> tuple[pa.Array, dict[int, str]]:
    """``digests.picture_contents`` of each row, and by image_id why images have no features."""
    index = tables.read(folder / INDEX, _WHY, columns=_WHY.names)
    is_ok = pc.equal(index["status"], OK)
    failed = index.filter(pc.invert(is_ok))
    reasons = zip(failed["image_id"].to_pylist(), failed["detail"].to_pylist(), strict=True)
    return index.filter(is_ok)["content"].combine_chunks(), dict(reasons)


def open_array(path: Path) -> np.ndarray:
    """The memory map of a ``.npy`` file. Raises IntegrityError when it is none, or not whole."""
    array = arrays.open_npy(path, IntegrityError)
    if array.ndim == 0:
        raise IntegrityError(f"{path}: holds a single number and no rows; extract it again")
    return array


def lists(values: np.ndarray) -> pa.Array:
    """A column of index.parquet from (rows, ...): the numbers of a row as a list of float32."""
    flat = values.reshape(len(values), -1).astype(np.float32)
    return pa.ListArray.from_arrays(np.arange(0, flat.size + 1, flat.shape[1], dtype=np.int32), flat.ravel())
