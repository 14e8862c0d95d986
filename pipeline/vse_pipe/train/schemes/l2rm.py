"""L2RM (CVPR 2024): mismatched pairs are detected by their loss and rematched by partial optimal
transport."""

import math
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import Tensor

from vse_pipe.core.console import warn
from vse_pipe.core.devices import sent
from vse_pipe.core.errors import InputError
from vse_pipe.core.seeds import generator
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.data import Batch
from vse_pipe.train.mixture import SMALLEST_BATCH, Division, fit_beta, report_trust
from vse_pipe.train.scheme import Scheme, Setting
from vse_pipe.train.scored import LossTerms, cross_entropy, largest, violations, with_reverse
from vse_pipe.train.transport import Costs, partial_plan

Kind = Literal["symmetric_kl", "kl", "js", "infonce"]
_SMALLEST = 1e-10
_COST_EDGES = np.linspace(0, 2, 41)


class L2rm(Scheme):
    """After a warm-up each epoch splits the training pairs, and trains the run's loss on the pairs
    taken for matched plus the rematching loss on the rest. The sampler's batches are used in the
    warm-up only.

    As in the authors' code, the rate decays from the end of the warm-up on, the triplet loss is a
    sum over the batch and the rematching loss a mean. Unlike the code, both parts of a batch are
    encoded together, which changes only encoders with batch normalisation. A subset smaller than a
    batch makes a smaller batch instead of none. With fewer than two mismatched pairs only matched
    pairs are trained on; with fewer than two matched pairs the epoch is one more of warm-up.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        params = self.params
        if params.split == "truth" and setting.pairs.mismatched is None:
            raise InputError("l2rm: split 'truth' needs pairs of which the mismatched ones are known")
        self.begins_after(params.warm_up, params.select == "after_warm_up")
        size = min(setting.train.batch_size, len(setting.pairs))
        queue = generator(setting.run.seed, "rematch", "queue").choice(len(setting.pairs), size, replace=False)
        self.costs = Costs(setting, params.cost, params.cost_lr, queue)
        self.division: Division | None = None
        self.tally: Tally | None = None

    def start(self, epoch: int) -> None:
        self.division = self.tally = None
        if epoch < self.params.warm_up:
            return
        division = self._divided(epoch)
        self.tally = Tally(division, self.setting.pairs.mismatched)
        self.costs.start(self.share(epoch))
        if division.trains:
            self.division = division
        else:
            warn(f"l2rm, epoch {epoch + 1}: too few matched pairs to train on; one more epoch of warm-up")

    def batches(self, epoch: int, sampled: list[np.ndarray]) -> list[np.ndarray]:
        """Batches of as many matched pairs as a batch has, then as many mismatched pairs: one pass
        over the matched pairs and as many over the others as it needs, without an incomplete last
        batch, as in the authors' code."""
        if self.division is None:
            return sampled
        clean, noisy = self.division.clean, self.division.noisy
        if self.params.split == "both":
            noisy = np.arange(len(clean))
        rng = generator(self.setting.run.seed, "rematch", "order", epoch)
        full = partial(_full, size=self.setting.train.batch_size, rng=rng)
        matched = full(np.flatnonzero(clean))
        if self.params.rematch == "none" or len(noisy) < SMALLEST_BATCH:
            return matched
        mismatched: list[np.ndarray] = []
        while len(mismatched) < len(matched):
            mismatched += full(noisy)
        return [np.concatenate(halves) for halves in zip(matched, mismatched, strict=False)]

    def prepare(self, batch: Batch) -> Batch:
        matched = self._matched(batch)
        if 0 < matched < len(batch.pairs):
            rng = generator(self.setting.run.seed, "rematch", self.epoch, self.step)
            halves = batch.part(slice(0, matched)), batch.part(slice(matched, None))
            self.costs.learn(*halves, self.epoch, rng)
        return batch

    def terms(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> LossTerms:
        if self.division is None:
            return self._warm_up(images, texts, batch)
        count = self._matched(batch)
        halves = slice(0, count), slice(count, None)
        matched, mismatched = ((images[half], texts[half], batch.pairs[half]) for half in halves)
        scored = self.scored(*matched[:2], batch.part(halves[0]))
        terms = self.loss(scored)
        assert self.tally is not None
        costs = self.costs.matrix(scored.scores, *matched[:2])
        self.tally.cost(matched[2], costs.diagonal().cpu().numpy())
        if count == len(batch.pairs):
            return terms
        # The authors add the two losses, so there is no term for each pair.
        return LossTerms((terms.total() + self._rematched(*mismatched))[None], "sum")

    def record(self) -> dict | None:
        return self.tally.record() if self.tally else None

    def state(self) -> dict[str, Any]:
        return self.costs.state()

    def load_state(self, state: dict[str, Any]) -> None:
        self.costs.load_state(state)

    def _divided(self, epoch: int) -> Division:
        """The division by losses, changed by the option ``split``."""
        params, pairs = self.params, self.setting.pairs
        losses = self.pair_losses(self.setting.model, epoch, params.margin, params.sample_loss == "hardest")
        mixture = fit_beta(losses)
        report_trust(f"l2rm, epoch {epoch + 1}", mixture, params.threshold, pairs.mismatched)
        clean = mixture.posterior > params.threshold
        if params.split == "truth":
            assert pairs.mismatched is not None
            clean = ~pairs.mismatched
        elif params.split != "losses":
            clean = np.ones(len(clean), dtype=bool)
        return Division(mixture.posterior, clean)

    def _matched(self, batch: Batch) -> int:
        """Number of pairs taken for matched; they are the first pairs of the batch."""
        if self.division is None:
            return 0
        if self.params.split == "both":
            return len(batch.pairs) // 2
        return int(self.division.clean[batch.pairs].sum())

    def _warm_up(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> LossTerms:
        scored, tau, loss = self.scored(images, texts, batch), self.params.temperature, self.params.warm_up_loss
        if loss == "max":
            return LossTerms(largest(*violations(scored, self.params.margin), 1), "sum")
        return cross_entropy(scored, tau) if loss == "infonce" else with_reverse(scored, tau)

    def _rematched(self, images: Tensor, texts: Tensor | Words, pairs: np.ndarray) -> Tensor:
        params = self.params
        assert self.tally is not None
        scores = self.setting.model.score(images, texts)
        cost = self.costs.matrix(scores, images, texts).cpu()  # Sinkhorn's iterations run there
        options = params.mass, params.regularisation, params.mask, params.tolerance
        plan = partial_plan(cost.clamp_min(_SMALLEST), *options)
        self.tally.cost(pairs, cost.diagonal().numpy())
        self.tally.moved(plan.numpy(), refined(plan).numpy())
        return rematch_loss(scores, sent(plan, scores.device), params.temperature, params.rematch)


def _full(pairs: ndarray, size: int, rng: np.random.Generator) -> list[ndarray]:
    """The pairs in random order, in full batches, or in a single smaller one."""
    order = rng.permutation(pairs)
    return [order[place * size : (place + 1) * size] for place in range(max(1, len(order) // size))]


def rematch_loss(
    scores: Float[Tensor, "images texts"],
    plan: Float[Tensor, "images texts"],
    temperature: float = 0.05,
    kind: Kind = "symmetric_kl",
) -> Float[Tensor, ""]:
    """Distance of the softmax of ``scores / temperature`` from ``plan``: mean over rows plus mean
    over columns.

    With pi the refined alignment of a row and p the softmax: ``symmetric_kl`` is 1/2 [KL(pi, p) +
    KL(p, pi)], Eq. 10 of L2RM (Han et al., CVPR 2024); ``kl`` is KL(pi, p) and ``infonce`` the
    cross entropy of p under pi, both of the paper's Table 3; ``js`` is 1/2 [KL(m, p) + KL(m, pi)]
    with m the mean of both, as in the authors' code, whose Jensen-Shannon has swapped arguments.
    The code adds 1e-10 to the softmax's denominator and overflows at similarities above 88
    temperatures; this function uses a log-softmax.
    """
    by_image = _distance((scores / temperature).log_softmax(dim=1), refined(plan), kind)
    return by_image + _distance((scores.T / temperature).log_softmax(dim=1), refined(plan.T), kind)


def refined(plan: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
    """The refined alignment of each row: entries raised to at least 1e-10, then scaled to sum 1."""
    plan = plan.clamp_min(_SMALLEST)
    return plan / plan.sum(dim=1, keepdim=True)


def _distance(log_p: Tensor, pi: Tensor, kind: Kind) -> Tensor:
    log_pi = pi.log()
    if kind == "kl":
        cells = pi * (log_pi - log_p)
    elif kind == "symmetric_kl":
        cells = 0.5 * (pi - log_p.exp()) * (log_pi - log_p)
    elif kind == "infonce":
        cells = -pi * log_p
    else:
        mean = 0.5 * (log_p.exp() + pi)
        log_mean = torch.logaddexp(log_p, log_pi) - math.log(2)
        cells = 0.5 * mean * (2 * log_mean - log_p - log_pi)
    return cells.sum(dim=1).mean()


class Tally:
    """Statistics of the costs and transport plans of one epoch and its division.

    The histogram separates the pairs by their truth, or by the division where the truth is unknown.
    """

    def __init__(self, division: Division, truth: Bool[ndarray, " pairs"] | None) -> None:
        self.division, self.truth = division, truth
        self._mismatched = ~division.clean if truth is None else truth
        self._costs = np.zeros((2, len(_COST_EDGES) - 1), dtype=np.int64)
        # Sums over untransported and transported images; batches of an epoch have one size.
        self._rows, self._ranked = np.zeros(2), np.zeros((2, 1))

    def cost(self, pairs: ndarray, costs: ndarray) -> None:
        """Count the costs (pairs,) of moving each pair's image to its caption."""
        inside = np.clip(costs, _COST_EDGES[0], _COST_EDGES[-1])
        self._costs += np.histogram2d(self._mismatched[pairs], inside, (2, _COST_EDGES), ((0, 1), (0, 2)))[0].astype(
            int
        )

    def moved(self, plan: Float[ndarray, "rows rows"], refined: Float[ndarray, "rows rows"]) -> None:
        """plan: the mass moved from the images to the captions of a batch; refined: its refined
        alignment. An image is transported when more than half of its mass is moved."""
        transported = plan.sum(axis=1) > 0.5 / len(plan)
        kinds = np.stack([~transported, transported]).astype(float)
        self._rows += kinds.sum(axis=1)
        self._ranked = self._ranked + kinds @ np.sort(refined, axis=1)[:, ::-1]

    def record(self) -> dict:
        matched, mismatched = self._costs.tolist()
        edges = _COST_EDGES.round(6).tolist()
        return {
            "matched": int(self.division.clean.sum()),
            "by": "split" if self.truth is None else "truth",
            "cost": {"edges": edges, "matched": matched, "mismatched": mismatched},
            "alignment": self._alignment(),
        }

    def _alignment(self) -> dict | None:
        """Figure 7: the mean of the images' refined alignments, each sorted from the largest
        entry."""
        if not self._rows.any():
            return None
        means = (self._ranked / np.maximum(self._rows, 1)[:, None]).round(6).tolist()
        kinds = zip(("untransported", "transported"), self._rows, means, strict=True)
        return {kind: {"rows": int(rows), "mean": mean} for kind, rows, mean in kinds}


scheme = L2rm
