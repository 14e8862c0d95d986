"""The embeddings that an entry of params.yaml ranks: those of a run, or of the runs of an ensemble as one model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import device as Device

from vse_pipe.artifacts import embeddings
from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.artifacts.joins import Origin
from vse_pipe.core import console
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.project import paths
from vse_pipe.project.params.schema import TUNED, EvaluateParams
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking import evaluation
from vse_pipe.ranking.cascade import Cascade
from vse_pipe.ranking.embedded import Embedded
from vse_pipe.ranking.fragments import RULES, Fused, MeanScore, Several, pooled, weighted
from vse_pipe.ranking.recall import Truth
from vse_pipe.ranking.scores import Scores, Similarity
from vse_pipe.ranking.split import Split, cosine


@dataclass(frozen=True)
class Ensemble:
    """Several runs, or the two networks of a run, ranked as one model by the mean of their scores or another fusion. It
    has the interface of ``Embedded``. Source: Diao et al., SGRAF, AAAI 2021; Lee et al., SCAN, ECCV 2018.

    weights: one for each part, with a sum of 1; None for the plain mean of the scores. fusion: see ``fragments.RULES``.
    cascade: the number of items of each query that the first of two parts retrieves and the second orders. details: for
    the metrics."""

    parts: tuple["Embedded | Ensemble", ...]
    weights: tuple[float, ...] | None = None
    fusion: str = "mean"
    cascade: int | None = None
    details: dict[str, object] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.parts[0].folder

    @property
    def compared_by(self) -> str:
        return " + ".join(part.compared_by for part in self.parts)

    @property
    def joint(self) -> bool:
        """Is the weighted mean of the scores one inner product? For cosines it is the inner product of the concatenated
        vectors, each times the root of its weight."""
        return self.weights is not None and self.fusion == "mean" and set(self.compared_by.split(" + ")) == {"cosine"}

    def has(self, name: str) -> bool:
        return all(part.has(name) for part in self.parts)

    def left_out(self, split: str) -> dict[str, int]:
        """The counts of the first run: ``split`` refuses runs that left out different images."""
        return self.parts[0].left_out(split)

    def data(self, split: str) -> str | None:
        """The digest of the data. Raises IntegrityError when the runs were embedded from different data."""
        first, *rest = [part.data(split) for part in self.parts]
        for part, digest in zip(self.parts[1:], rest, strict=True):
            if digest != first:
                raise IntegrityError(
                    f"{part.folder}: embedded from other data than {self.folder}; embed the runs again"
                )
        return first

    def origin(self, *splits: str) -> Origin:
        """The origin of the first run: ``data`` refuses runs of different data."""
        return self.parts[0].origin(*splits)

    def transfer(self, split: str) -> dict[str, object]:
        """As in ``Embedded``, for the two networks of a run."""
        return self.parts[0].transfer(split)

    def split(self, name: str, device: torch.device) -> Split:
        """The parts of a split. Raises InputError unless all runs have the same images and captions in one order."""
        first, *rest = splits = [part.split(name, device) for part in self.parts]
        for part, peer in zip(self.parts[1:], rest, strict=True):
            for kind in ("image_ids", "caption_ids", "caption_images"):
                if not np.array_equal(getattr(first, kind), getattr(peer, kind)):
                    raise InputError(
                        f"{part.folder}: other {kind.replace('_', ' ')} than {self.folder}; embed the runs again"
                    )
        images, captions = (
            Several(tuple(getattr(split, side) for split in splits), self.weights) for side in ("images", "captions")
        )
        joined = (pooled(images), pooled(captions)) if self.joint else (images, captions)
        return Split(first.image_ids, first.caption_ids, first.caption_images, *joined)

    def all_splits(self, device: torch.device) -> Split:
        """Raises InputError: no folder holds embeddings of several models."""
        raise InputError("an ensemble takes its bank from its own runs: evaluate.bank test, train or val")

    def must_match(self, other: Embedded) -> None:
        """Raises InputError as ``all_splits`` does."""
        self.all_splits(torch.device("cpu"))

    def similarity(self, device: torch.device | None = None) -> Similarity:
        if self.joint:
            return cosine
        similarities = [part.similarity(device) for part in self.parts]
        if self.cascade:
            first, second = similarities
            return Cascade(first, second, self.cascade)
        return MeanScore(similarities) if self.fusion == "mean" else Fused(similarities, self.fusion)


def run_embeddings(params: Params, run: str) -> Embedded | Ensemble:
    """The embeddings of ``run``, from one network or two.

    Raises as ``Embedded.of_run``, and InputError when the second network was not trained together with the first."""
    first = Embedded.of_run(params, run)
    if first.peer_sha256 is None:
        return first
    second = Embedded.of_run(params, run, embeddings.PEER)
    if second.images.about.get("model_sha256") != first.peer_sha256:
        raise InputError(
            f"{second.folder}: another network than {embeddings.IMAGES} beside it names; embed the run again"
        )
    return Ensemble((first, second))


_DIGITS = 6


def load_embeddings(params: Params, name: str, device: torch.device) -> Embedded | Ensemble:
    """The embeddings of a run, transfer or ensemble; weights ``tuned`` are chosen here on split val.

    Raises InputError as ``Embedded.read`` or without a split val, IntegrityError for another model."""
    node = params.ensembles.get(name)
    if node is None:
        return run_embeddings(params, name)
    parts: tuple = tuple(run_embeddings(params, run) for run in node.members)
    if node.pair:
        return Ensemble(parts)
    if node.cascade:
        details: dict[str, object] = {"runs": list(node.members), "cascade": node.cascade}
        return Ensemble(parts, cascade=node.cascade, details={"ensemble": details})
    if node.bm25 is not None:
        from vse_pipe.evaluate.bm25 import Bm25

        parts = (*parts, Bm25(parts[0], paths.prepared(params.dataset(name)), node.bm25))
    if node.weights == TUNED:
        if params.evaluate.split == "val":
            raise InputError(
                f"ensembles.{name}.weights are chosen on val, which evaluate.split ranks; give them, or rank test"
            )
        shares = tuned(Ensemble(parts, fusion=node.fusion), params.evaluate, device)
    else:
        shares = node.shares
    details = {
        "runs": list(node.members),
        "weights": [round(share, _DIGITS) for share in shares],
        "weights_from": "val" if node.weights == TUNED else "params.yaml",
        "fusion": node.fusion,
        **({} if node.bm25 is None else {"bm25": node.bm25.model_dump()}),
    }
    # A run with weight 0 need not be scored.
    members, weights = zip(*((part, share) for part, share in zip(parts, shares, strict=True) if share), strict=True)
    return Ensemble(members, weights, node.fusion, details={"ensemble": details})


def bank_embeddings(
    params: Params, name: str, ranked: Embedded | Ensemble, bank: str, device: torch.device
) -> Embedded | Ensemble | None:
    """The run whose data set provides the bank of a transfer, by its entry or because the ranked data set lacks that
    split; else None.

    ranked: the embeddings of the transfer. bank: ``evaluate.bank``."""
    node = params.transfers.get(name)
    if node is None or bank not in ("train", "val"):
        return None
    if node.bank != node.dataset:
        return load_embeddings(params, node.run, device)
    if ranked.has(bank):
        return None
    vectors = training_embeddings(params, name, device)
    if vectors is None or not vectors.has(bank):
        return None
    console.warn(
        f"evaluate {name}: {node.dataset} has no split {bank}; the query bank is {bank} of {params.runs[node.run].dataset}"
    )
    return vectors


def training_embeddings(params: Params, name: str, device: torch.device) -> Embedded | Ensemble | None:
    """The run of a transfer on its training data set; None if it is not embedded, or ``name`` is no transfer."""
    node = params.transfers.get(name)
    if node is None or not (paths.embedded(node.run) / embeddings.IMAGES).is_file():
        return None
    return load_embeddings(params, node.run, device)


_STEPS = 20
_MIB = 1 << 20


def tuned(ensemble: Ensemble, params: EvaluateParams, device: Device) -> tuple[float, ...]:
    """The weights with the largest rsum of nearest neighbours on split val, in the protocol's folds; a run may get 0.

    ensemble: without weights. Raises InputError when a run has no split val."""
    validation = _validation(ensemble, params, device)

    def rsum(weights: Sequence[float]) -> float:
        return sum(_recalls(members, truth, weights) for members, truth in validation)

    return ascent(len(ensemble.parts), rsum)


def ascent(members: int, value: Callable[[Sequence[float]], float], steps: int = _STEPS) -> tuple[float, ...]:
    """The best of equal weights and of a greedy search. Each step of the search adds one share to the member that gives
    the largest ``value``, the first of equal ones; a member may gain several shares.

    Source: Caruana et al., Ensemble selection from libraries of models, ICML 2004, section 2.1, without their bagging.
    """
    counts = np.zeros(members, int)
    best = np.full(members, 1 / members)
    highest = value(best.tolist())
    for _ in console.track(range(steps), steps, "choosing the weights of the ensemble on val"):
        candidates = counts + np.eye(members, dtype=int)
        values = [value((shares / shares.sum()).tolist()) for shares in candidates]
        counts = candidates[int(np.argmax(values))]
        if max(values) > highest:
            best, highest = counts / counts.sum(), max(values)
    return tuple(best.tolist())


def _validation(ensemble: Ensemble, params: EvaluateParams, device: Device) -> list[tuple[list[Scores], Truth]]:
    """For each fold and direction, the scores of every member that the fusion averages, and the correct items."""
    folds = evaluation.tuning_folds(ensemble.split("val", device), params)
    similarities = [part.similarity(device) for part in ensemble.parts]
    validation, rule = [], RULES[ensemble.fusion]
    for fold in folds:
        assert isinstance(fold.images, Several)
        assert isinstance(fold.captions, Several)
        scores = [
            Scores.from_sides(images, captions, similarity, memory=params.memory, sets=0)
            for images, captions, similarity in zip(fold.images.parts, fold.captions.parts, similarities, strict=True)
        ]
        sizes = 2 * 4 * scores[0].shape[0] * scores[0].shape[1] * len(scores) * len(folds)
        hold = 2 * sizes <= params.memory * _MIB
        ruled = [Scores.fused([matrix], lambda strips: rule(next(iter(strips))), hold=hold) for matrix in scores]
        for direction in DIRECTIONS:
            turned = ruled if direction == DIRECTIONS[0] else [matrix.transposed() for matrix in ruled]
            validation.append((turned, fold.truth(direction)))
    return validation


def _recalls(members: list[Scores], truth: Truth, weights: Sequence[float]) -> float:
    """The sum of R@K over K, as shares."""
    fused = Scores.fused(members, lambda strips: weighted(strips, weights))
    return sum(float(hits.mean()) for hits in evaluation.rank(fused, truth, "pessimistic").hits.values())
