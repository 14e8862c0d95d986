"""data/prepare/<dataset>/images.parquet: one row per image, in the data set's order."""

from pathlib import Path

import pyarrow as pa

from vse_pipe.core import tables

NAME = "images.parquet"
# Where a format that draws its images puts them, beside it.
DRAWN = "images/*"
# In place of the digest of an image whose bytes could not be read; equal to no digest, whatever is there later.
UNREAD = "unread"
# Boxes that are proposed in pictures of another data set: only ranked, nothing is trained or evaluated on them.
PROPOSAL = "proposal"
DESCRIBED = ("train", "val", "test")
SPLITS = (*DESCRIBED, PROPOSAL)
SCHEMA = pa.schema(
    [
        tables.field("image_id", pa.int64(), "unique; the data set's own number where it has one"),
        tables.field(
            "file",
            pa.string(),
            "path relative to the image root, or what vse_pipe.pictures.address reads, such as a box in a picture; <split>_ims.npy#<row> for precomputed features",
        ),
        tables.field("split", pa.string(), "train, val or test; proposal: a box that ``format: regions`` proposes"),
        tables.field(
            "width", pa.int32(), "pixels, upright; 0 where there is no picture: precomputed features, broken files"
        ),
        tables.field(
            "height", pa.int32(), "pixels, upright; 0 where there is no picture: precomputed features, broken files"
        ),
        tables.field(
            "sha256",
            pa.string(),
            f"of the image file, or of the row of precomputed features; '{UNREAD}': there was no file to read",
        ),
    ],
    metadata={"artefact": "images", "version": "1"},
)


def write(folder: Path, table: pa.Table, root: str, beside: dict[str, str] | None = None) -> None:
    """root: where ``file`` is relative to; itself relative to the project, or absolute. beside: digests of files by name,
    of which this one tells the change where it stands for them."""
    tables.write(folder / NAME, table, SCHEMA, {"root": root, **(beside or {})}, problems)


def read(folder: Path) -> pa.Table:
    return tables.read(
        folder / NAME, SCHEMA, f"vse-pipe prepare --dataset {folder.name}", problems=problems, told="root"
    )


def root(table: pa.Table) -> Path:
    return Path(tables.footer(table)["root"])


def problems(table: pa.Table) -> list[str]:
    found = tables.repeated(table, "image_id")
    strange = sorted(set(table["split"].unique().to_pylist()) - set(SPLITS))
    found += [f"split '{name}' is not one of {', '.join(SPLITS)}" for name in strange]
    if table.num_rows == 0:
        found.append("no images")
    return found
