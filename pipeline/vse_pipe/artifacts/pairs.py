"""data/inject/<dataset>/<noise>/pairs.parquet: the image that each caption is shown with, and the truth.

``images_sha256`` and ``captions_sha256`` in the footer are digests of the tables."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import joins, teachers
from vse_pipe.core import parquet, tables
from vse_pipe.core.files import require

NAME = "pairs.parquet"
SCHEMA = pa.schema(
    [
        tables.field("caption_id", pa.int64(), "unique"),
        tables.field("image_id", pa.int64(), "the image it is shown with"),
        tables.field(
            "true_image_id",
            pa.int64(),
            "the image it describes; null for a train pair whose truth is unknown",
            nullable=True,
        ),
        tables.field(
            "mismatched", pa.bool_(), "image_id differs from true_image_id; null where that is unknown", nullable=True
        ),
        tables.field("split", pa.string(), "train, val or test; only train pairs are ever mismatched"),
    ],
    metadata={"artefact": "pairs", "version": "2"},
)


def write(folder: Path, table: pa.Table, metadata: dict[str, str]) -> None:
    tables.write(folder / NAME, table, SCHEMA, metadata, problems)


def read(folder: Path) -> pa.Table:
    return tables.read(folder / NAME, SCHEMA, f"vse-pipe inject --noise {folder.name}", problems=problems)


def require_for(folder: Path, prepared: Path) -> None:
    """Raises IntegrityError where the pairs are of other images or captions than ``prepared`` now holds."""
    name = folder.name
    mend = joins.mend(f"inject@{name}", f"vse-pipe inject --noise {name}")
    if (folder / teachers.NAME).is_file():
        mend = joins.mend(f"inject_teachers@{name}", f"vse-pipe inject --teacher {name}")
    with parquet.opened(require(folder / NAME, f"vse-pipe inject --noise {name}")) as file:
        about = {key.decode(): value.decode() for key, value in (file.schema.metadata or {}).items()}
    for what in ("images", "captions"):
        joins.require_file(folder / NAME, about, what, prepared, mend)


def problems(table: pa.Table) -> list[str]:
    found = tables.repeated(table, "caption_id")
    known = pc.is_valid(table["mismatched"])
    if not known.equals(pc.is_valid(table["true_image_id"])):
        found.append("columns mismatched and true_image_id must be null together")
    # A comparison with null is null, and `any` passes over it.
    differs = pc.not_equal(table["image_id"], table["true_image_id"])
    if pc.any(pc.not_equal(differs, table["mismatched"])).as_py():
        found.append("column mismatched contradicts the two image columns")
    outside = pc.not_equal(table["split"], "train")
    if pc.any(pc.and_(outside, table["mismatched"])).as_py():
        found.append("a pair outside the train split is mismatched")
    if pc.any(pc.and_(outside, pc.invert(known))).as_py():
        found.append("the truth about a pair outside the train split is unknown")
    return found
