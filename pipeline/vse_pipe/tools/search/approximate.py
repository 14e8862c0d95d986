"""An approximate index of what is searched, by FAISS: made once, kept in data/search/ and mapped into memory.

A criterion's correction is one more dimension of the vectors (``vse_pipe.tools.export.fold``), so that the index ranks as the
criterion does. What it finds is scored again exactly: only which items are found is approximate. So many are always found, however
few are asked for: the hits of a query are the same on all its pages.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int64

from vse_pipe.core.console import say, warn
from vse_pipe.core.errors import PipelineError
from vse_pipe.core.extras import absent
from vse_pipe.core.seeds import generator
from vse_pipe.core.whole import whole_file
from vse_pipe.project.params.schema import SearchParams
from vse_pipe.tools.search import stored
from vse_pipe.tools.search.correction import Correction
from vse_pipe.tools.search.narrow import INDEXED, LEFT_OUT

try:
    import faiss
except ImportError as error:
    raise absent("search.approximate_from", "faiss-cpu", "faiss") from error
from vse_pipe.ranking.engine import index as index_of

_TOP, _SAMPLE, _TOGETHER, _ROUNDING = 10, 200, 16, 1e-5
# So many are scored exactly.
_CANDIDATES = INDEXED + LEFT_OUT
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
            _write(index_of.built(spec, vectors, _column(correction)), temporary)
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
    advice = "search.approximate_from=null for the exact search"
    return index_of.chosen(params.index, rows, dim, params.memory, "search.memory", advice)


def _column(correction: Correction) -> Float32[np.ndarray, " items"] | None:
    """As ``fold.folded``: the mean bias moves all items alike."""
    if correction.bias is None:
        return None
    return ((correction.bias.mean() - correction.bias) / correction.scale).astype(np.float32)


def _candidates(index: Any, query: Float32[np.ndarray, " dim"], correction: Correction) -> np.ndarray:
    """Places of those that are scored exactly, ascending."""
    row = index_of.beside(query[None], None if correction.bias is None else np.ones(1, np.float32))
    found = index.search(row, min(index.ntotal, _CANDIDATES))[1][0]
    return np.sort(found[found >= 0])


def _write(index: Any, path: Path) -> None:
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:  # what FAISS makes of any error of the disk
        raise OSError(str(error)) from error


def _read(path: Path, kind: str, effort: int) -> Any:
    index = faiss.read_index(str(path), _FLAGS[kind])
    index_of.exert(index, effort)
    return index


def _tuned(index: Any, params: SearchParams, found: Approximate, queries: Vectors) -> tuple[int, float]:
    """The least effort that reaches ``search.recall`` on the queries, and its recall; nothing is found of a query with too few
    candidates."""
    least = _least(found, queries)
    for effort in index_of.efforts(index):
        index_of.exert(index, effort)
        each = [found.find(query, _TOP) for query in queries]
        hits = [0 if one is None else (one[0] >= worst).sum() for one, worst in zip(each, least, strict=True)]
        recall = float(np.mean(hits)) / min(_TOP, len(found.vectors))
        if recall >= params.recall:
            break
    return effort, round(recall, 4)


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
