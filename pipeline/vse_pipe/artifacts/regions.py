"""data/prepare/<dataset>/regions.parquet: the box of each row of images.parquet.

Only data sets of ``format: regions`` have it. Boxes belong to phrases of another data set, or are proposed.
"""

import json
from pathlib import Path

import pyarrow as pa

from vse_pipe.artifacts import _boxes
from vse_pipe.core import tables

NAME = "regions.parquet"
SCHEMA = pa.schema(
    [
        tables.field("image_id", pa.int64(), "unique; the rows of images.parquet, in its order"),
        tables.field("source_id", pa.int64(), "image_id of the whole picture, in the data set that has it"),
        *_boxes.FIELDS,
        tables.field("proposed", pa.bool_(), "a proposal; false: the box of a phrase"),
        tables.field("score", pa.float64(), "of a proposal, as its method gives it; 0 for the box of a phrase"),
        tables.field("split", pa.string(), "of its picture: train, val or test"),
    ],
    metadata={"artefact": "regions", "version": "1"},
)


def write(
    folder: Path,
    table: pa.Table,
    source: str,
    recall: dict[str, dict] | None = None,
    source_data: dict[str, str] | None = None,
) -> None:
    """source: the folder of the data set that has the whole pictures; source_data: as ``joins.digests`` gives it of that; recall: as
    ``recall`` gives it."""
    footer = {"source": source, "recall": json.dumps(recall or {}, sort_keys=True)}
    footer |= {"source_data": json.dumps(source_data, sort_keys=True)} if source_data else {}
    tables.write(folder / NAME, table, SCHEMA, footer, problems)


def read(folder: Path) -> pa.Table:
    return tables.read(
        folder / NAME, SCHEMA, f"vse-pipe prepare --dataset {folder.name}", problems=problems, told="source"
    )


def source(table: pa.Table) -> Path:
    """The folder of the data set that has the whole pictures."""
    return Path(tables.footer(table)["source"])


def source_data(table: pa.Table) -> dict[str, str]:
    """By split, the digest of the whole pictures and their captions whose numbers the rows have; empty where the file does not say."""
    return json.loads(tables.footer(table).get("source_data", "{}"))


def recall(table: pa.Table) -> dict[str, dict]:
    """By split that has proposals ``{"mentions", "proposals", "recall"}``: mentions of phrases, proposals of their pictures, and
    the share of the mentions of which a proposal has an IoU of 0.5 or more: the bound of R@K where proposals are ranked."""
    return json.loads(tables.footer(table).get("recall", "{}"))


def problems(table: pa.Table) -> list[str]:
    return tables.repeated(table, "image_id") + _boxes.problems(table, "image_id")
