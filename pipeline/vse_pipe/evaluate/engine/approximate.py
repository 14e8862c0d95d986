"""``evaluate.approximate``: an index finds candidates for every query, and a sample of the queries says what it costs."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

from vse_pipe.artifacts.evaluation import DIRECTIONS, KS
from vse_pipe.core import console
from vse_pipe.core.errors import UsageError
from vse_pipe.core.seeds import generator
from vse_pipe.evaluate.engine.tables import rounded
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking.confidence.estimated import Excess, excess, interval
from vse_pipe.ranking.engine import index as index_of
from vse_pipe.ranking.engine import outcome
from vse_pipe.ranking.engine.bank import Bank, ItemBias
from vse_pipe.ranking.engine.bank_source import cosine
from vse_pipe.ranking.engine.bounded import exact_ranks
from vse_pipe.ranking.engine.criteria import Criterion
from vse_pipe.ranking.engine.fragments import plain
from vse_pipe.ranking.engine.nearest import Nearest, NearestScores
from vse_pipe.ranking.engine.outcome import Depths, Outcome
from vse_pipe.ranking.engine.scores import Scores
from vse_pipe.ranking.engine.split import Split
from vse_pipe.ranking.engine.trial import Trial
from vse_pipe.ranking.metrics import hubness
from vse_pipe.ranking.metrics.ranks import Ties

# Items found for each query; queries that the effort is chosen on.
LISTED, _TUNED_ON = 64, 200
_INNER_PRODUCTS = {"cosine", "dot"}
_TOP = max(KS)


def check(params: EvaluateParams, criteria: Sequence[Criterion], ranked: Split, similarity: str, own: bool) -> None:
    """Raises UsageError for what an approximate evaluation cannot do. own: the ranked queries are the bank."""
    known = [name for name in INFERENCES.names() if INFERENCES.traits(name).neighbours]
    others = [one.name for one in criteria if one.matching or not one.rescoring.traits.neighbours]
    wide = [one.name for one in criteria if own and getattr(one.rescoring.params, "k", 1) > LISTED]
    objections = {
        f"ranks under {', '.join(known)}, not {', '.join(others)}": others,
        f"finds {LISTED} items a query; give {', '.join(wide)} no larger k, or another evaluate.bank": wide,
        f"finds {LISTED} items a query; evaluate.recall has a larger K": max(params.recall, default=1) > LISTED,
        f"compares vectors under {' or '.join(sorted(_INNER_PRODUCTS))}": not (
            plain(ranked.images) and plain(ranked.captions) and set(similarity.split(" + ")) <= _INNER_PRODUCTS
        ),
        "measures recall of a whole split: evaluate.protocol full, calibrate none, tune false, no judgements, no labels": (
            params.protocol != "full"
            or params.calibrate != "none"
            or params.tune
            or bool(params.judgements or params.labels)
        ),
    }
    for objection, holds in objections.items():
        if holds:
            raise UsageError(f"evaluate.approximate {params.approximate} {objection}")


@dataclass
class OneWay:
    """One direction. queries, items: vectors; seed: of the sample."""

    direction: str
    trial: Trial
    params: EvaluateParams
    queries: torch.Tensor
    items: torch.Tensor
    seed: int
    about: dict = field(default_factory=dict)

    @cached_property
    def sample(self) -> np.ndarray:
        """Rows of judged queries, ascending."""
        judged = self.trial.truth.judged()
        chosen = generator(self.seed, "sample of an approximate evaluation", DIRECTIONS.index(self.direction)).choice(
            judged, min(len(judged), self.params.approximate_sample), replace=False
        )
        return np.sort(chosen)

    def exact(self, rows: np.ndarray) -> Scores:
        """Of some queries with all items."""
        return Scores.of(self.queries[torch.from_numpy(rows)], self.items, cosine, memory=self.params.memory, sets=0)

    @cached_property
    def nearest(self) -> Nearest:
        """Of all queries; ``about`` says how they were found."""
        started = time.monotonic()
        queries, items = self.queries.cpu().numpy(), self.items.cpu().numpy()
        spec = index_of.chosen(
            self.params.approximate,
            len(items),
            items.shape[1],
            self.params.memory,
            "evaluate.memory",
            "evaluate.approximate=none",
        )
        console.say(f"approximate index {spec}: made of {len(items):,} items, {self.direction}")
        index = index_of.built(spec, items)
        rows = self.sample[:: -(-len(self.sample) // _TUNED_ON)]
        best = np.concatenate([outcome.top_k(block, _TOP)[1].cpu().numpy() for _, block in self.exact(rows).blocks()])
        for effort in index_of.efforts(index):
            index_of.exert(index, effort)
            found = Nearest.of(index, queries[rows], items, LISTED).columns[:, :_TOP]
            if _recall(found, best) >= self.params.approximate_recall:
                break
        nearest = _whole(Nearest.of(index, queries, items, LISTED), index, effort)
        self.about = {"index": spec, "effort": effort, "seconds": round(time.monotonic() - started, 1)}
        return nearest


@dataclass
class Finder:
    """sides: by direction; own: the ranked queries correct the hubs."""

    sides: dict[str, OneWay]
    own: bool
    depths: Depths
    ties: Ties

    @classmethod
    def of(
        cls, ranked: Split, ground: dict[str, list[Trial]], params: EvaluateParams, own: bool, seed: int
    ) -> "Finder":
        vectors: dict[str, tuple[Any, Any]]
        vectors = {"image_to_text": (ranked.images, ranked.captions), "text_to_image": (ranked.captions, ranked.images)}
        sides = {name: OneWay(name, ground[name][0], params, *vectors[name], seed) for name in DIRECTIONS}
        return cls(sides, own, Depths.of(params.recall, params.ndcg), params.ties)

    def run(self, criterion: Criterion, direction: str) -> tuple[Outcome, dict]:
        """What was found of every judged query, and what the sample says of it: excess by K, and what metrics.json has."""
        side = self.sides[direction]
        bank = self._bank(direction, criterion)
        bias = criterion.item_bias(bank)
        assert bias is not None
        found = self._outcome(side, bias)
        rows, truth = side.sample, side.trial.truth.only(side.sample)
        if isinstance(bank.queries, NearestScores):
            exact, best = exact_ranks(
                criterion, side.exact(rows), bias, side.queries, side.items, truth, self.depths, self.ties
            )
        else:
            whole = outcome.rank(bias.apply(side.exact(rows)), truth, self.ties)
            assert whole.ranks is not None
            exact, best = whole.ranks, whole.top.reshape(len(rows), -1)
        places = np.searchsorted(side.trial.truth.judged(), rows)
        over = {
            k: excess(found.hits[k][places], hits, len(found.lengths)) for k, hits in self.depths.hits(exact).items()
        }
        ours = side.nearest.only(rows).under(bias).columns[:, :_TOP]
        told = {**side.about, "sample": len(rows), "recall@10": round(_recall(ours, best), 4)}
        told |= {f"r@{k}_over": round(one.share, 6) for k, one in over.items()}
        return found, {"over": over, "told": told}

    def told(self, metrics: dict, by_direction: dict[str, dict]) -> dict:
        """The document with ``approximate``, and with intervals that hold what the index may miss."""
        found = {direction: of["told"] for direction, of in by_direction.items()}
        method = next(iter(self.sides.values())).params.approximate
        metrics = {**metrics, "approximate": {"method": method, "listed": LISTED, **found}}
        if not metrics["intervals"]:
            return metrics
        ends: dict = {direction: dict(metrics["intervals"][direction]) for direction in by_direction}
        sums: list[Excess] = []
        for direction, of in by_direction.items():
            for k, one in of["over"].items():
                name = f"r@{k}"
                ends[direction][name] = interval(metrics[direction][name], ends[direction][name], [one])
            first, *others = (of["over"][k] for k in KS)
            sums.append(sum(others, first))
        ends["rsum"] = interval(metrics["rsum"], metrics["intervals"]["rsum"], sums, 600.0)
        return {**metrics, "intervals": rounded(ends)}

    def _bank(self, direction: str, criterion: Criterion) -> Bank:
        if not self.own or not criterion.needs_bank:
            return self.sides[direction].trial.bank
        other = next(side for name, side in self.sides.items() if name != direction)
        return Bank(NearestScores(self.sides[direction].nearest, other.nearest), True)

    def _outcome(self, side: OneWay, bias: ItemBias) -> Outcome:
        truth, nearest = side.trial.truth, side.nearest
        judged = truth.judged()
        if len(judged) < len(truth):
            nearest, truth = nearest.only(judged), truth.only_judged()
        nearest = nearest.under(bias)
        best = nearest.columns[:, :_TOP]
        occurrence = {k: hubness.occurrence(best[:, :k].ravel(), truth.columns) for k in KS}
        hits = self.depths.hits(nearest.ranks(truth, bias, self.ties))
        return Outcome(None, hits, best.ravel().astype(np.int64), np.full(len(best), best.shape[1]), occurrence)


def _whole(nearest: Nearest, index: Any, effort: int) -> Nearest:
    """Queries that fewer items were found of are asked again with greater effort, in place; what not even that finds is any item."""
    for more in (one for one in index_of.efforts(index) if one > effort):
        rows = np.flatnonzero((nearest.columns < 0).any(axis=1))
        if not len(rows):
            break
        index_of.exert(index, more)
        found = Nearest.of(index, nearest.queries[rows], nearest.items, nearest.columns.shape[1])
        nearest.columns[rows], nearest.scores[rows] = found.columns, found.scores
    return nearest.filled()


def _recall(found: np.ndarray, best: np.ndarray) -> float:
    """How many of the best of each query are among those found."""
    return float((found[:, :, None] == best[:, None, :]).any(axis=1).mean())
