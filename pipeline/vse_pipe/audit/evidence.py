"""How probable it is that a pair is mismatched, without a trained model and without a known
mismatch.

Each evidence compares a caption with any image, so mismatches can be simulated: captions beside
other images. What tells these from the pairs as they are also tells the mismatched pairs from the
matched ones, because the pairs as they are hold no other difference. This is learning from one
labelled class and a mixture (Elkan and Noto, KDD 2008). ``share`` says how many pairs are
mismatched."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy import ndarray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vse_pipe.audit.doubts import linear, neighbours, siblings
from vse_pipe.audit.pool import Evidence, PairPool, blocks, standardised
from vse_pipe.audit.share import Estimate, Odds, estimate, telling

# Correlation of the probabilities of two captions of an image that are both right or both wrong: 0
# to 0.5 on photographs and drawings.
_ALIKE = 0.15
# Pairs from which the combination and the share are learnt.
_LEARNT, _ASKED = 200_000, 50_000
SIBLINGS = "siblings"


def _similarity(pool: PairPool) -> Evidence:
    """The inner product under a model of one space, such as CLIP."""
    return standardised(pool, pool.text_vectors, pool.image_vectors)


_MEMBERS: dict[str, Callable[[PairPool], Evidence | None]] = {
    "linear": linear.fit,
    "similarity": _similarity,
    "neighbours": neighbours.fit,
    SIBLINGS: siblings.fit,
}


@dataclass(frozen=True)
class Doubts:
    """A row a pair. probability: of a mismatch; odds: what pairs are ranked by, log-odds or, under
    a run, the loss; verdicts: as in ``PairPool``; columns: the evidence.

    estimate: of the share of mismatches, None under a run; together: how often the captions of an
    image are wrong together, 0 to 1; weights: of each column in the combination, in units of its
    spread."""

    probability: Float[ndarray, " pairs"]
    odds: Float[ndarray, " pairs"]
    verdicts: Int[ndarray, " pairs"]
    columns: pd.DataFrame
    estimate: Estimate | None = None
    together: float = 0.0
    weights: dict[str, float] = field(default_factory=dict)

    def number(self) -> tuple[float, tuple[float, float] | None]:
        """How many open pairs are mismatched, and the 95 % interval, None without an estimate.

        Pairs were decided because they looked doubtful, by more than their odds now say. So the
        others have fewer mismatches than their odds say, and only the upper limit holds."""
        is_open = self.verdicts == 0
        if self.estimate is None:
            return float(self.probability[is_open].sum()), None
        if is_open.all():
            low, high = self.estimate.interval
            count = len(self.odds)
            return self.estimate.share * count, (low * count, high * count)
        odds = self.odds[is_open]
        return float(self.estimate.probability(odds).sum()), (0.0, self.estimate.number(odds)[1])

    def interval(self, pairs: Int[ndarray, " some"]) -> tuple[float, float] | None:
        """The 95 % interval of mismatches among open pairs, None without an estimate."""
        if self.estimate is None:
            return None
        return self.estimate.number(self.odds[pairs[self.verdicts[pairs] == 0]])


def measure(pool: PairPool) -> Doubts:
    """How probable a mismatch is for each pair.

    In a second round pairs count by their trust, 1 less their probability. Neighbours and siblings
    join then, because the first round shows how often the captions of an image are wrong together.

    The trust that judges a fold is learnt without this fold. Otherwise a wrong pair would win the
    trust of pairs that resemble it, these would vouch for it, and true mismatches would score
    better than simulated ones."""
    first = ["linear", *(["similarity"] if pool.joint else [])]
    doubts, judges = _round(pool, first, 0.0)
    together = _together(doubts.probability, pool.owners)
    assert doubts.estimate is not None
    trust = partial(_trust, pool, first, judges, doubts.estimate)
    return _round(pool, [*first, "neighbours", SIBLINGS], together, trust)[0]


def _trust(
    pool: PairPool, names: Sequence[str], judges: list[Any], share: Estimate, fold: int
) -> Float[ndarray, " pairs"]:
    """The trust in all pairs for those of ``fold``, from which nothing is learnt."""
    is_learnt = pool.caption_folds != fold
    captions = np.flatnonzero(is_learnt)
    without = replace(pool, trust=is_learnt.astype(np.float32))
    columns = [_columns(evidence, captions, pool.owners[captions]) for _, evidence in _fitted(without, names)]
    odds, verdicts = _odds(judges, np.hstack(columns), pool.caption_folds[captions]), pool.verdicts[captions]
    trust = np.zeros_like(pool.trust)
    trust[captions] = np.where(verdicts, verdicts > 0, 1 - share.probability(odds))
    return trust


def _fitted(pool: PairPool, names: Sequence[str]) -> Iterator[tuple[str, Evidence]]:
    for name in names:
        if (evidence := _MEMBERS[name](pool)) is not None:
            yield name, evidence


def _round(
    pool: PairPool, names: Sequence[str], together: float, trust: Callable[[int], ndarray] | None = None
) -> tuple[Doubts, list[Any]]:
    """The doubts, and the judges of the folds. trust: as of ``_compared``."""
    folds = pool.caption_folds
    moved = pool.draw(len(folds), _LEARNT)
    pairs, simulated = _compared(pool, names, moved, together, trust)
    # How far siblings move along is a guess, and a wrong one would show in the tails; so the share
    # does without them.
    used = [name for name in pairs if not name.startswith(SIBLINGS)]
    odds = []
    for columns in (used, list(pairs)):
        sides = pairs[columns].to_numpy(), simulated[columns].to_numpy()
        judges = _judges(*sides, moved, folds)
        both = _odds(judges, sides[0], folds), _odds(judges, sides[1], folds[moved])
        odds.append(Odds(*both, pool.owners, pool.owners[moved], pool.verdicts))
    asked = pool.draw(len(folds), _ASKED)
    vectors = np.hstack([pool.texts[asked], pool.images[pool.owners[asked]]])
    asked = asked[telling(vectors, odds[0].pairs[asked], folds[asked])]
    share = estimate(odds[0].of_pairs(asked, np.isin(moved, asked)), odds[1])
    probability = np.where(pool.verdicts, pool.verdicts < 0, share.probability(odds[1].pairs))
    coefficients = np.array([model[-1].coef_[0] for model in judges], np.float64).mean(axis=0)
    weights = dict(zip(pairs, coefficients.round(4).tolist(), strict=True))
    return Doubts(probability, odds[1].pairs, pool.verdicts, pairs, share, together, weights), judges


def _compared(
    pool: PairPool, names: Sequence[str], moved: ndarray, together: float, trust: Callable[[int], ndarray] | None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The columns of all pairs, and of the ``moved`` captions beside other images.

    trust: in all pairs, for a fold; None: all pairs have the pool's trust, whichever fold is
    judged."""
    rng = np.random.default_rng([pool.seed, 1])
    other_images = pool.other_images(moved, rng)
    # The siblings of these captions move with them.
    stays = rng.random(len(moved)) < together
    moved_images = {SIBLINGS: np.where(stays, pool.owners[moved], other_images)}
    folds = pool.caption_folds if trust else np.zeros_like(pool.owners)
    parts: list[tuple[pd.DataFrame, pd.DataFrame]] = []
    for fold in range(folds.max() + 1):
        view = replace(pool, trust=trust(fold)) if trust else pool
        captions, inside = np.flatnonzero(folds == fold), np.flatnonzero(folds[moved] == fold)
        real, simulated = dict[str, ndarray](), dict[str, ndarray]()
        for name, evidence in _fitted(view, names):
            images = moved_images.get(name, other_images)[inside]
            real |= _named(name, _columns(evidence, captions, pool.owners[captions]))
            simulated |= _named(name, _columns(evidence, moved[inside], images))
        parts.append((pd.DataFrame(real, captions), pd.DataFrame(simulated, inside)))
    real_parts, simulated_parts = zip(*parts, strict=True)
    return pd.concat(real_parts).sort_index(), pd.concat(simulated_parts).sort_index()


