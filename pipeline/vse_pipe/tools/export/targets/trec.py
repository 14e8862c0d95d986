"""run.txt, the best items of each query as TREC has them (``query Q0 item rank score tag``), and qrels.txt where it is known
which are correct (``query 0 item 1``): what trec_eval, ir-measures and ranx read."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from pyarrow import csv

from vse_pipe.core.errors import InputError
from vse_pipe.ranking.engine.scores import strip_height
from vse_pipe.ranking.engine.top import top_k
from vse_pipe.tools.export.fold import Folded, FoldedSide

_STYLE = csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
_TAG = "vse-pipe"


def write(folder: Path, folded: Folded) -> None:
    """Equal scores in the order of the items; in programs that go by the scores they are ties."""
    _write(folder / "run.txt", _answers(folded))
    if folded.correct is not None:
        queries, items = (
            _shown(side, ids) for side, ids in zip((folded.queries, folded.items), folded.correct, strict=True)
        )
        same = pa.repeat(pa.scalar(0), len(queries)), items, pa.repeat(pa.scalar(1), len(queries))
        _write(
            folder / "qrels.txt",
            iter([pa.table([queries, *same], ["query", "iteration", "item", "relevance"])]),
        )


def _shown(side: FoldedSide, ids: np.ndarray) -> pa.Array:
    """As the data set has them. Raises InputError for a text with a space, at which lines are split, or a quotation mark."""
    if side.names is None:
        return pa.array(ids)
    order = np.argsort(side.ids)
    found = side.names.take(pa.array(order[np.searchsorted(side.ids, ids, sorter=order)]))
    if pc.any(wrong := pc.match_substring_regex(found, r'[\p{Z}"]')).as_py():
        text = found.filter(wrong)[0].as_py()
        raise InputError(f"--to trec: {side.key} {text!r} holds a space, at which lines are split, or a quotation mark")
    return found


def _answers(folded: Folded) -> Iterator[pa.Table]:
    items, queries = (torch.from_numpy(side.vectors) for side in (folded.items, folded.queries))
    height = strip_height(len(items))
    for start in range(0, len(queries), height):
        values, columns = top_k(queries[start : start + height] @ items.T, folded.depth)
        count, kept = values.shape
        table = {
            "query": _shown(folded.queries, np.repeat(folded.queries.ids[start : start + count], kept)),
            "iteration": pa.repeat("Q0", count * kept),
            "item": _shown(folded.items, folded.items.ids[columns.numpy().ravel()]),
            "rank": np.tile(np.arange(1, kept + 1), count),
            "score": values.numpy().ravel(),
            "tag": pa.repeat(_TAG, count * kept),
        }
        yield pa.table(table)


def _write(path: Path, tables: Iterator[pa.Table]) -> None:
    first = next(tables)
    with csv.CSVWriter(path, first.schema, write_options=_STYLE) as file:
        file.write(first)
        for table in tables:
            file.write(table)
