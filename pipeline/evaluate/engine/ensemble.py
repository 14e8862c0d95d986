"""Two runs, or the two networks of a run, evaluated as one model: every score is the mean of theirs (SGRAF; the ensembles of
SCAN; NCR)."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from pipeline.artifacts import embeddings
from pipeline.core.errors import InputError
from pipeline.ranking.engine.embedded import Embedded
from pipeline.ranking.engine.fragments import MeanScore, Several
from pipeline.ranking.engine.scores import Similarity
from pipeline.ranking.engine.split import Split


@dataclass(frozen=True)
class Ensemble:
    """Stands where an ``Embedded`` does. Source: Diao et al., SGRAF, AAAI 2021; Lee et al., SCAN, ECCV 2018."""

    parts: tuple["Embedded | Ensemble", ...]

    @property
    def folder(self) -> Path:
        return self.parts[0].folder

    @property
    def compared_by(self) -> str:
        return " + ".join(part.compared_by for part in self.parts)

    def has(self, name: str) -> bool:
        return all(part.has(name) for part in self.parts)

    def left_out(self, split: str) -> dict[str, int]:
        """As of one run: ``split`` refuses runs that left out different images."""
        return self.parts[0].left_out(split)

    def data(self, split: str) -> str | None:
        """As of one run. Raises InputError where they were embedded from other data."""
        first, *others = [part.data(split) for part in self.parts]
        for part, other in zip(self.parts[1:], others, strict=True):
            if other != first:
                raise InputError(f"{part.folder}: embedded from other data than {self.folder}; embed the runs again")
        return first

    def split(self, name: str, device: torch.device) -> Split:
        """Raises InputError unless all runs embedded the same images and captions in the same order."""
        first, *others = splits = [part.split(name, device) for part in self.parts]
        for part, other in zip(self.parts[1:], others, strict=True):
            for kind in ("image_ids", "caption_ids", "caption_images"):
                if not np.array_equal(getattr(first, kind), getattr(other, kind)):
                    raise InputError(
                        f"{part.folder}: other {kind.replace('_', ' ')} than {self.folder}; embed the runs again"
                    )
        images = Several(tuple(split.images for split in splits))
        captions = Several(tuple(split.captions for split in splits))
        return Split(first.image_ids, first.caption_ids, first.caption_images, images, captions)

    def whole(self, device: torch.device) -> Split:
        """Raises InputError: there is no folder with embeddings of several models."""
        raise InputError("an ensemble takes its bank from its own runs: evaluate.bank test, train or val")

    def must_match(self, other: Embedded) -> None:
        """Raises InputError, as ``whole`` does."""
        self.whole(torch.device("cpu"))

    def similarity(self, device: torch.device | None = None) -> Similarity:
        return MeanScore([part.similarity(device) for part in self.parts])


def of_run(folder: Path, run: str) -> Embedded | Ensemble:
    """What ``vse-pipe embed`` wrote for ``run``, of one network or of two.

    Raises InputError as ``Embedded.read`` does, also where the second network is not the one the first was trained beside.
    """
    first = Embedded.read(folder, run)
    if first.peer_sha256 is None:
        return first
    second = Embedded.read(folder / embeddings.PEER, run)
    if second.images.about.get("model_sha256") != first.peer_sha256:
        raise InputError(
            f"{second.folder}: another network than {embeddings.IMAGES} beside it names; embed the run again"
        )
    return Ensemble((first, second))
