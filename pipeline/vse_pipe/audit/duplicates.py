"""Pairs of equal or nearly equal pictures, by file, pixels and vectors, and groups of them with a picture that stays.

A table of pairs has the columns ``left`` and ``right`` (int64 places of pictures, left < right), ``doubt`` (0 to 1) and
``why``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Float, Int, UInt8, UInt64

# Rows and columns that are compared at once: tiles stay in a processor's cache.
_ROWS, _COLUMNS, _HASHES = 512, 8192, 64
# Words of 64 bits: the lowest 8 x 8 frequencies in the first, the lowest 16 x 16 in the others.
HASH_WORDS = 5
# Copies that were scaled, compressed or brightened differ in 0 to 30 of the 256 bits, pictures of one series in 66 to 140.
_LOW_BITS, _ALL_BITS = 10, 64
# Cosine of centred vectors: copies above 0.95, pictures of one series from 0.8 on, other pictures below.
LEAST_COSINE, SAME_COSINE = 0.8, 0.95
# Dimensions in the products that filter: as many times these as let few pairs through that are not near, at most
# _PASSED of all.
_FILTER, _PASSED = 64, 1e-4
# Partners of a row that are kept, so that a million equal rows have no 10^12 pairs.
_PARTNERS = 8
# Pairs below this doubt are listed and not chained to groups.
CHAINED = 0.5
_SPLITS = ("train", "val", "test")
_INDIRECT = "a copy of a copy"


def pairs_of(
    left: np.ndarray, right: np.ndarray, doubt: np.ndarray, why: Sequence[str] | np.ndarray | str
) -> pd.DataFrame:
    """A table of pairs."""
    columns = {"left": np.minimum(left, right), "right": np.maximum(left, right), "doubt": doubt}
    return pd.DataFrame({**columns, "why": why}).astype({"left": np.int64, "right": np.int64, "doubt": np.float64})


def equal_contents(contents: pa.Array) -> pd.DataFrame:
    """Each picture with the first of the same content, doubt 1. contents: as of ``digests.picture_contents``."""
    codes = contents.dictionary_encode().indices
    valid = np.flatnonzero(codes.is_valid().to_numpy(zero_copy_only=False))
    values = codes.drop_null().to_numpy()
    _, first, which = np.unique(values, return_index=True, return_inverse=True)
    left = first[which]
    later = np.flatnonzero(left != np.arange(len(values)))
    return pairs_of(valid[left[later]], valid[later], np.ones(len(later)), "the same file")


def near_hashes(
    hashes: UInt64[np.ndarray, "pictures 5"],
    colours: UInt8[np.ndarray, "pictures cells 3"],
    places: Int[np.ndarray, " pictures"],
) -> pd.DataFrame:
    """Pictures whose perceptual hashes differ in less than 64 of 256 bits. All pairs are compared: 10^9 take about 5 s.

    hashes: ``perceptual_hashes``; colours: means of 8 x 8 cells; places: of the pictures. doubt: 0.97 for equal hashes,
    0.5 for 32 bits; less where a cell differs in its colour, because hashes see no colours."""

    def compare(rows: slice, columns: slice) -> np.ndarray:
        low = np.bitwise_count(hashes[rows, None, 0] ^ hashes[None, columns, 0])
        i, j = _later(np.nonzero(low <= _LOW_BITS), rows, columns)
        bits = np.bitwise_count(hashes[i, 1:] ^ hashes[j, 1:]).sum(axis=1, dtype=np.int64)
        return np.stack([i, j, -bits], axis=1)[bits < _ALL_BITS]

    i, j, bits = np.abs(_compared(_tiles(len(hashes), _HASHES), compare)).astype(np.int64).T
    colour = np.abs(colours[i].astype(np.float32) - colours[j]).mean(axis=-1).max(axis=-1, initial=0) / 255
    doubt = 0.97 * (1 - bits / _ALL_BITS) * np.clip(1.2 - 2 * colour, 0, 1)
    reasons = [f"looks the same ({count} of 256 bits differ)" for count in bits.tolist()]
    return pairs_of(places[i], places[j], doubt, reasons)[lambda pairs: pairs["doubt"] > 0.05]


def perceptual_hashes(grey: Float[np.ndarray, "pictures 64 64"]) -> UInt64[np.ndarray, "pictures 5"]:
    """Signs of the lowest frequencies of the discrete cosine transform against their median (pHash; Zauner 2010, section
    3.2.1): the first word of 8 x 8 frequencies, as ``imagehash.phash`` has them, then four words of 16 x 16.

    imagehash takes pictures one by one and needs PyWavelets; here a block is one transform."""
    from scipy.fft import dctn

    low = dctn(grey, axes=(1, 2), norm="ortho")[:, :16, :16]
    words = []
    for side in (8, 16):
        values = low[:, :side, :side].reshape(len(grey), -1)
        bits = values > np.median(values[:, 1:], axis=1, keepdims=True)
        words.append(np.packbits(bits, axis=1).view(np.uint64))
    return np.concatenate(words, axis=1)


@dataclass(frozen=True)
class CentredVectors:
    """Rows of an array as centred unit vectors, which are made when they are needed.

    array: (rows, D), or (rows, R, D) for regions, of which the mean counts; a memory map is read by blocks. rows: the
    row of each picture."""

    array: np.ndarray
    rows: Int[np.ndarray, " pictures"]
    centre: Float[np.ndarray, " dim"] | float = 0.0

    @classmethod
    def centred(cls, array: np.ndarray, rows: np.ndarray) -> "CentredVectors":
        """Without their mean, which all vectors of a network share and which makes any two of them alike."""
        plain, total = cls(array, rows), np.zeros(array.shape[-1])
        for block in _blocks(len(rows)):
            total += plain._raw(block).sum(axis=0, dtype=np.float64)
        # Of few vectors the mean would be the vectors themselves.
        return cls(array, rows, (total / (len(rows) + 10)).astype(np.float32))

    def _raw(self, places: slice | np.ndarray) -> np.ndarray:
        values = np.asarray(self.array[self.rows[places]], dtype=np.float32)
        return values if values.ndim == 2 else values.mean(axis=1)

    def take(self, places: slice | np.ndarray) -> Float[np.ndarray, "some dim"]:
        """float32 vectors of length 1, or 0 where there is no direction."""
        values = self._raw(places) - self.centre
        return values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)

    def bounds(self, least: float) -> np.ndarray:
        """float32 (pictures, K + 1), whose products are at least the cosines.

        The first K numbers are those on the main axes of a sample, the last one is the length of the rest: the products
        of two rests are at most that of their lengths (Cauchy and Schwarz). All of a vector where that is as short. K is
        larger for vectors that spread evenly over the axes: 64 of them tell few of their pairs to be below ``least``."""
        dim = self.array.shape[-1]
        sample = self.take(np.linspace(0, len(self.rows) - 1, min(len(self.rows), 8192), dtype=np.int64))
        axes = np.linalg.eigh(sample.T @ sample)[1][:, ::-1]
        turned = sample[:: max(1, len(sample) // _ROWS)] @ axes
        near = np.count_nonzero(turned @ turned.T >= least)
        for size in range(_FILTER, dim - 1, _FILTER):
            short = _shortened(turned, size)
            if np.count_nonzero(short @ short.T >= least) <= 1.1 * near + _PASSED * len(turned) ** 2:
                parts = (_shortened(self.take(block) @ axes, size) for block in _blocks(len(self.rows)))
                return _joined(parts, (len(self.rows), size + 1))
        return _joined((self.take(block) for block in _blocks(len(self.rows))), (len(self.rows), dim))


def _shortened(turned: Float[np.ndarray, "some dim"], size: int) -> Float[np.ndarray, "some short"]:
    """The first ``size`` numbers and the length of the rest; float32 has rounding errors."""
    return np.hstack([turned[:, :size], np.linalg.norm(turned[:, size:], axis=1, keepdims=True) + 1e-4])


def _joined(parts: Iterable[np.ndarray], shape: tuple[int, int]) -> np.ndarray:
    whole = np.empty(shape, np.float32)
    for block, part in zip(_blocks(len(whole)), parts, strict=True):
        whole[block] = part
    return whole


def near_vectors(
    vectors: CentredVectors, places: Int[np.ndarray, " pictures"], least: float = LEAST_COSINE, track: Callable = iter
) -> pd.DataFrame:
    """Pictures with a cosine of ``least`` that are each other's nearest, or of 0.95.

    Exact, in blocks: beside ``bounds`` 200 MB are in memory. doubt: 0.97 for equal vectors, 0.8 for a cosine of 0.95, 0.2
    for 0.8. places: of the pictures; track: shows progress."""
    short = vectors.bounds(least)

    def compare(rows: slice, columns: slice) -> np.ndarray:
        passed = np.flatnonzero(short[rows] @ short[columns].T >= least)
        i, j = _later(divmod(passed, min(columns.stop, len(short)) - columns.start), rows, columns)
        cosines = _cosines(vectors, i, j, rows, columns)
        return np.stack([i, j, cosines], axis=1)[cosines >= least]

    i, j, cosines = _compared(track(list(_tiles(len(short), _ROWS))), compare).T
    i, j = i.astype(np.int64), j.astype(np.int64)
    nearest = np.full(len(short), -1.0)
    np.maximum.at(nearest, np.concatenate([i, j]), np.concatenate([cosines, cosines]))
    is_mutual = cosines >= np.maximum(nearest[i], nearest[j]) - 1e-6
    is_listed = is_mutual | (cosines >= SAME_COSINE)
    doubt = np.interp(cosines[is_listed], [least, SAME_COSINE, 1], [0.2, 0.8, 0.97])
    reasons = [f"features are nearly the same (cosine {cosine:.3f})" for cosine in cosines[is_listed].tolist()]
    return pairs_of(places[i[is_listed]], places[j[is_listed]], doubt, reasons)


def _cosines(vectors: CentredVectors, i: np.ndarray, j: np.ndarray, rows: slice, columns: slice) -> np.ndarray:
    """The cosines of the pairs in a tile."""
    if 50 * len(i) > (rows.stop - rows.start) * (columns.stop - columns.start):
        scores = vectors.take(rows) @ vectors.take(columns).T
        return scores[i - rows.start, j - columns.start].clip(max=1)
    chunks = [slice(start, start + _COLUMNS) for start in range(0, len(i), _COLUMNS)]
    products = [np.einsum("nd,nd->n", vectors.take(i[chunk]), vectors.take(j[chunk])) for chunk in chunks]
    return np.concatenate([np.zeros(0, np.float32), *products]).clip(max=1)


def _later(pairs: tuple[np.ndarray, ...], rows: slice, columns: slice) -> tuple[np.ndarray, np.ndarray]:
    """The places of pairs in a tile, each pair once."""
    i, j = pairs[0] + rows.start, pairs[1] + columns.start
    return i[j > i], j[j > i]


def _compared(tiles: Iterable[tuple[slice, slice]], compare: Callable[[slice, slice], np.ndarray]) -> np.ndarray:
    """float64 (pairs, 3): left and right row and likeness, of all tiles, as ``compare`` returns them for a tile."""
    strips: list[np.ndarray] = []
    strip, start = [np.zeros((0, 3))], 0
    for rows, columns in tiles:
        if rows.start != start:
            strips, strip, start = [*strips, _strongest(strip)], [], rows.start
        strip.append(_strongest([compare(rows, columns)]))
    return np.concatenate([*strips, _strongest(strip)])


def _strongest(parts: list[np.ndarray]) -> np.ndarray:
    """The pairs of each left row with the ``_PARTNERS`` largest likenesses."""
    pairs = np.concatenate(parts)
    pairs = pairs[np.lexsort((pairs[:, 1], -pairs[:, 2], pairs[:, 0]))]
    turn = np.arange(len(pairs)) - np.searchsorted(pairs[:, 0], pairs[:, 0])
    return pairs[turn < _PARTNERS]


def _blocks(count: int) -> Iterator[slice]:
    return (slice(start, min(start + _COLUMNS, count)) for start in range(0, count, _COLUMNS))


def _tiles(count: int, height: int) -> Iterator[tuple[slice, slice]]:
    """Rows and columns that cover every pair of rows; pairs may be covered in both orders near the diagonal."""
    for start in range(0, count, height):
        for first in range(start, count, _COLUMNS):
            yield slice(start, min(start + height, count)), slice(first, min(first + _COLUMNS, count))


def grouped(pairs: pd.DataFrame, ids: Int[np.ndarray, " pictures"], splits: np.ndarray) -> pd.DataFrame:
    """Rows of findings (kind, id, doubt, why, proposal, other), at most one for a picture, the surest first.

    Pairs with a doubt of 0.5 make chains and chains make groups. Of a group the picture with the smallest id in its last
    split (train < val < test) stays: the others of that split are to be merged into it (``duplicate``), those of earlier
    splits are to be dropped (``leak``). So test keeps its pictures and figures stay comparable; ``move`` would give test
    more captions, and dropping the copy in test would make it another test. A picture of a chain is as sure as the
    weakest pair on its best way to the one that stays. Weaker pairs stand alone, between the pictures that stay."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pairs = pairs.sort_values("doubt", ascending=False, kind="stable").drop_duplicates(["left", "right"])
    order = pd.Categorical(splits, _SPLITS).codes.astype(np.int64)
    strong = pairs[pairs["doubt"] >= CHAINED]
    graph = coo_array((np.ones(len(strong)), (strong["left"], strong["right"])), shape=(len(ids), len(ids)))
    group = connected_components(graph, directed=False)[1]
    best_first = np.lexsort((ids, -order, group))
    stays = best_first[np.searchsorted(group[best_first], group)]
    sureness = _sureness(strong, stays)
    away = np.flatnonzero(stays != np.arange(len(ids)))
    direct = {(left, right): why for left, right, why in strong[["left", "right", "why"]].itertuples(index=False)}
    whys = [
        direct.get((min(p, s), max(p, s)), _INDIRECT) for p, s in zip(away.tolist(), stays[away].tolist(), strict=True)
    ]
    rows = [pd.DataFrame({"place": away, "partner": stays[away], "doubt": sureness[away], "why": whys})]
    weak = pairs[pairs["doubt"] < CHAINED]
    ends = np.stack([stays[weak["left"]], stays[weak["right"]]])
    # The one that goes: of the earlier split, then of the larger id.
    goes_first = np.lexsort(np.stack([-ids[ends], order[ends]]), axis=0)
    place, partner = np.take_along_axis(ends, goes_first, axis=0)
    rows.append(
        pd.DataFrame(
            {"place": place, "partner": partner, "doubt": weak["doubt"].to_numpy(), "why": weak["why"].to_numpy()}
        )
    )
    table = pd.concat(rows).query("place != partner").drop_duplicates("place")
    place, partner = table["place"].to_numpy(np.int64), table["partner"].to_numpy(np.int64)
    is_leak = order[place] != order[partner]
    link = np.where(table["why"] == _INDIRECT, " of", " as") + np.array(" a picture of ", dtype=object)
    reasons = table["why"] + np.where(is_leak, link + splits[partner].astype(str), "")
    return pd.DataFrame(
        {
            **{"kind": np.where(is_leak, "leak", "duplicate"), "id": ids[place], "doubt": table["doubt"].to_numpy()},
            **{"why": reasons.to_numpy(), "proposal": np.where(is_leak, "drop", "merge"), "other": ids[partner]},
        }
    ).sort_values("doubt", ascending=False, kind="stable", ignore_index=True)


def _sureness(pairs: pd.DataFrame, stays: np.ndarray) -> np.ndarray:
    """For each picture the largest, over its ways to the one that stays, of the smallest doubt on the way."""
    sureness = (stays == np.arange(len(stays))).astype(float)
    start = np.concatenate([pairs["left"], pairs["right"]])
    end = np.concatenate([pairs["right"], pairs["left"]])
    doubt = np.concatenate([pairs["doubt"], pairs["doubt"]])
    while True:
        before = sureness.copy()
        np.maximum.at(sureness, end, np.minimum(before[start], doubt))
        if np.array_equal(before, sureness):
            return sureness
