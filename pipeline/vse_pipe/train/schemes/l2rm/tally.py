"""What an epoch of rematching leaves in rematching.json."""

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from vse_pipe.train.engine.data import Pairs
from vse_pipe.train.engine.mixture import beta
from vse_pipe.train.engine.mixture.quality import against_truth
from vse_pipe.train.schemes.l2rm.partition import Partition

_LOSS_EDGES = np.linspace(0, 1, 51)
_COST_EDGES = np.linspace(0, 2, 41)
# Pairs that a record names.
_SHOWN = 12
_KINDS = ("untransported", "transported")


class Tally:
    """Costs and transport plans of the steps of one epoch, over the split it began with.

    Where nothing is known of the pairs' truth the histograms follow the split.
    """

    def __init__(self, split: Partition, pairs: Pairs) -> None:
        self.split, self.pairs, self.truth = split, pairs, pairs.mismatched
        self._mismatched = ~split.clean if self.truth is None else self.truth
        self._costs = np.zeros((2, len(_COST_EDGES) - 1), dtype=np.int64)
        # Mass of each plan, and of it what stays with the pair's own caption.
        self._moved: list[tuple[float, float]] = []
        # Of untransported and of transported images; batches of an epoch are of one size.
        self._rows, self._ranked = np.zeros(2), np.zeros((2, 1))
        # Of each pair's image, in its last plan: the weight of the caption that got most, 0 if not transported, and its pair.
        self._weight, self._partner = np.zeros(len(pairs)), np.zeros(len(pairs), dtype=np.int64)

    def cost(self, pairs: ndarray, own: ndarray) -> None:
        """own: (pairs,) cost of moving each pair's image to its caption."""
        inside = np.clip(own, _COST_EDGES[0], _COST_EDGES[-1])
        for kind in (0, 1):
            chosen = inside[self._mismatched[pairs] == bool(kind)]
            self._costs[kind] += np.histogram(chosen, _COST_EDGES)[0]

    def moved(
        self, pairs: Int[ndarray, " rows"], plan: Float[ndarray, "rows rows"], refined: Float[ndarray, "rows rows"]
    ) -> None:
        """plan: the mass moved from the images to the captions of ``pairs``; refined: what the model is drawn to."""
        self._moved.append((float(plan.sum()), float(plan.trace())))
        # An image is transported when more than half of its mass is moved.
        transported = plan.sum(axis=1) > 0.5 / len(pairs)
        kinds = np.stack([~transported, transported]).astype(float)
        self._rows += kinds.sum(axis=1)
        self._ranked = self._ranked + kinds @ np.sort(refined, axis=1)[:, ::-1]
        self._weight[pairs] = np.where(transported, refined.max(axis=1), 0)
        self._partner[pairs] = pairs[refined.argmax(axis=1)]

    def record(self) -> dict:
        split = self.split
        scaled = beta.scaled(split.losses)
        losses = [np.histogram(scaled[self._mismatched == bool(kind)], _LOSS_EDGES)[0] for kind in (0, 1)]
        moved, kept = np.mean(self._moved, axis=0).tolist() if self._moved else (None, None)
        known = None if self.truth is None else against_truth(split.mixture.posterior, split.clean, self.truth)
        return {
            "pairs": len(split.clean),
            "matched": int(split.clean.sum()),
            "mixture": _mixture(split.mixture),
            "by": "split" if self.truth is None else "truth",
            "losses": {
                "smallest": float(split.losses.min()),
                "largest": float(split.losses.max()),
                **_histogram(_LOSS_EDGES, losses),
            },
            "cost": _histogram(_COST_EDGES, self._costs),
            "moved": moved,
            "kept": kept,
            "alignment": self._alignment(),
            "rematched": self._rematched(),
            "truth": known,
        }

    def _alignment(self) -> dict | None:
        """Figure 7: what the images' refined alignments are on average, the largest entry of each first."""
        if not self._moved:
            return None
        means = (self._ranked / np.maximum(self._rows, 1)[:, None]).round(6).tolist()
        kinds = zip(_KINDS, self._rows, means, strict=True)
        return {kind: {"rows": int(rows), "mean": mean} for kind, rows, mean in kinds}

    def _rematched(self) -> list[dict]:
        """Figure 5: the pairs whose image the plan gives to one caption most plainly, one of each image."""
        pairs = self.pairs
        order = np.argsort(-self._weight, kind="stable")[: int((self._weight > 0).sum())]
        _, first = np.unique(pairs.owners[order], return_index=True)
        captions = pairs.texts.caption_ids[pairs.places]
        return [
            {
                "image_id": int(pairs.owners[place]),
                "caption_id": int(captions[place]),
                "rematch_caption_id": int(captions[self._partner[place]]),
                "weight": round(float(self._weight[place]), 6),
            }
            for place in order[np.sort(first)[:_SHOWN]]
        ]


def _histogram(edges: ndarray, counts: ndarray | list[ndarray]) -> dict[str, list]:
    return {
        "edges": edges.round(6).tolist(),
        "matched": np.asarray(counts[0]).tolist(),
        "mismatched": np.asarray(counts[1]).tolist(),
    }


def _mixture(found: beta.BetaMixture) -> dict:
    numbers = {name: getattr(found, name) for name in ("alpha", "beta", "weight")}
    return {
        **{name: values.tolist() if np.isfinite(values).all() else None for name, values in numbers.items()},
        "converged": found.converged,
        "iterations": found.iterations,
        "doubts": list(found.doubts),
    }
