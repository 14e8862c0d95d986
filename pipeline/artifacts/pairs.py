"""data/inject/<dataset>/<noise>/pairs.parquet: which image each caption is shown with, and the truth."""

from pathlib import Path

import pyarrow as pa

from pipeline.artifacts import _table

NAME = "pairs.parquet"
SCHEMA = pa.schema(
    [
        _table.field("caption_id", pa.int64(), "unique"),
        _table.field("image_id", pa.int64(), "the image it is shown with"),
        _table.field("true_image_id", pa.int64(), "the image it describes"),
        _table.field("mismatched", pa.bool_(), "image_id differs from true_image_id"),
        _table.field("split", pa.string(), "train, val or test; only train pairs are ever mismatched"),
    ],
    metadata={"artefact": "pairs", "version": "1"},
)


def write(folder: Path, table: pa.Table, metadata: dict[str, str]) -> None:
    _table.problems_or_pass(folder / NAME, problems(table))
    _table.write(folder / NAME, table, SCHEMA, metadata)


def read(folder: Path) -> pa.Table:
    table = _table.read(folder / NAME, SCHEMA, f"vse-pipe inject --noise {folder.name}")
    _table.problems_or_pass(folder / NAME, problems(table))
    return table


def problems(table: pa.Table) -> list[str]:
    found = [f"caption_id {value} occurs more than once" for value in _table.duplicates(table["caption_id"])]
    frame = table.select(["image_id", "true_image_id", "mismatched", "split"]).to_pandas()
    if ((frame.image_id != frame.true_image_id) != frame.mismatched).any():
        found.append("column mismatched contradicts the two image columns")
    if frame.mismatched[frame.split != "train"].any():
        found.append("a pair outside the train split is mismatched")
    return found
