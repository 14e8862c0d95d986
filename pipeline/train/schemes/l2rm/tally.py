"""What an epoch of rematching leaves in rematching.json."""

import numpy as np
from numpy import ndarray

from pipeline.train.engine.mixture import beta
from pipeline.train.engine.mixture.quality import against_truth
from pipeline.train.schemes.l2rm.partition import Partition

_LOSS_EDGES = np.linspace(0, 1, 51)
_COST_EDGES = np.linspace(0, 2, 41)


class Tally:
    """Costs and moved masses of the steps of one epoch, over the split it began with.

    truth: which pairs are known to be mismatched, None where nothing is known; the histograms then follow the split.
    """

    def __init__(self, split: Partition, truth: ndarray | None) -> None:
        self.split, self.truth = split, truth
        self._mismatched = ~split.clean if truth is None else truth
        self._costs = np.zeros((2, len(_COST_EDGES) - 1), dtype=np.int64)
        self._moved: list[float] = []

    def cost(self, pairs: ndarray, own: ndarray) -> None:
        """own: (pairs,) cost of moving each pair's image to its caption."""
        inside = np.clip(own, _COST_EDGES[0], _COST_EDGES[-1])
        for kind in (0, 1):
            chosen = inside[self._mismatched[pairs] == bool(kind)]
            self._costs[kind] += np.histogram(chosen, _COST_EDGES)[0]

    def moved(self, mass: float) -> None:
        self._moved.append(mass)

    def record(self) -> dict:
        split = self.split
        scaled = beta.scaled(split.losses)
        losses = [np.histogram(scaled[self._mismatched == bool(kind)], _LOSS_EDGES)[0] for kind in (0, 1)]
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
            "moved": float(np.mean(self._moved)) if self._moved else None,
            "truth": known,
        }


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
