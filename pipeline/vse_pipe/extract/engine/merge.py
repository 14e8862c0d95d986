"""The rows of all images in their order: those of the shards, and those that are there already in between."""

from collections.abc import Iterator, Sequence

import numpy as np

from vse_pipe.extract.engine.job import Job

Arrays = dict[str, np.ndarray]


def merged(
    job: Job, computed: Iterator[Arrays], failed: np.ndarray, names: Sequence[str]
) -> Iterator[tuple[slice, Arrays]]:
    """For every ``size`` rows of images.parquet, these and the arrays ``names`` of those of them that have features; a name
    without arrays is left out.

    computed: of shard after shard; failed: bool (N,), images that have no features. One shard and one block of as many rows are in
    memory.
    """
    waiting = _Queue(computed)
    for start in range(0, job.table.num_rows, job.size):
        rows = slice(start, start + job.size)
        kept = ~failed[rows]
        there = np.full(len(kept), -1) if job.reused is None else job.reused.number[rows]
        new = waiting.take(int((there[kept] < 0).sum()))
        if job.reused is None or not (there >= 0).any():
            yield rows, new
            continue
        places = np.arange(start, start + len(kept))[kept]
        found = {name: _mixed(job, places, new.get(name), name) for name in names}
        yield rows, {name: values for name, values in found.items() if values is not None}


def _mixed(job: Job, places: np.ndarray, new: np.ndarray | None, name: str) -> np.ndarray | None:
    """(len(places), ...), ``new`` where a row was computed now; None where nobody has the array."""
    assert job.reused is not None
    number, row = job.reused.number[places], job.reused.row[places]
    mixed: np.ndarray | None = None
    for source in np.unique(number).tolist():
        values = new if source < 0 else job.reused.sources[source].array(name)
        if values is None:
            continue
        mine = number == source
        if mixed is None:
            mixed = np.empty((len(places), *values.shape[1:]), values.dtype)
        mixed[mine] = values if source < 0 else values[row[mine]]
    return mixed


class _Queue:
    """Rows of one shard after the other, as many at a time as are asked for."""

    def __init__(self, shards: Iterator[Arrays]) -> None:
        self._shards = shards
        self._waiting: Arrays = {}

    def take(self, count: int) -> Arrays:
        while count and self._length() < count:
            if not (more := next(self._shards, {})):  # none of them has such arrays
                return {}
            held = self._waiting if self._length() else {}
            self._waiting = {name: np.concatenate([held[name], more[name]]) for name in held} or more
        taken = {name: values[:count] for name, values in self._waiting.items()}
        self._waiting = {name: values[count:] for name, values in self._waiting.items()}
        return taken if count else {}

    def _length(self) -> int:
        return len(next(iter(self._waiting.values()), ()))
