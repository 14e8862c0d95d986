"""Pairs of equal or nearly equal pictures, by file and pixels, and groups of them with a picture
that stays.

A table of pairs has the columns ``left`` and ``right`` (int64 places of pictures, left < right),
``doubt`` (0 to 1) and ``why``."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Float, Int
from scipy.fft import dctn
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.neighbors import NearestNeighbors

from vse_pipe.artifacts.images import DESCRIBED

# Bits of a hash. Copies that were scaled, compressed or brightened differ in 0 to 30, pictures of
# one series in 66 to 140.
_BITS, _MOST_BITS = 256, 63
# Partners of a picture that are kept, so that a million equal ones have no 10^12 pairs.
_PARTNERS = 8
# Pairs below this doubt are left out.
LEAST = 0.5
_INDIRECT = "the same, by way of another copy,"


def pairs_of(
    left: np.ndarray, right: np.ndarray, doubt: np.ndarray, reason: Sequence[str] | np.ndarray | str
) -> pd.DataFrame:
    """A table of pairs."""
    columns = {"left": np.minimum(left, right), "right": np.maximum(left, right), "doubt": doubt}
    return pd.DataFrame({**columns, "why": reason}).astype({"left": np.int64, "right": np.int64, "doubt": np.float64})


def equal_contents(contents: pa.Array) -> pd.DataFrame:
    """Each picture with the first of equal content. contents: ``digests.picture_contents``."""
    texts = contents.to_pandas().dropna()
    first = pd.Series(texts.index, texts.index).groupby(texts).transform("first")
    later = first[first != first.index]
    return pairs_of(later.to_numpy(), later.index.to_numpy(), np.ones(len(later)), "the same file")


def perceptual_hashes(grey: Float[np.ndarray, "pictures 64 64"]) -> Float[np.ndarray, "pictures 256"]:
    """Signs, 1 or -1, of the lowest 16 x 16 frequencies of the discrete cosine transform against
    their median (pHash; Zauner 2010, section 3.2.1, which has 8 x 8).

    imagehash takes pictures one by one and needs PyWavelets; here a block is one transform."""
    low = dctn(grey, axes=(1, 2), norm="ortho")[:, :16, :16].reshape(len(grey), -1)
    return np.where(low > np.median(low[:, 1:], axis=1, keepdims=True), 1, -1).astype(np.float32)


def near_hashes(
    hashes: Float[np.ndarray, "pictures 256"], colours: np.ndarray, places: Int[np.ndarray, " pictures"]
) -> pd.DataFrame:
    """Pictures whose perceptual hashes differ in less than 64 of 256 bits.

    colours: means of 8 x 8 cells, uint8 (pictures, cells, 3); places: of the pictures. doubt: 0.97
    for equal hashes, 0.5 for 32 bits; less where a cell differs in its colour, because hashes see
    no colours."""
    partners = min(_PARTNERS, len(hashes) - 1)
    if partners < 1:
        return pairs_of(places[:0], places[:0], np.zeros(0), "")
    distances, nearest = NearestNeighbors(n_neighbors=partners, algorithm="brute").fit(hashes).kneighbors()
    bits = np.rint(distances**2 / 4).astype(int)
    i, turn = np.nonzero(bits <= _MOST_BITS)
    j, bits = nearest[i, turn], bits[i, turn]
    colour = np.abs(colours[i].astype(np.float32) - colours[j]).mean(axis=-1).max(axis=-1, initial=0) / 255
    doubt = 0.97 * (1 - bits / (_MOST_BITS + 1)) * np.clip(1.2 - 2 * colour, 0, 1)
    reasons = [f"looks the same ({count} of {_BITS} bits differ)" for count in bits]
    return pairs_of(places[i], places[j], doubt, reasons)


def grouped(pairs: pd.DataFrame, ids: np.ndarray, splits: np.ndarray) -> pd.DataFrame:
    """Findings ``duplicate`` and ``leak``, one for each picture that goes. ids, splits: of all
    pictures.

    Of a group that pairs of ``LEAST`` doubt or more connect, the picture with the smallest id in
    its last split (train < val < test) stays: the others of that split are to be merged into it
    (``duplicate``), those of earlier splits are to be dropped (``leak``). So test keeps its
    pictures and figures stay comparable; ``move`` would give test more captions, and dropping the
    copy in test would make it another test. A picture that goes is as sure as its surest pair."""
    pairs = pairs[pairs["doubt"] >= LEAST].sort_values("doubt", ascending=False, kind="stable")
    pairs = pairs.drop_duplicates(["left", "right"])
    order = pd.Categorical(splits, DESCRIBED).codes.astype(np.int64)
    by_rank = np.lexsort((-ids, order))  # the last ones stay
    rank = pd.Series(np.argsort(by_rank))
    graph = coo_array((np.ones(len(pairs)), (pairs["left"], pairs["right"])), shape=(len(ids), len(ids)))
    stays = by_rank[rank.groupby(connected_components(graph, directed=False)[1]).transform("max")]
    place = np.flatnonzero(stays != np.arange(len(ids)))
    partner = stays[place]
    ends = pd.MultiIndex.from_arrays(np.sort(np.stack([place, partner]), axis=0))
    whys = pairs.set_index(["left", "right"])["why"].reindex(ends).fillna(_INDIRECT).to_numpy()
    surest = np.zeros(len(ids))
    for side in ("left", "right"):
        np.maximum.at(surest, pairs[side], pairs["doubt"])
    is_leak = order[place] != order[partner]
    columns = {
        "kind": np.where(is_leak, "leak", "duplicate"),
        "id": ids[place],
        "doubt": surest[place],
        "why": whys + np.where(is_leak, " as a picture of " + splits[partner].astype(str).astype(object), ""),
        "proposal": np.where(is_leak, "drop", "merge"),
        "other": ids[partner],
    }
    return pd.DataFrame(columns)