def _named(name: str, columns: ndarray) -> dict[str, ndarray]:
    return {f"{name}_{number}": column for number, column in enumerate(columns.T, start=1)}


def _judges(pairs: ndarray, simulated: ndarray, moved: ndarray, folds: ndarray) -> list[Any]:
    """For each fold what tells simulated mismatches from pairs, a logistic regression that is
    learnt from the other folds. moved: the pairs whose captions the simulated ones have; folds: of
    all pairs."""
    models = []
    for fold in range(folds.max() + 1):
        rest = folds[moved] != fold
        learnt, labels = np.vstack([pairs[moved[rest]], simulated[rest]]), np.repeat([0, 1], rest.sum())
        models.append(make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(learnt, labels))
    return models


def _odds(judges: list[Any], columns: ndarray, folds: Int[ndarray, " rows"]) -> Float[ndarray, " rows"]:
    """Log-odds of being a simulated mismatch, by the judge of each row's fold."""
    odds = np.empty(len(columns))
    for fold in np.unique(folds):
        odds[folds == fold] = judges[fold].decision_function(columns[folds == fold])
    return odds


def _columns(evidence: Evidence, captions: ndarray, images: ndarray) -> ndarray:
    places = np.arange(len(captions))
    return np.concatenate([evidence(captions[rows], images[rows]) for rows in blocks(places)])


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
