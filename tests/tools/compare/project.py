"""Folders as `vse-pipe evaluate` writes them, from tables drawn at random."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.ranking import ranked
from vse_pipe.artifacts.evaluation import METRICS, OCCURRENCE, RANKS
from vse_pipe.core.files import write_json
from vse_pipe.project import paths
from vse_pipe.ranking.comparison import Compared
from vse_pipe.ranking.intervals import Figures, nest

ABOUT = {"split": "test", "protocol": "full", "ties": "pessimistic", "bank": "none", "inference": "nns"}


def evaluation(name: str = "one", about: dict | None = None, **shape: object) -> Compared:
    """shape: of ``ranked.tables``."""
    return of_tables(name, *ranked.tables(**shape), **(about or {}))


def of_tables(name: str, ranks: pa.Table, occurrence: pa.Table, **about: object) -> Compared:
    metrics: dict = {"run": name, **ABOUT, **about}
    for address, value in Figures.from_tables(ranks, occurrence).estimate().items():
        nest(metrics, address, round(value, 6))
    return Compared(name, metrics, ranks, occurrence)


def write(one: Compared, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / METRICS, one.metrics)
    for file, table in ((RANKS, one.ranks), (OCCURRENCE, one.occurrence)):
        pq.write_table(table, folder / file)
    return folder


def write_run(run: str, *criteria: str, **shape: object) -> None:
    """Below data/evaluate/<run>, the same figures under each criterion."""
    for criterion in criteria or ("nns",):
        bank = "none" if criterion == "nns" else "test"
        write(evaluation(run, {"inference": criterion, "bank": bank}, **shape), paths.evaluated(run, criterion))
