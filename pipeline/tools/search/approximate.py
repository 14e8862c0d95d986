"""An approximate index of what is searched, by FAISS: made once, kept in data/search/ and mapped into memory.

A criterion's correction is one more dimension of the vectors (``pipeline.tools.export.fold``), so that the index ranks as the
criterion does. What it finds is scored again exactly: only which items are found is approximate. So many are always found, however
few are asked for: the hits of a query are the same on all its pages. Source: Johnson et al.,
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

from pipeline.core.console import say, warn
from pipeline.core.errors import PipelineError, UsageError
from pipeline.core.extras import absent
from pipeline.core.seeds import generator
from pipeline.core.whole import whole_file
from pipeline.project.params.schema import SearchParams
from pipeline.tools.search import stored
from pipeline.tools.search.correction import Correction
from pipeline.tools.search.narrow import INDEXED, LEFT_OUT

try:
    import faiss
except ImportError as error:
    raise absent("search.approximate_from", "faiss-cpu", "faiss") from error

_TOP, _SAMPLE, _TOGETHER, _ROUNDING = 10, 200, 16, 1e-5
# So many are scored exactly. The least effort of a graph.
_CANDIDATES, _LEAST = INDEXED + LEFT_OUT, 100
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
    """about: kind, effort, recall on how many queries, which are ``queries`` or ``items``, when and how long it took to make,
    whether it was kept."""

    vectors: Vectors
    correction: Correction
    about: dict
    _index: Any

    def find(self, query: Float32[np.ndarray, " dim"], k: int) -> tuple[np.ndarray, Int64[np.ndarray, " found"]] | None:
        """Corrected scores and places of k items, at most _CANDIDATES, best first, equal scores in the order of the items. None,
        whatever k, where the part of the index that is looked into holds fewer candidates than are scored."""
        places = _candidates(self._index, query, self.correction)
        if len(places) < min(_CANDIDATES, len(self.vectors)):
            return None
        scores = self.correction.at(places).apply(self.vectors[places] @ query)
        order = np.argsort(-scores, kind="stable")[:k]
        return scores[order], places[order]


def opened(
    params: SearchParams,
    path: Path,
    vectors: Vectors,
    correction: Correction,
    files: stored.Stamps,
    sample: Callable[[], Vectors],
) -> Approximate | None:
    """path: where it is kept, without its ending; files: that vectors and correction come from; sample: queries of the other
    side, that recall is measured with. None, with a warning, where it cannot be written. Raises UsageError where
    ``search.memory`` is too little for any index."""
    spec = chosen(params, *vectors.shape)
    index_file, record = (path.with_name(path.name + ending) for ending in (".faiss", ".faiss.safetensors"))
    identity = {
        "spec": spec,
        "recall": params.recall,
        "candidates": _CANDIDATES,
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
    try:
        # Opened first: a folder that cannot be written is found out before the minutes of work.
        with whole_file(index_file) as temporary:
            _write(_built(spec, vectors, correction), temporary)
    except (OSError, PipelineError) as error:
        warn(f"{index_file} cannot be written and every item is scored: {' '.join(str(error).split())}")
        return None
    index = _read(index_file, params.index, 1)
    other = sample()
    queries = _some(other if len(other) else vectors)
    effort, recall = _tuned(index, params, Approximate(vectors, correction, {}, index), queries)
    about = {
        "kind": spec,
        "effort": effort,
        "recall": recall,
        "queries": len(queries),
        "asked": "queries" if len(other) else "items",
        "items": len(vectors),
        "seconds": round(time.monotonic() - started, 3),
        "computed": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    stored.write(record, stored.Stored({}, about), identity, {**files, **stored.stamped([index_file])})
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


def _candidates(index: Any, query: Float32[np.ndarray, " dim"], correction: Correction) -> np.ndarray:
    """Places of those that are scored exactly, ascending."""
    row = _beside(query[None], None if correction.bias is None else np.ones(1, np.float32))
    found = index.search(row, min(index.ntotal, _CANDIDATES))[1][0]
    return np.sort(found[found >= 0])


def _write(index: Any, path: Path) -> None:
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:  # what FAISS makes of any error of the disk
        raise OSError(str(error)) from error


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


def _tuned(index: Any, params: SearchParams, found: Approximate, queries: Vectors) -> tuple[int, float]:
    """The least effort that reaches ``search.recall`` on the queries, and its recall; nothing is found of a query with too few
    candidates."""
    least = _least(found, queries)
    graph = isinstance(index, faiss.IndexHNSW)
    effort, most = (_LEAST, 64 * _LEAST) if graph else (1, faiss.extract_index_ivf(index).nlist)
    while True:
        _exert(index, effort)
        each = [found.find(query, _TOP) for query in queries]
        hits = [0 if one is None else (one[0] >= worst).sum() for one, worst in zip(each, least, strict=True)]
        recall = float(np.mean(hits)) / min(_TOP, len(found.vectors))
        if recall >= params.recall or effort >= most:
            return effort, round(recall, 4)
        effort = min(most, 2 * effort)


def _least(found: Approximate, queries: Vectors) -> list[float]:
    """What an item scores at least that is among the best of each query, or equals one that is, up to rounding."""
    k, least = min(_TOP, len(found.vectors)), []
    for start in range(0, len(queries), _TOGETHER):
        scores = found.correction.apply(queries[start : start + _TOGETHER] @ found.vectors.T)
        worst = np.partition(scores, -k, axis=1)[:, -k]
        least += (worst - _ROUNDING * np.maximum(1, np.abs(worst))).tolist()
    return least


def _some(queries: Vectors) -> Vectors:
    """A sample of them."""
    places = generator(0, "queries of an approximate index").permutation(len(queries))[:_SAMPLE]
    return queries[np.sort(places)]
