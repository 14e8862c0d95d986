"""Several runs, or the two networks of a run, evaluated as one model: every score is the mean of theirs (SGRAF; the ensembles
of SCAN; NCR), or what a fusion makes of them."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from vse_pipe.artifacts import embeddings
from vse_pipe.artifacts.joins import Origin
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.bank import cosine
from vse_pipe.ranking.cascade import Cascade
from vse_pipe.ranking.embedded import Embedded
from vse_pipe.ranking.fragments import MeanScore, Several, pooled
from vse_pipe.ranking.fusion import Fused
from vse_pipe.ranking.scores import Similarity
from vse_pipe.ranking.split import Split


@dataclass(frozen=True)
class Ensemble:
    """Stands where an ``Embedded`` does. Source: Diao et al., SGRAF, AAAI 2021; Lee et al., SCAN, ECCV 2018.

    weights: of each part, with a sum of 1; None: the mean of the scores themselves. fusion: see ``fusion.RULES``; cascade:
    instead, how many of each query by the first of two parts the second puts in order. told: what the metrics say of it.
    """

    parts: tuple["Embedded | Ensemble", ...]
    weights: tuple[float, ...] | None = None
    fusion: str = "mean"
    cascade: int | None = None
    told: dict[str, object] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.parts[0].folder

    @property
    def compared_by(self) -> str:
        return " + ".join(part.compared_by for part in self.parts)

    @property
    def joint(self) -> bool:
        """Is the weighted mean of the scores one inner product? Of cosines it is that of the vectors side by side, each times the
        root of its weight, which any index of vectors can hold."""
        return self.weights is not None and self.fusion == "mean" and set(self.compared_by.split(" + ")) == {"cosine"}

    def has(self, name: str) -> bool:
        return all(part.has(name) for part in self.parts)

    def left_out(self, split: str) -> dict[str, int]:
        """As of one run: ``split`` refuses runs that left out different images."""
        return self.parts[0].left_out(split)

    def data(self, split: str) -> str | None:
        """As of one run. Raises IntegrityError where they were embedded from other data."""
        first, *others = [part.data(split) for part in self.parts]
        for part, other in zip(self.parts[1:], others, strict=True):
            if other != first:
                raise IntegrityError(
                    f"{part.folder}: embedded from other data than {self.folder}; embed the runs again"
                )
        return first

    def origin(self, *splits: str) -> Origin:
        """As of one run: ``data`` refuses runs of other data."""
        return self.parts[0].origin(*splits)

    def transfer(self, split: str) -> dict[str, object]:
        """As of ``Embedded``, of the two networks of a run."""
        return self.parts[0].transfer(split)

    def split(self, name: str, device: torch.device) -> Split:
        """Raises InputError unless all runs embedded the same images and captions in the same order."""
        first, *others = splits = [part.split(name, device) for part in self.parts]
        for part, other in zip(self.parts[1:], others, strict=True):
            for kind in ("image_ids", "caption_ids", "caption_images"):
                if not np.array_equal(getattr(first, kind), getattr(other, kind)):
                    raise InputError(
                        f"{part.folder}: other {kind.replace('_', ' ')} than {self.folder}; embed the runs again"
                    )
        images, captions = (
            Several(tuple(getattr(split, side) for split in splits), self.weights) for side in ("images", "captions")
        )
        joined = (pooled(images), pooled(captions)) if self.joint else (images, captions)
        return Split(first.image_ids, first.caption_ids, first.caption_images, *joined)

    def whole(self, device: torch.device) -> Split:
        """Raises InputError: there is no folder with embeddings of several models."""
        raise InputError("an ensemble takes its bank from its own runs: evaluate.bank test, train or val")

    def must_match(self, other: Embedded) -> None:
        """Raises InputError, as ``whole`` does."""
        self.whole(torch.device("cpu"))

    def similarity(self, device: torch.device | None = None) -> Similarity:
        if self.joint:
            return cosine
        similarities = [part.similarity(device) for part in self.parts]
        if self.cascade:
            first, second = similarities
            return Cascade(first, second, self.cascade)
        return MeanScore(similarities) if self.fusion == "mean" else Fused(similarities, self.fusion)


def of_run(params: Params, run: str) -> Embedded | Ensemble:
    """What ``vse-pipe embed`` wrote for ``run``, of one network or of two.

    Raises as ``Embedded.of_run``; InputError also where the second network is not the one the first was trained beside.
    """
    first = Embedded.of_run(params, run)
    if first.peer_sha256 is None:
        return first
    second = Embedded.of_run(params, run, embeddings.PEER)
    if second.images.about.get("model_sha256") != first.peer_sha256:
        raise InputError(
            f"{second.folder}: another network than {embeddings.IMAGES} beside it names; embed the run again"
        )
    return Ensemble((first, second))
