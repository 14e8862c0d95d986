"""How probable it is that a pair is mismatched, without a trained model and without a known
mismatch.

Each evidence compares a caption with any image, so mismatches can be simulated: captions beside
other images. What tells these from the pairs as they are also tells the mismatched pairs from the
matched ones, because the pairs as they are hold no other difference. This is learning from one
labelled class and a mixture (Elkan and Noto, KDD 2008). ``share`` says how many pairs are
mismatched."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy import ndarray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vse_pipe.audit.doubts import linear, siblings
from vse_pipe.audit.pool import Evidence, PairPool, blocks, standardised
from vse_pipe.audit.share import Estimate, estimate

# Correlation of the probabilities of two captions of an image that are both right or both wrong: 0
# to 0.5 on photographs and drawings.
_ALIKE = 0.15
# Mismatches that are simulated at most.
_SIMULATED = 200_000
SIBLINGS = "siblings"


def _similarity(pool: PairPool) -> Evidence:
    """The inner product under a model of one space, such as CLIP."""
    return standardised(pool, pool.text_vectors, pool.image_vectors)


_MEMBERS: dict[str, Callable[[PairPool], Evidence | None]] = {
    "linear": linear.fit,
    "similarity": _similarity,
    SIBLINGS: siblings.fit,
}


@dataclass(frozen=True)
class Doubts:
    """A row a pair. probability: of a mismatch; odds: what pairs are ranked by, log-odds or, under
    a run, the loss; columns: the evidence; estimate: of the share of mismatches, None under a
    run."""

    probability: Float[ndarray, " pairs"]
    odds: Float[ndarray, " pairs"]
    columns: pd.DataFrame
    estimate: Estimate | None = None

    def total(self) -> tuple[float, list[int] | None]:
        """How many of all pairs are mismatched, as ``number``. The share is that of the first
        round, which trusts no pair, so it is surer than the sum of the probabilities."""
        if self.estimate is None:
            return float(self.probability.sum()), None
        count = len(self.odds)
        return self.estimate.share * count, [round(limit * count) for limit in self.estimate.interval]

    def number(self, pairs: Int[ndarray, " some"]) -> tuple[float, list[int] | None]:
        """How many of some pairs are mismatched, and the 95 % interval, None without an
        estimate."""
        expected = float(self.probability[pairs].sum())
        return expected, None if self.estimate is None else self.estimate.number(self.odds[pairs])


def measure(pool: PairPool) -> Doubts:
    """How probable a mismatch is for each pair.

    In a second round pairs count by their trust, 1 less their probability. Siblings join then,
    because the first round shows how often the captions of an image are wrong together. The share
    of mismatches is that of the first round: where wrong pairs won trust, pairs that resemble them
    look better than simulated mismatches do."""
    names = ["linear", *(["similarity"] if pool.joint else [])]
    first = _judged(pool, names, 0.0)
    trusting = replace(pool, trust=(1 - first.probability).astype(np.float32))
    together = _together(first.probability, pool.owners)
    assert first.estimate is not None
    return _judged(trusting, [*names, SIBLINGS], together, first.estimate.shares)


def _judged(pool: PairPool, names: Sequence[str], together: float, shares: ndarray | None = None) -> Doubts:
    """A logistic regression, which is learnt from the other folds, tells simulated mismatches from
    pairs. together: how often the siblings of a mismatched caption move with it; shares: as of
    ``estimate``."""
    rng, folds = np.random.default_rng([pool.seed, 1]), pool.caption_folds
    captions, moved = np.arange(len(folds)), pool.draw(len(folds), _SIMULATED)
    images = pool.other_images(moved, rng)
    of_siblings = np.where(rng.random(len(moved)) < together, pool.owners[moved], images)
    pairs, simulated = dict[str, ndarray](), dict[str, ndarray]()
    for name in names:
        if (evidence := _MEMBERS[name](pool)) is not None:
            pairs |= _columns(name, evidence, captions, pool.owners)
            simulated |= _columns(name, evidence, moved, of_siblings if name == SIBLINGS else images)
    table = pd.DataFrame(pairs)
    odds = cross_val_predict(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        np.vstack([table, pd.DataFrame(simulated)]),
        np.repeat([0, 1], [len(captions), len(moved)]),
        cv=PredefinedSplit(np.concatenate([folds, folds[moved]])),
        method="decision_function",
    )
    odds, of_simulated = np.split(odds, [len(captions)])
    share = estimate(odds, of_simulated, len(pool.images), shares)
    return Doubts(share.probability(odds), odds, table, share)


def _columns(name: str, evidence: Evidence, captions: ndarray, images: ndarray) -> dict[str, ndarray]:
    places = np.arange(len(captions))
    columns = np.concatenate([evidence(captions[rows], images[rows]) for rows in blocks(places)])
    return {f"{name}_{number}": column for number, column in enumerate(columns.T, start=1)}


def _together(probability: ndarray, owners: ndarray) -> float:
    """How often all captions of an image are mismatched together, where the others are mismatched
    one by one.

    From the products of the probabilities of two captions of an image: their mean lies between that
    of independent mismatches and that of joint ones. An image that is hard to judge makes
    probabilities alike too (``_ALIKE``)."""
    sums, squares = (np.bincount(owners, values) for values in (probability, probability**2))
    counts = np.bincount(owners)
    share, square = probability.mean(), (probability**2).mean()
    if counts.max() < 2 or not 0 < share < 1:
        return 0.0
    both = (sums**2 - squares)[counts > 1].sum() / (counts * (counts - 1)).sum()
    if_wrong = square / share
    if_right = share * (1 - if_wrong) / (1 - share)
    between = share * if_wrong**2 + (1 - share) * if_right**2 - share**2
    within = square - share**2 - between
    return float(np.clip((both - share**2 - _ALIKE * within) / max(between, 1e-12), 0, 1))
