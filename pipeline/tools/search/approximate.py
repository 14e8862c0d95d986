"""An approximate index of what is searched, by FAISS: made once, kept in data/search/ and mapped into memory.

A criterion's correction is one more dimension of the vectors (``pipeline.tools.export.fold``), so that the index ranks as the
criterion does. What it finds is scored again exactly: only which items are found is approximate. Source: Johnson et al.,
Billion-scale similarity search with GPUs, 2019 (ivf); Malkov and Yashunin, 2020 (hnsw).
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int64

from pipeline.core.console import say
from pipeline.core.errors import UsageError
from pipeline.core.extras import absent
from pipeline.core.seeds import generator
from pipeline.core.whole import whole_file
from pipeline.project.params.schema import SearchParams
from pipeline.tools.search import stored
from pipeline.tools.search.correction import Correction

try:
    import faiss
except ImportError as error:
    raise absent("search.approximate_from", "faiss-cpu", "faiss") from error

_TOP, _SAMPLE, _TOGETHER = 10, 200, 16
# Candidates a hit that are scored exactly, at least so many of them.
_SPARE, _LEAST = 4, 100
# Links of a node of the graph; items that centres are learnt from, for each; rows that are handled at once.
_LINKS, _LEARNT, _ROWS = 32, 64, 1 << 16
_MIB = 1 << 20
# What FAISS is asked to build, and the bytes of a number and of an item beside its numbers.
_KINDS = {
    "ivf": [("IVF{lists},Flat", 4.0, 8), ("IVF{lists},SQ8", 1.0, 8), ("IVF{lists},SQ4", 0.5, 8)],
    "hnsw": [(f"HNSW{_LINKS},Flat", 4.0, 9 * _LINKS), (f"HNSW{_LINKS}_SQ8", 1.0, 9 * _LINKS)],
}
_FLAGS = {"ivf": faiss.IO_FLAG_MMAP, "hnsw": faiss.IO_FLAG_MMAP_IFC}
Vectors = Float32[np.ndarray, "rows dim"]


@dataclass(frozen=True)
class Approximate:
    """about: kind, effort, recall on how many queries, when and how long it took to make, whether it was kept."""

    vectors: Vectors
    correction: Correction
    about: dict
    _index: Any

    def find(self, query: Float32[np.ndarray, " dim"], k: int) -> tuple[np.ndarray, Int64[np.ndarray, " found"]]:
        """Corrected scores and places of at most k items, best first, equal scores in the order of the items."""
        places = _candidates(self._index, query, k, self.correction)
        scores = self.correction.at(places).apply(self.vectors[places] @ query)
        order = np.argsort(-scores, kind="stable")[:k]
        return scores[order], places[order]


def opened(
    params: SearchParams,
    path: Path,
    vectors: Vectors,
    correction: Correction,
    files: list[Path],
    sample: Callable[[], Vectors],
) -> Approximate:
    """path: where it is kept, without its ending; files: that vectors and correction come from; sample: queries of the other
    side, that recall is measured with. Raises UsageError where ``search.memory`` is too little for any index."""
    spec = chosen(params, *vectors.shape)
    index_file, record = (path.with_name(path.name + ending) for ending in (".faiss", ".faiss.safetensors"))
    identity = {
        "spec": spec,
        "recall": params.recall,
        "faiss": faiss.__version__,
        "correction": {key: value for key, value in correction.about.items() if key != "kept"},
    }
    if index_file.is_file():
        found = stored.read(record, identity, [*files, index_file])
        if found is not None:
            index = _read(index_file, params.index, found.about["effort"])
            return Approximate(vectors, correction, {**found.about, "kept": True}, index)
    started = time.monotonic()
    say(f"approximate index {spec}: made of {len(vectors):,} items, once")
    whole = _built(spec, vectors, correction)
    with whole_file(index_file) as temporary:
        faiss.write_index(whole, str(temporary))
    del whole
    index = _read(index_file, params.index, 1)
    effort, recall, asked = _tuned(index, params, Approximate(vectors, correction, {}, index), _some(sample()))
    about = {
        "kind": spec,
        "effort": effort,
        "recall": recall,
        "queries": asked,
        "items": len(vectors),
        "seconds": round(time.monotonic() - started, 3),
        "computed": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    stored.write(record, stored.Stored({}, about), identity, [*files, index_file])
    return Approximate(vectors, correction, {**about, "kept": False}, index)


def chosen(params: SearchParams, rows: int, dim: int) -> str:
    """The most exact index of the kind that ``search.memory`` has room for, as FAISS writes it."""
    lists = 1 << max(0, round(math.log2(2 * math.sqrt(rows))))
    for spec, number, beside in _KINDS[params.index]:
        needed = rows * ((dim + 1) * number + beside) + 4 * lists * (dim + 1)
        if needed <= params.memory * _MIB:
            return spec.format(lists=lists)
    raise UsageError(
        f"search.memory: {params.memory} MiB is too little for an index of {rows:,} items of {dim} numbers; give at least "
        f"{math.ceil(needed / _MIB)}, or search.approximate_from=null for the exact search"
    )


def _built(spec: str, vectors: Vectors, correction: Correction) -> Any:
    rows = len(vectors)
    index = faiss.index_factory(vectors.shape[1] + (correction.bias is not None), spec, faiss.METRIC_INNER_PRODUCT)
    learnt = min(rows, _ROWS)
    if spec.startswith("IVF"):
        inside = faiss.extract_index_ivf(index)
        inside.cp.niter, inside.cp.min_points_per_centroid = 10, 1
        learnt = min(rows, _LEARNT * inside.nlist)
    column = _column(correction)
    places = np.sort(generator(0, "sample of an approximate index").choice(rows, learnt, replace=False))
    index.train(_beside(vectors[places], None if column is None else column[places]))
    for start in range(0, rows, _ROWS):
        block = slice(start, start + _ROWS)
        index.add(_beside(vectors[block], None if column is None else column[block]))
    return index


def _column(correction: Correction) -> Float32[np.ndarray, " items"] | None:
    """As ``fold.folded``: the mean bias moves all items alike."""
    if correction.bias is None:
        return None
    return ((correction.bias.mean() - correction.bias) / correction.scale).astype(np.float32)


def _beside(vectors: Vectors, column: Float32[np.ndarray, " rows"] | None) -> Float32[np.ndarray, "rows wide"]:
    return np.ascontiguousarray(vectors) if column is None else np.concatenate([vectors, column[:, None]], axis=1)


def _candidates(index: Any, query: Float32[np.ndarray, " dim"], k: int, correction: Correction) -> np.ndarray:
    """Places of those that are scored exactly, ascending."""
    row = _beside(query[None], None if correction.bias is None else np.ones(1, np.float32))
    found = index.search(row, min(index.ntotal, max(_LEAST, _SPARE * k)))[1][0]
    return np.sort(found[found >= 0])


def _read(path: Path, kind: str, effort: int) -> Any:
    index = faiss.read_index(str(path), _FLAGS[kind])
    _exert(index, effort)
    return index


def _exert(index: Any, effort: int) -> None:
    """effort: lists that are looked into, or nodes that are kept in sight."""
    if isinstance(index, faiss.IndexHNSW):
        index.hnsw.efSearch = effort
    else:
        faiss.extract_index_ivf(index).nprobe = effort


def _tuned(index: Any, params: SearchParams, found: Approximate, queries: Vectors) -> tuple[int, float, int]:
    """The least effort that reaches ``search.recall`` on the queries, its recall, and how many were asked."""
    exact = _exact(found, queries)
    graph = isinstance(index, faiss.IndexHNSW)
    effort, most = (_LEAST, 64 * _LEAST) if graph else (1, faiss.extract_index_ivf(index).nlist)
    while True:
        _exert(index, effort)
        hits = [np.isin(best, found.find(query, _TOP)[1]).mean() for query, best in zip(queries, exact, strict=True)]
        recall = float(np.mean(hits))
        if recall >= params.recall or effort >= most:
            return effort, round(recall, 4), len(queries)
        effort = min(most, 2 * effort)


def _exact(found: Approximate, queries: Vectors) -> list[Int64[np.ndarray, " best"]]:
    """Places of the best of each, some queries at a time."""
    k, best = min(_TOP, len(found.vectors)), []
    for start in range(0, len(queries), _TOGETHER):
        scores = found.correction.apply(queries[start : start + _TOGETHER] @ found.vectors.T)
        best += list(np.argpartition(-scores, k - 1, axis=1)[:, :k])
    return best


def _some(queries: Vectors) -> Vectors:
    places = generator(0, "queries of an approximate index").permutation(len(queries))[:_SAMPLE]
    return queries[np.sort(places)]
