"""Approximate indexes of vectors by FAISS, as search and an approximate evaluation build them.

Source: Johnson et al., Billion-scale similarity search with GPUs, 2019 (ivf); Jégou et al., Product Quantization for Nearest
Neighbor Search, TPAMI 2011 (ivf_pq); Malkov and Yashunin, 2020 (hnsw).
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float32

from vse_pipe.core.errors import UsageError
from vse_pipe.core.extras import absent
from vse_pipe.core.seeds import generator

try:
    import faiss
except ImportError as error:
    raise absent("an approximate index", "faiss-cpu", "faiss") from error

# Links of a node of the graph; items that centres are learnt from, for each; rows that are handled at once.
_LINKS, _LEARNT, _ROWS = 32, 64, 1 << 16
# Numbers that a code of four bits stands for.
_A_CODE = 2
_MIB = 1 << 20
# The least effort of a graph, and how many times that is the most.
_LEAST, _DOUBLED = 100, 64
# Codes of four bits are learnt from so many.
_FEWEST = 16
# What FAISS is asked to build, and the bytes of a number and of an item beside its numbers.
_KINDS = {
    "ivf": [("IVF{lists},Flat", 4.0, 8), ("IVF{lists},SQ8", 1.0, 8), ("IVF{lists},SQ4", 0.5, 8)],
    "ivf_pq": [("IVF{lists},PQ{codes}x4fs", 0.5 / _A_CODE, 8)],
    "hnsw": [(f"HNSW{_LINKS},Flat", 4.0, 9 * _LINKS), (f"HNSW{_LINKS}_SQ8", 1.0, 9 * _LINKS)],
}
Vectors = Float32[np.ndarray, "rows dim"]


def chosen(kind: str, rows: int, dim: int, memory: int, parameter: str, advice: str) -> str:
    """The most exact index of a kind that ``memory`` MiB have room for, as FAISS writes it. parameter, advice: that sets them and
    what else to do, for the message of the UsageError where they are too few."""
    if kind == "ivf_pq" and rows < _FEWEST:
        raise UsageError(f"ivf_pq is of {_FEWEST} items at least, these are {rows}; {advice}")
    lists = 1 << max(0, round(math.log2(2 * math.sqrt(rows))))
    codes = max(parts for parts in range(1, max(1, dim // _A_CODE) + 1) if dim % parts == 0)
    for spec, number, beside in _KINDS[kind]:
        needed = rows * ((dim + 1) * number + beside) + 4 * lists * (dim + 1)
        if needed <= memory * _MIB:
            return spec.format(lists=lists, codes=codes)
    raise UsageError(
        f"{parameter}: {memory} MiB is too little for an index of {rows:,} items of {dim} numbers; give at least "
        f"{math.ceil(needed / _MIB)}, or {advice}"
    )


def built(spec: str, vectors: Vectors, column: Float32[np.ndarray, " rows"] | None = None) -> Any:
    """An index by inner product of the vectors, each with its number of ``column`` behind it, if given."""
    rows = len(vectors)
    index = faiss.index_factory(vectors.shape[1] + (column is not None), spec, faiss.METRIC_INNER_PRODUCT)
    learnt = min(rows, _ROWS)
    if spec.startswith("IVF"):
        inside = faiss.extract_index_ivf(index)
        inside.cp.niter, inside.cp.min_points_per_centroid = 10, 1
        learnt = min(rows, _LEARNT * inside.nlist)
        if isinstance(inside, faiss.IndexIVFPQFastScan):
            inside.pq.cp.min_points_per_centroid = 1
    places = np.sort(generator(0, "sample of an approximate index").choice(rows, learnt, replace=False))
    index.train(beside(vectors[places], None if column is None else column[places]))
    for start in range(0, rows, _ROWS):
        block = slice(start, start + _ROWS)
        index.add(beside(vectors[block], None if column is None else column[block]))
    return index


def beside(vectors: Vectors, column: Float32[np.ndarray, " rows"] | None) -> Float32[np.ndarray, "rows wide"]:
    return np.ascontiguousarray(vectors) if column is None else np.concatenate([vectors, column[:, None]], axis=1)


def efforts(index: Any) -> list[int]:
    """Those worth a try, each twice the one before; at the last all lists are looked into."""
    if isinstance(index, faiss.IndexHNSW):
        return [_LEAST << times for times in range(_DOUBLED.bit_length())]
    lists = faiss.extract_index_ivf(index).nlist
    return sorted({min(lists, 1 << times) for times in range(lists.bit_length() + 1)})


def exert(index: Any, effort: int) -> None:
    """effort: lists that are looked into, or nodes that are kept in sight."""
    if isinstance(index, faiss.IndexHNSW):
        index.hnsw.efSearch = effort
    else:
        faiss.extract_index_ivf(index).nprobe = effort
