"""What `vse-pipe prepare` would do."""

from vse_pipe.artifacts import captions, images
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.step import AGAIN, RUNS, Earlier, Step, rows_in, scaled, seconds


def plan(params: Params, dataset: str) -> Step:
    """Rows are known beforehand where the renderer is told them, and else from what an earlier call found."""
    node, out = params.datasets[dataset], paths.prepared(dataset)
    there = {"images": rows_in(out / images.NAME), "captions": rows_in(out / captions.NAME)}
    before = there["images"]
    rows = {name: count for name, count in there.items() if count is not None}
    counts = getattr(node.format.params, "counts", None)
    if counts is not None:
        wanted = sum(counts().values())
        rows = {"images": wanted} | ({"captions": rows["captions"]} if before == wanted else {})
    work = rows.get("images")
    spent, because = seconds(work, [Earlier(out, before)])
    if before is None and counts is None:
        because = "how many rows the source has is known once it has been read"
    written = scaled(out, work / before if work and before else None)
    return Step("prepare", dataset, str(out), AGAIN if before else RUNS, rows, written, spent, because)
