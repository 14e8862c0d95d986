"""data/localize/<run>/: metrics.json and ranks.parquet (a row per mention of a phrase). ``source_data`` in metrics.json
has digests of the whole pictures and their captions by split."""

from pathlib import Path

import pyarrow as pa

from vse_pipe.artifacts import joins, regions
from vse_pipe.artifacts.joins import Origin
from vse_pipe.core import tables
from vse_pipe.core.files import read_json, require, sha256, write_json
from vse_pipe.core.tables import field, run_of_folder
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params

METRICS, RANKS = "metrics.json", "ranks.parquet"
FILES = (METRICS, RANKS)
FOUND = tuple(f"found_{name}" for name in regions.BOX_COLUMNS)
SCHEMA = tables.schema(
    "localisation 1",
    field("phrase_id", pa.int64(), "unique; the mention"),
    field("caption_id", pa.int64(), "the caption it stands in, of the data set that has the whole pictures"),
    field("image_id", pa.int64(), "the whole picture; mentions that share one go together"),
    field("start", pa.int32(), "its first character in the caption's text, counted from 0"),
    field("text", pa.string(), "as in the caption"),
    field("type", pa.string(), "kind of thing; several are joined by /"),
    field("candidates", pa.int32(), "proposals of the picture"),
    field("correct", pa.int32(), "candidates that overlap the true box as far as the threshold asks"),
    field("rank", pa.float64(), "1 = best, of the first correct candidate; null: none is", nullable=True),
    field("bound", pa.float64(), "the largest IoU that a candidate has with the true box"),
    field("region_id", pa.int64(), "the best candidate; null where the picture has none", nullable=True),
    field("score", pa.float32(), "its similarity to the phrase; larger is closer", nullable=True),
    field("iou", pa.float64(), "its IoU with the true box, 0 to 1", nullable=True),
    *regions.BOX_FIELDS,
    *[field(name, pa.float64(), "of the best candidate; pixels from 0", nullable=True) for name in FOUND],
)


def write(folder: Path, ranks: pa.Table, metrics: dict, source: str) -> None:
    """metrics: finite numbers, strings, null and nested dictionaries only; source: folder of the whole pictures."""
    tables.write(folder / RANKS, ranks, SCHEMA, {"source": source}, problems)
    write_json(folder / METRICS, metrics)


def read_metrics(folder: Path) -> dict:
    return read_json(require(folder / METRICS, f"vse-pipe localize --run {run_of_folder(folder)}"))


def data(prepared: Path) -> dict[str, str]:
    """Digests of what says where phrases and boxes are, by file: ``data`` of metrics.json. prepared: folder of the
    regions; files that are not there are left out."""
    return {name: sha256(prepared / name) for name in (regions.PHRASES, regions.NAME) if (prepared / name).is_file()}


def origin(folder: Path, metrics: dict) -> Origin:
    """The origin of the pictures. metrics: the result of ``read_metrics``."""
    split = str(metrics.get("split"))
    return Origin(folder / METRICS, {split: metrics.get("source_data", {}).get(split)})


def require_current(params: Params, run: str, metrics: dict, pictures: Path) -> None:
    """Raises IntegrityError where the output is of another model or of other phrases, boxes or pictures than there are
    now. pictures: folder of the data set that has the whole pictures."""
    folder = paths.localized(run)
    joins.require_model(folder / METRICS, metrics.get("model_sha256"), paths.trained(run))
    for name, digest in data(paths.prepared(params.runs[run].dataset)).items():
        joins.require_same(folder / METRICS, name, metrics.get("data", {}).get(name), digest)
    joins.require(pictures, origin(folder, metrics))


def source(ranks: pa.Table) -> Path:
    """The folder of the data set that has the whole pictures."""
    return Path(tables.footer(ranks)["source"])


def problems(table: pa.Table) -> list[str]:
    return tables.repeated(table, "phrase_id") + regions.box_problems(table, "phrase_id")


read_ranks = tables.Artefact(RANKS, SCHEMA, "vse-pipe localize --run {run}", problems, "source").read
