"""What metrics.json says: recall, its floor and its bound, and mAP, of all mentions and of each type, with intervals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from vse_pipe.artifacts.evaluation import KS
from vse_pipe.localize.ranks import BoxScene, Classes, Ranks, classes
from vse_pipe.project.params.schema import LocalizeParams
from vse_pipe.ranking.intervals import Figures, FoldDirection, Sample, interval, measured

ALL = "all"
# For all mentions among the types: no type is called so, since this joins them.
_WHOLE = "/"
_NOTHING = np.zeros(0, np.int64)
_DIGITS = 6


@dataclass(frozen=True)
class Localised(Figures):
    """sides: of fold 0, by type and for all: a query a mention. phrases: every unique phrase, of which ``kinds`` says by type
    which belong to it."""

    phrases: Classes
    kinds: dict[str, Bool[np.ndarray, " classes"]]
    eleven: bool

    def measure(self, weights: dict[int, Int[np.ndarray, "draws images"]]) -> Sample:
        found = super().measure(weights)
        precision = self.phrases.measure(weights[0], self.eleven)
        for kind, own in self.kinds.items():
            there = np.isfinite(precision[:, own])
            with np.errstate(invalid="ignore"):
                found[(kind, "map")] = np.where(there, precision[:, own], 0).sum(axis=1) / there.sum(axis=1)
        return found


def metrics(
    scenes: Sequence[BoxScene], ranks: Ranks, texts: np.ndarray, types: np.ndarray, chosen: LocalizeParams, seed: int
) -> dict:
    """{"all": figures, "types": {type: figures}}, in percent. texts, types: of each mention.

    A mention counts under each of its types, a unique phrase under each type that a mention of it has. Intervals draw
    pictures with replacement; draws without a mention of a type say nothing of that type, which has
    no intervals where none has one. Of mAP the draws are moved to have their median at the estimate: a draw holds fewer different pictures of a phrase, among which
    it is found more easily.
    """
    unique, names = np.unique(texts, return_inverse=True)
    masks = {_WHOLE: np.ones(len(texts), bool), **_masks(types)}
    places = np.repeat([scene.place for scene in scenes], [len(scene.truth) for scene in scenes])
    images = np.arange(len(scenes))
    sides = {
        kind: FoldDirection(images, places[mask], _means(ranks.take(mask)), None, _NOTHING, _NOTHING, 0)
        for kind, mask in masks.items()
    }
    phrases = classes(scenes, names, len(unique), chosen.threshold, chosen.nms)
    spoken = {kind: np.bincount(names[mask], minlength=len(unique)) > 0 for kind, mask in masks.items()}
    localised = Localised({0: sides}, phrases, spoken, chosen.average_precision == "eleven_point")
    found: dict[str, dict] = {
        kind: {
            "mentions": int(mask.sum()),
            "phrases": int(spoken[kind].sum()),
            "pictures": len(np.unique(places[mask])),
        }
        for kind, mask in masks.items()
    }
    estimate = localised.estimate()
    for (kind, name), value in estimate.items():
        found[kind][name] = round(value, _DIGITS)
    if chosen.resamples:
        for (kind, name), draws in measured([localised], chosen.resamples, seed)[0].items():
            draws = draws[np.isfinite(draws)]
            if not len(draws):
                continue
            if name == "map":
                draws = np.clip(draws - np.median(draws) + estimate[kind, name], 0, 100)
            limits = [round(limit, _DIGITS) for limit in interval(draws)]
            found[kind].setdefault("intervals", {})[name] = limits
    return {ALL: found.pop(_WHOLE), "types": found}


def _masks(types: np.ndarray) -> dict[str, Bool[np.ndarray, " mentions"]]:
    """By type, in order: which mentions are of it. types: of each mention; several are joined by /."""
    joined, which = np.unique(types, return_inverse=True)
    parts = [set(name.split("/")) for name in joined.tolist()]
    return {name: np.array([name in one for one in parts])[which] for name in sorted(set().union(*parts))}


def _means(ranks: Ranks) -> dict[str, np.ndarray]:
    """What each mention adds to a figure, in percent."""
    found = {f"r@{k}": 100.0 * ranks.hits(k) for k in KS}
    return {**found, "bound": 100.0 * (ranks.correct > 0), **{f"random_r@{k}": 100.0 * ranks.chance(k) for k in KS}}
