"""Noisy pairs of images and captions, as in the stages ``inject``, ``train`` and ``audit``. Wrong
arguments raise InputError or UsageError with their name."""

from __future__ import annotations

import warnings
from typing import Literal, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from vse_pipe.api import arguments
from vse_pipe.audit import evidence, losses, pool
from vse_pipe.core.errors import InputError
from vse_pipe.inject.stage import shown_images
from vse_pipe.project.registry import PROTOCOLS
from vse_pipe.ranking.rows import require_distinct
from vse_pipe.ranking.split import cosine
from vse_pipe.train.mixture import fit_beta, fit_gaussian
from vse_pipe.train.schemes.options import L2rmOptions
from vse_pipe.train.transport import partial_plan

Array = TypeVar("Array", np.ndarray, Tensor)

LEVELS = ("image", "caption")
MIXTURES = ("beta", "gaussian")


def inject(
    owners: ArrayLike,
    rate: float,
    level: Literal["image", "caption"] = "image",
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs with mismatches: the image that each caption is shown with, and whether it is wrong.

    >>> import vse_pipe as vp
    >>> shown, mismatched = vp.noise.inject([4, 4, 7, 7, 9, 9], rate=1.0)
    >>> shown, mismatched
    (array([7, 7, 9, 9, 4, 4]), array([ True,  True,  True,  True,  True,  True]))

    Args:
        owners: (captions,) id of the image that each caption describes; any integers. The draw
            depends on the order of the images, which is that of their ids.
        rate: share of images or captions, 0 to 1, that take part in the exchange; some stay in
            their place.
        level: "image" moves all captions of an image together, "caption" each by itself.
        seed: of numpy's legacy generator, 0 to 2^32 - 1. The same seed gives the authors' index.

    Returns shown (captions,) int64, ids of images, and mismatched (captions,) bool.

    Source: the loaders of RCL, DECL and L2RM (image) and of NCR and BiCro (caption).
    """
    arguments.chosen("level", level, LEVELS)
    arguments.configured("inject", PROTOCOLS.options(level), {"rate": rate})
    arguments.number("seed", seed, 0)
    true = arguments.array("owners", owners, "captions", kind="integers").astype(np.int64)
    pairs = shown_images(true, np.unique(true), PROTOCOLS.load(level), rate, seed)
    return pairs, pairs != true


def posterior(
    losses: ArrayLike,
    mixture: Literal["beta", "gaussian"] = "beta",
) -> np.ndarray:
    """p(matched | loss) of each pair, by a mixture of two distributions of the losses.

    Args:
        losses: (pairs,) loss of each pair; a mixture needs at least 8 and scales them to 0..1.
        mixture: "beta" (L2RM) or "gaussian" (NCR).

    Returns (pairs,) float64; all 1 where no split is possible. A warning says why one is doubtful.

    Source: Han et al., CVPR 2024, Eq. 4 (beta); Huang et al., NeurIPS 2021, Eq. 3 (gaussian).
    """
    arguments.chosen("mixture", mixture, MIXTURES)
    values = arguments.array("losses", losses, "pairs")
    if not np.isfinite(values).all():
        raise InputError("losses holds NaN or infinite values")
    result = fit_gaussian(values) if mixture == "gaussian" else fit_beta(values)
    if result.doubt:
        warnings.warn(f"do not trust the probabilities: {result.doubt}", stacklevel=2)
    return result.posterior


def transport(
    cost: Array,
    mass: float = 0.1,
    regularisation: float = 0.01,
    mask: ArrayLike | None = None,
    *,
    tolerance: float = 1e-3,
) -> Array:
    """The plan that moves a part of the mass from images to captions at the least cost (entropic).

    Args:
        cost: (images, captions), at least 0, numpy or torch; no gradient passes.
        mass: share that moves, above 0 and below 1; images and captions have equal shares of it.
        regularisation: weight of the entropy, in units of the cost.
        mask: (images, captions) bool, True where nothing may move. L2RM masks the pairs themselves.
        tolerance: the iterations stop when the potentials of the images move by less. The authors'
            default is loose: at a small regularisation the plan moves some percent too much.

    Returns (images, captions) float32, for a tensor a tensor on its device. The sum is about
    ``mass``, and less where the mask leaves no room.

    Source: Han et al., CVPR 2024, Eq. 7 to 9.
    """
    options: dict[str, object] = {"mass": mass, "regularisation": regularisation, "tolerance": tolerance}
    arguments.configured("transport", L2rmOptions, options)
    costs = arguments.cells("cost", cost, torch.device("cpu"))
    if wrong := int((~(costs.isfinite() & (costs >= 0))).sum()):
        raise InputError(f"cost: {wrong:,} entries are negative, NaN or infinite")
    shape = tuple(costs.shape)
    closed = np.zeros(shape, bool) if mask is None else arguments.array("mask", mask, *shape, kind="truths")
    blocked = torch.from_numpy(closed.copy())  # a view may be read-only or reversed
    plan = partial_plan(costs, mass, regularisation, blocked, tolerance)
    return plan.to(cost.device) if isinstance(cost, Tensor) else plan.numpy()


def audit(
    images: ArrayLike,
    captions: ArrayLike,
    owners: ArrayLike | None = None,
    *,
    batch: int = 128,
    seed: int | np.random.Generator = 0,
) -> pd.DataFrame:
    """A row for each pair, the most doubtful first, with better partners, by cosines.

    Args:
        images: (N, D) vectors, numpy or torch; computed on their device.
        captions: (M, D) vectors of the same model.
        owners: (M,) row of the image that each caption is shown with; by default i for caption i.
        batch: pairs of a random batch, in which losses are compared; 3 or more, 128 in L2RM.
        seed: of the batches.

    Returns the columns

    - ``caption``, ``image``: rows of the pair;
    - ``loss``: mean violation of a margin of 0.2 by the other captions and images of the batch;
    - ``probability`` of being mismatched, from the beta mixture of the losses;
    - ``score``: cosine of the pair;
    - ``rematch_caption``, ``rematch_caption_score``: the best caption of another image;
    - ``rematch_image``, ``rematch_image_score``: the other image that suits the caption best.

    Source: Han et al., CVPR 2024, Eq. 4, with the mean of the authors' code where the paper has the
    hardest violation; captions of the same image are no negatives, and the mean is over negatives.
    """
    arguments.number("batch", batch, 3)
    place = arguments.device(images, captions)
    *sides, rows, image_rows = _pairs(images, captions, owners)
    pictures, texts = (torch.from_numpy(side).to(place) for side in sides)
    work = losses.batches(len(rows), batch, np.random.default_rng(seed))
    with torch.inference_mode():
        measured = losses.measured(lambda pairs: (pictures[image_rows[pairs]], texts[pairs]), cosine, image_rows, work)
        measured = measured.assign(**losses.partners(pictures, texts, image_rows, cosine))
    result, mixture = losses.doubts(measured["loss"].to_numpy())
    if mixture.doubt:
        warnings.warn(f"do not trust the probabilities: {mixture.doubt}", stacklevel=2)
    truth = {"caption_id": np.arange(len(rows)), "image_id": rows, "mismatched": pa.nulls(len(rows), pa.bool_())}
    table = losses.pairs_table(pa.table(truth), measured, result.probability)
    pairs = table.drop_columns(["mismatched"]).to_pandas().rename(columns=lambda name: name.removesuffix("_id"))
    return pairs.sort_values(["probability", "loss"], ascending=False, kind="stable", ignore_index=True)


def doubts(images: ArrayLike, captions: ArrayLike, owners: ArrayLike | None = None, *, seed: int = 0) -> pd.DataFrame:
    """A row for each pair, the most doubtful first, by vectors of any two models.

    Args:
        images: (N, D) vectors, numpy or torch.
        captions: (M, E) vectors of the same model or, where E is not D, of another one.
        owners: (M,) row of the image that each caption is shown with; by default i for caption i.
        seed: of folds and simulated mismatches.

    Returns the columns ``caption``, ``image`` (rows of the pair), ``probability`` of being
    mismatched, ``odds`` (their logarithm, by which pairs are ranked) and the evidence, in standard
    deviations above chance. ``attrs`` has ``share`` of mismatches and its ``interval`` of 95%. Some
    hundred pairs are needed. Method: ``vse_pipe.audit.evidence``.
    """
    arguments.number("seed", seed, 0)
    *sides, rows, places = _pairs(images, captions, owners, pool.FEWEST_IMAGES, is_joint=False)
    joint = sides[0].shape[1] == sides[1].shape[1]
    pictures, texts = sides if joint else map(pool.reduced, sides)
    result = evidence.measure(pool.PairPool.create(pictures, texts, places, joint=joint, seed=int(seed)))
    columns = {"caption": np.arange(len(rows)), "image": rows, "probability": result.probability, "odds": result.odds}
    table = pd.concat([pd.DataFrame(columns), result.columns], axis=1)
    table = table.sort_values("odds", ascending=False, kind="stable", ignore_index=True)
    assert result.estimate is not None
    table.attrs = {"share": result.estimate.share, "interval": result.estimate.interval}
    return table


def _pairs(
    images: ArrayLike, captions: ArrayLike, owners: ArrayLike | None, least: int = 2, is_joint: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Vectors of length 1 of the images that have a caption and of the captions, the row of each
    caption's image, and its place among these images. is_joint: must both be of one width?"""
    pictures = arguments.rows("images", images, "cosine")
    texts = arguments.rows("captions", captions, "cosine", pictures.shape[1] if is_joint else "dim")
    rows = arguments.image_rows(owners, len(pictures), len(texts))
    require_distinct("images", torch.from_numpy(pictures), rows)
    used, places = np.unique(rows, return_inverse=True)
    if len(used) < least:
        raise InputError(f"owners: {len(rows):,} captions show {len(used)} images; {least} are needed")
    return pictures[used], texts, rows, places
