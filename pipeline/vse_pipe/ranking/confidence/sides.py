"""One direction of one fold as arrays, and its metrics when every image counts as often as it was drawn."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from vse_pipe.core.errors import InputError

# Columns of ranks.parquet whose mean is a metric, and what the mean is multiplied by.
_HITS, _NDCG = "hit_", "ndcg_"
_SHARES = {"map": "ap", "map@r": "ap_at_r", "r_precision": "r_precision"}
_SHAPES = ("skew@10", "robin_hood@10", "gini@10", "anti_hubs@10", "largest_hub@10")


@dataclass(frozen=True)
class FoldDirection:
    """images: ids of the images in the fold, ascending; image_of: for each query its position there; means:
    what each query adds to a metric, float64 by name; ranks: float64, 1 = best, None for a matching; picks:
    positions of the chosen items, those of query q from starts[q] to starts[q + 1]; items: how many there are
    to choose from."""

    images: Int[np.ndarray, " images"]
    image_of: Int[np.ndarray, " queries"]
    means: dict[str, Float[np.ndarray, " queries"]]
    ranks: Float[np.ndarray, " queries"] | None
    starts: Int[np.ndarray, " bounds"]
    picks: Int[np.ndarray, " picks"]
    items: int

    @classmethod
    def of(cls, images: np.ndarray, ranks: pa.Table, items: np.ndarray) -> "FoldDirection":
        """ranks: the rows of one direction and fold; items: the ids in occurrence.parquet. Raises InputError
        when a query chose an item that is not among them."""
        items, chosen = np.sort(items), ranks["top"].combine_chunks()
        picked = chosen.flatten().to_numpy(zero_copy_only=False)
        if not len(items) or (strange := picked[~np.isin(picked, items)]).size:
            which = f"{strange[0]}, the first of {len(strange)} such items," if len(items) else "an item"
            raise InputError(f"ranks.parquet: column 'top' names {which} that occurrence.parquet does not list")
        lengths = chosen.value_lengths().to_numpy(zero_copy_only=False)
        image_of = np.searchsorted(images, ranks["image_id"].to_numpy())
        starts = np.concatenate([[0], lengths.cumsum()]).astype(np.int64)
        picks = np.searchsorted(items, picked)
        return cls(images, image_of, _means(ranks), _column(ranks, "rank"), starts, picks, len(items))

    def measure(self, weights: Int[np.ndarray, "draws images"]) -> dict[str, Float[np.ndarray, " draws"]]:
        """Every metric that the tables allow, under each row of weights. NaN where a draw holds no query."""
        # numba takes half a second to import, which commands that only read params.yaml should not pay.
        from vse_pipe.ranking.compiled import resampling

        sizes = np.bincount(self.image_of, minlength=len(self.images))
        sums = [np.bincount(self.image_of, values, len(self.images)) for values in self.means.values()]
        means = resampling.means(weights, np.stack(sums, axis=1), sizes)
        found = dict(zip(self.means, means.T, strict=True))
        if self.ranks is None:
            # Queries compete for the quotas of a matching. One that is drawn twice would have to be matched
            # twice, so counting it twice gives N_k that no matching has; and only its set at K = 10 is kept.
            return found
        order = np.argsort(self.ranks, kind="stable")
        found["med_r"] = resampling.medians(weights, self.ranks[order], self.image_of[order])
        return found | self.hubness(weights)

    def hubness(self, weights: Int[np.ndarray, "draws images"]) -> dict[str, Float[np.ndarray, " draws"]]:
        """The figures of N_k under each row of weights; none of a matching."""
        from vse_pipe.ranking.compiled import resampling

        if self.ranks is None:
            return {}
        one, five, ten = (
            resampling.hubness(weights, self.image_of, self.starts, self.picks, self.items, k).T for k in (1, 5, 10)
        )
        return {"skew@1": one[0], "skew@5": five[0], **dict(zip(_SHAPES, ten, strict=True))}

    def beside(self, other: "FoldDirection") -> "FoldDirection":
        """The queries of both, the same images and items counted twice: an image of the other has its place behind all of these."""
        ranks = None if self.ranks is None or other.ranks is None else np.concatenate([self.ranks, other.ranks])
        return replace(
            self,
            images=np.concatenate([self.images, other.images]),
            image_of=np.concatenate([self.image_of, other.image_of + len(self.images)]),
            means={},
            ranks=ranks,
            starts=np.concatenate([self.starts, other.starts[1:] + self.starts[-1]]),
            picks=np.concatenate([self.picks, other.picks]),
        )


def _means(ranks: pa.Table) -> dict[str, np.ndarray]:
    hits, ndcg = ([name for name in ranks.column_names if name.startswith(prefix)] for prefix in (_HITS, _NDCG))
    found: dict[str, np.ndarray] = {name.replace(_HITS, "r@"): 100.0 * _numbers(ranks, name) for name in hits}
    position = _column(ranks, "rank")
    if position is not None:
        found |= {"mean_r": position, "mrr": 100.0 / position}
    columns = {**_SHARES, **{name.replace(_NDCG, "ndcg@"): name for name in ndcg}}
    shares = {name: _column(ranks, column) for name, column in columns.items()}
    return found | {name: 100.0 * values for name, values in shares.items() if values is not None}


def _column(ranks: pa.Table, name: str) -> np.ndarray | None:
    """As float64; None when nulls say that the criterion does not define it."""
    return None if ranks[name].null_count else _numbers(ranks, name)


def _numbers(ranks: pa.Table, name: str) -> np.ndarray:
    return ranks[name].to_numpy().astype(np.float64)
