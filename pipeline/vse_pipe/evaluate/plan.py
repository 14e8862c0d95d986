"""What `vse-pipe evaluate` would do."""

from pathlib import Path

from vse_pipe.artifacts import evaluation
from vse_pipe.evaluate.node import inputs
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.step import AGAIN, RUNS, Earlier, Step, blocked, by_split, rows_in, seconds, size


def plan(params: Params, run: str, inferences: list[str]) -> Step:
    """Work is images times captions of the split times criteria: every pair is scored."""
    out, needed = paths.evaluations(run), inputs(params, run)
    stopped = blocked("evaluate", run, out, needed)
    if stopped:
        return stopped
    pictures, texts = _queries(needed[:2], params.evaluate.split)
    rows = {"images": pictures, "captions": texts, "criteria": len(inferences)}
    there = [path for path in out.glob("*") if (path / evaluation.METRICS).is_file()]
    # What an earlier call ranked is in its tables, be the split another one now.
    before = sum(_pairs(path) for path in there)
    spent, because = seconds(pictures * texts * len(inferences), [Earlier(out, before)])
    again = all((out / name).is_dir() for name in inferences)
    return Step("evaluate", run, str(out), AGAIN if again else RUNS, rows, _bytes(rows, there), spent, because)


def _queries(files: list[Path], split: str) -> tuple[int, ...]:
    return tuple(by_split(file).get(split, 0) for file in files)


def _pairs(folder: Path) -> int:
    """Queries of both directions as ranks.parquet has them: images and captions, whose product is what was scored."""
    import pyarrow.compute as pc

    from vse_pipe.core import parquet

    if rows_in(folder / evaluation.RANKS) is None:
        return 0
    with parquet.opened(folder / evaluation.RANKS) as file:
        column = file.read(["direction"])["direction"]
    counts = [pc.sum(pc.equal(column, name)).as_py() or 0 for name in evaluation.DIRECTIONS]
    return counts[0] * counts[1]


def _bytes(rows: dict[str, int], there: list[Path]) -> int | None:
    """As many for a query as the criteria that lie there have."""
    queries = sum(rows_in(path / evaluation.RANKS) or 0 for path in there)
    if not queries:
        return None
    return round(sum(map(size, there)) / queries * (rows["images"] + rows["captions"]) * rows["criteria"])
