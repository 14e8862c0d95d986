"""What `vse-pipe export` would do."""

from pathlib import Path

from vse_pipe.artifacts import embeddings
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.step import AGAIN, FLOAT32, RUNS, Step, blocked, by_split

_UNTIMED = "exports are not timed"


def plan(params: Params, run: str, direction: str, out: Path) -> Step:
    """Vectors of the evaluated split with one more dimension each."""
    source = paths.embedded(run)
    stopped = blocked("export", run, out, [source / embeddings.IMAGES, source / embeddings.CAPTIONS])
    if stopped:
        return stopped
    counts = [
        by_split(source / name).get(params.evaluate.split, 0) for name in (embeddings.IMAGES, embeddings.CAPTIONS)
    ]
    items, queries = counts if direction == "text_to_image" else reversed(counts)
    written = sum(counts) * (_dimensions(source) + 1) * FLOAT32
    rows = {"items": items, "queries": queries}
    return Step("export", run, str(out), AGAIN if out.exists() else RUNS, rows, written, None, _UNTIMED)


def _dimensions(source: Path) -> int:
    import pyarrow as pa

    from vse_pipe.core import parquet

    with parquet.opened(source / embeddings.IMAGES) as file:
        kind = file.schema.field("embedding").type
    return kind.list_size if pa.types.is_fixed_size_list(kind) else 0
