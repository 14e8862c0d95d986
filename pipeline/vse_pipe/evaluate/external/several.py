"""Vectors that several models made of the same images and captions, each in files of its own, ranked as one model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import get_args

import numpy as np
import torch

from vse_pipe.core.errors import InputError, UsageError, unknown
from vse_pipe.evaluate.engine.measure import Inputs
from vse_pipe.evaluate.external import sides
from vse_pipe.evaluate.external.vectors import Vectors, must_fit
from vse_pipe.project.params.schema import Fusion
from vse_pipe.ranking.bank import cosine
from vse_pipe.ranking.fragments import MeanScore, Several
from vse_pipe.ranking.fusion import Fused


@dataclass(frozen=True)
class MoreFiles:
    """images, captions: of each further model, pairs in this order; fusion: as of an ensemble; weights: of every model, the
    first included, only their proportions count, none for equal ones."""

    images: Sequence[Path] = ()
    captions: Sequence[Path] = ()
    fusion: str = "mean"
    weights: Sequence[float] = ()

    def check(self) -> None:
        """Raises UsageError for what does not go together."""
        if self.fusion not in get_args(Fusion):
            raise UsageError(f"--fusion: {unknown('fusion', self.fusion, list(get_args(Fusion)))}")
        if len(self.images) != len(self.captions):
            raise UsageError(
                f"--more-images {len(self.images)} times and --more-captions {len(self.captions)} times: give both for each model"
            )
        if not self.images and (self.weights or self.fusion != "mean"):
            raise UsageError("--fusion and --weights are for several models: give --more-images and --more-captions")
        models = 1 + len(self.images)
        if self.weights and (
            len(self.weights) != models or not all(0 <= one < inf for one in self.weights) or not any(self.weights)
        ):
            raise UsageError(f"--weights: {models} models need {models} numbers from 0 up, not all of them 0")


def fused(
    inputs: Inputs,
    more: MoreFiles,
    firsts: tuple[Vectors, Vectors],
    ids: Sequence[Path | None],
    similarity: str,
    nan: str,
) -> Inputs:
    """``inputs`` of the first model with the others beside it. firsts: its images and captions; ids: files with the ids of
    .npy, of images and of captions, for all models. Raises InputError where a model has other ids than the first, captions of
    other images, or sides that are not one model's."""
    device = inputs.ranked.images.device
    readers: list[tuple[Callable[..., Vectors], Sequence[Path]]] = [
        (sides.images, more.images),
        (sides.captions, more.captions),
    ]
    found = []
    for (read, paths), first, file in zip(readers, firsts, ids, strict=True):
        models = [first]
        for path in paths:
            other = read(path, similarity, file if path.suffix == ".npy" else None, nan=nan, book=first.book)
            places = _places(first, other)
            _must_agree(first, other, places)
            models.append(replace(other, vectors=other.vectors[places]))
        found.append(models)
    for seen, told_of in zip(*found, strict=True):
        must_fit(seen, told_of)
    shares = tuple(weight / sum(more.weights) for weight in more.weights) or None
    images, captions = (
        Several(tuple(torch.from_numpy(one.vectors).to(device) for one in models), shares) for models in found
    )
    each = [cosine] * len(images.parts)
    told = {
        "fusion": more.fusion,
        "weights": list(shares or [1 / len(each)] * len(each)),
        "more_images": [str(path) for path in more.images],
        "more_captions": [str(path) for path in more.captions],
    }
    return replace(
        inputs,
        ranked=replace(inputs.ranked, images=images, captions=captions),
        similarity=MeanScore(each) if more.fusion == "mean" else Fused(each, more.fusion),
        about={**inputs.about, **told},
    )


def _places(first: Vectors, other: Vectors) -> np.ndarray:
    """The rows of ``other`` in the order of the first."""
    absent = np.setxor1d(first.ids, other.ids)
    if len(absent):
        raise InputError(
            f"{other.where}: other {first.key}s than {first.where}, {len(absent)} are in one of them only, the first is "
            f"{first.book.first(first.key, absent[:1])}; every model needs the same"
        )
    order = np.argsort(other.ids)
    return order[np.searchsorted(other.ids, first.ids, sorter=order)]


def _must_agree(first: Vectors, other: Vectors, places: np.ndarray) -> None:
    """Raises InputError where both say which image a caption belongs to, and not the same."""
    if first.image_ids is None or other.image_ids is None:
        return
    wrong = np.flatnonzero(other.image_ids[places] != first.image_ids)
    if len(wrong):
        raise InputError(
            f"{other.where}: {len(wrong)} captions belong to other images than in {first.where}, the first is "
            f"{first.key} {first.book.first(first.key, first.ids[wrong[:1]])}; every model needs the same"
        )
