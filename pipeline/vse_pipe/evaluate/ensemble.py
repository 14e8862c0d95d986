"""The embeddings of an entry: those of a run, or of an ensemble as one model."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vse_pipe.artifacts import embeddings
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EnsembleNode
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.cascade import Cascade
from vse_pipe.ranking.fragments import Fused, MeanScore, Several, pooled
from vse_pipe.ranking.split import Split, cosine
from vse_pipe.ranking.vectors import Vectors


@dataclass(frozen=True)
class Ensemble:
    """Several runs, or the two networks of a run, ranked as one model by the mean of their scores
    or ranks. It has the interface of ``Vectors``. Source: Diao et al., SGRAF, AAAI 2021; Lee et
    al., SCAN, ECCV 2018.

    weights: one for each part, with a sum of 1; None for the plain mean of the scores. rule: mean,
    of the scores, or rrf, of the ranks. rescore: the number of items of each query that the first
    of two parts finds and the second orders. details: for the metrics."""

    parts: tuple["Vectors | Ensemble", ...]
    weights: tuple[float, ...] | None = None
    rule: str = "mean"
    rescore: int | None = None
    details: dict[str, object] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.parts[0].folder

    @property
    def names(self) -> TextIds | None:
        return self.parts[0].names

    @property
    def compared_by(self) -> str:
        return " + ".join(part.compared_by for part in self.parts)

    @property
    def joint(self) -> bool:
        """Is the weighted mean of the scores one inner product? For cosines it is the inner product
        of the concatenated vectors, each times the root of its weight."""
        return self.weights is not None and self.rule == "mean" and set(self.compared_by.split(" + ")) == {"cosine"}

    def has(self, name: str) -> bool:
        return all(part.has(name) for part in self.parts)

    def about(self, split: str) -> dict[str, Any]:
        """Of the first run, with ``details``. Raises IntegrityError for unlike data."""
        first, *rest = [part.about(split) for part in self.parts]
        for part, about in zip(self.parts[1:], rest, strict=True):
            if about.get("data") != first.get("data"):
                raise IntegrityError(
                    f"{part.folder}: embedded from other data than {self.folder}; embed the runs again"
                )
        return {**self.details, **first}

    def transfer(self, split: str) -> dict[str, object]:
        """As in ``Vectors``, for the two networks of a run."""
        return self.parts[0].transfer(split)

    def split(self, name: str, device: torch.device, paired: bool = True) -> Split:
        """The parts of a split. paired: as of ``Vectors.split``. Raises InputError for unlike images or captions."""
        first, *rest = splits = [part.split(name, device, paired) for part in self.parts]
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

    def similarity(self, device: torch.device | None = None) -> Any:
        if self.joint:
            return cosine
        similarities = [part.similarity(device) for part in self.parts]
        if self.rescore:
            first, second = similarities
            return Cascade(first, second, self.rescore)
        return MeanScore(similarities) if self.rule == "mean" else Fused(similarities)


def run_embeddings(params: Params, run: str) -> Vectors | Ensemble:
    """The embeddings of ``run``, from one network or two.

    Raises as ``Vectors.of_run``, and InputError when the second network was not trained together
    with the first."""
    first = Vectors.of_run(params, run)
    if first.peer_sha256 is None:
        return first
    second = Vectors.of_run(params, run, embeddings.PEER)
    if second.images.about.get("model_sha256") != first.peer_sha256:
        raise InputError(
            f"{second.folder}: another network than {embeddings.IMAGES} beside it names; embed the run again"
        )
    return Ensemble((first, second))


def load_embeddings(params: Params, name: str) -> Vectors | Ensemble:
    """The embeddings of a run, transfer or ensemble.

    Raises InputError as ``Vectors.of_folder``, IntegrityError for another model."""
    node = params.ensembles.get(name)
    if node is None:
        return run_embeddings(params, name)
    runs = {run: run_embeddings(params, run) for run in node.members}
    parts: list = [runs[run] if run in runs else _words(params, name, runs[node.members[0]]) for run in node.runs]
    details: dict[str, object] = {"ensemble": node.entry}
    if node.rescore is None:
        return _joined(parts, node, details)
    return Ensemble((parts[0], _joined(parts[1:], node, {})), rescore=node.rescore, details=details)


def _words(params: Params, name: str, run: Vectors | Ensemble):
    from vse_pipe.evaluate.bm25 import Bm25

    return Bm25(run, paths.prepared(params.dataset(name)))


def _joined(parts: list, node: EnsembleNode, details: dict) -> Vectors | Ensemble:
    """The parts as one model. Those with weight 0 need not be scored."""
    pairs = [(part, share) for part, share in zip(parts, node.shares, strict=True) if share]
    if len(pairs) == 1 and not details:
        return pairs[0][0]
    members, weights = zip(*pairs, strict=True)
    return Ensemble(members, weights, node.rule, details=details)
