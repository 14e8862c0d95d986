"""Protocols: the split at once, its first images (COCO's c1), or the mean over consecutive folds (c2, COCO 1K)."""

import numpy as np

from vse_pipe.core.errors import InputError
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking.engine.split import Split


def folds(split: Split, params: EvaluateParams) -> list[Split]:
    """What is measured, in the order of the embedding file. ``full`` and ``first`` are one fold.

    Raises InputError when the images are not a whole number of folds, or fewer than the first fold: leaving some out, or
    averaging a short fold in, gives figures that look comparable to a published protocol and are not.
    """
    if params.protocol == "full":
        return [split]
    images = len(split.image_ids)
    if params.protocol == "first":
        if images < params.fold_size:
            raise InputError(
                f"evaluate.protocol first: split '{params.split}' has {images} images, fewer than evaluate.fold_size "
                f"{params.fold_size}; change fold_size or use protocol full"
            )
        return _consecutive(split, params.fold_size)[:1]
    if images % params.fold_size:
        raise InputError(
            f"evaluate.protocol folds: split '{params.split}' has {images} images, not a multiple of "
            f"evaluate.fold_size {params.fold_size}; change fold_size or use protocol full"
        )
    return _consecutive(split, params.fold_size)


def tuning_folds(split: Split, params: EvaluateParams) -> list[Split]:
    """Validation images under the same protocol, to choose a parameter on. Nothing is published from them, so images
    beyond the last whole fold are left out, and a split smaller than a fold is used as it is."""
    if params.protocol == "full" or len(split.image_ids) < params.fold_size:
        return [split]
    found = _consecutive(split, params.fold_size)
    return found[:1] if params.protocol == "first" else found


def _consecutive(split: Split, size: int) -> list[Split]:
    starts = np.arange(len(split.image_ids) // size) * size
    return [split.fold(slice(start, start + size)) for start in starts]
