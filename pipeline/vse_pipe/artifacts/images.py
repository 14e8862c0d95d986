"""data/prepare/<dataset>/images.parquet: one row per image, in the data set's order."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.core import tables
from vse_pipe.core.tables import field

NAME = "images.parquet"
# In place of the digest of an unreadable image.
UNREAD = "unread"
# The split of proposed boxes in pictures of another data set. They are ranked only, never trained
# or evaluated.
PROPOSAL = "proposal"
DESCRIBED = ("train", "val", "test")
SPLITS = (*DESCRIBED, PROPOSAL)
SCHEMA = tables.schema(
    "images 1",
    field("image_id", pa.int64(), "unique; the data set's own number where it has one"),
    field(
        "file",
        pa.string(),
        "path relative to the image root, or what vse_pipe.pictures.address reads, such as a box in a picture; <split>_ims.npy#<row> for precomputed features",
    ),
    field("split", pa.string(), "train, val or test; proposal: a box that ``format: regions`` proposes"),
    field("width", pa.int32(), "pixels, upright; 0 where there is no picture: precomputed features, broken files"),
    field("height", pa.int32(), "pixels, upright; 0 where there is no picture: precomputed features, broken files"),
    field(
        "sha256",
        pa.string(),
        f"of the image file, or of the row of precomputed features; '{UNREAD}': there was no file to read",
    ),
)


def write(folder: Path, table: pa.Table, root: str, digests: dict[str, str] | None = None) -> None:
    """root: folder of the names in ``file``, relative to the project, or absolute. digests: of
    further files by name, which are then covered by the digest of this one."""
    _IMAGES.write(folder, table, {"root": root, **(digests or {})})


def root(table: pa.Table) -> Path:
    return Path(tables.footer(table)["root"])


def problems(table: pa.Table) -> list[str]:
    unknown = sorted(set(table["split"].unique().to_pylist()) - set(SPLITS))
    messages = [f"split '{name}' is not one of {', '.join(SPLITS)}" for name in unknown]
    return messages if table.num_rows else ["no images"]


_IMAGES = tables.Artefact(NAME, SCHEMA, "image_id", problems)
read = _IMAGES.read


def places(ids: np.ndarray, sought: np.ndarray) -> np.ndarray:
    """int64: the first place of each of ``sought`` in ``ids``, -1 for an absent one."""
    return np.from_dlpack(pc.fill_null(pc.index_in(pa.array(sought), pa.array(ids)), -1)).astype(np.int64)
