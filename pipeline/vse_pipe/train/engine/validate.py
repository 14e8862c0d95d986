"""Validation after every epoch: recall both ways under plain nearest neighbours, and their sum."""

import contextlib
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from vse_pipe.ranking.fragments import MeanScore, Several, Sides, Words
from vse_pipe.ranking.metrics.recall import Truth, best_ranks, hits_at, recall
from vse_pipe.ranking.metrics.recall import chance as recall_by_chance
from vse_pipe.ranking.scores import Scores, Similarity
from vse_pipe.train.engine import encode
from vse_pipe.train.engine.model import DualEncoder
from vse_pipe.train.engine.table import TrainTable

KS = (1, 5, 10)


def validator(
    table: TrainTable, images: int, device: torch.device
) -> Callable[[Sequence[DualEncoder]], dict[str, float]]:
    """A function of the models: R@1, 5 and 10 in percent and ``val_rsum`` on the first ``images`` validation images, by the
    mean of the models' scores.

    Where texts that read alike are one text, it is ranked once, and any of its images is correct. The authors validate on the first 1,000 dev images whatever their number; a smaller set is used whole.
    """
    rows = table.val_image_rows[:images]
    captions, told, answers = _questions(table, images)

    def encoded(model: DualEncoder) -> tuple[Tensor, Tensor | Words]:
        seen = encode.images(model, table.source(model.tests_on_pixels), rows, device)
        read = encode.captions(model, table.texts, captions, device)
        return (seen.to(device), read.to(device)) if model.fragments else (seen, read)

    def check(models: Sequence[DualEncoder]) -> dict[str, float]:
        sides: list[tuple[Sides, Sides]] = [encoded(model) for model in models]
        seen, read = sides[0]
        score: Similarity = models[0].score
        if len(models) > 1:
            seen, read = (Several(side) for side in zip(*sides, strict=True))
            score = MeanScore([model.score for model in models])
        with contextlib.ExitStack() as modes:
            for model in models:
                modes.enter_context(encode.evaluating(model))
            scores = Scores.of(seen, read, score)
            measured = {
                **_recalls(scores, told, "i2t"),
                **_recalls(scores.transposed(), answers, "t2i"),
            }
        return {**measured, "val_rsum": round(sum(measured.values()), 6)}

    return check


def chance(table: TrainTable, images: int) -> float:
    """``val_rsum`` that random ranks have on average. table, images: as of ``validator``."""
    _, *both = _questions(table, images)
    return sum(recall_by_chance(np.diff(truth.starts), truth.columns, k) for truth in both for k in KS)


def _questions(table: TrainTable, images: int) -> tuple[np.ndarray, Truth, Truth]:
    """The captions, which of them are correct for each image, and which images for each caption."""
    chosen = table.val_images[:images]
    known = np.isin(table.val_caption_images, chosen)
    captions, owners = table.val_captions[known], table.val_caption_images[known]
    if table.val_texts is None:
        return captions, Truth.by_image(chosen, owners), Truth.by_image(owners, chosen)
    numbers, first = np.unique(table.val_texts[known], return_index=True)
    pairs = owners, table.val_texts[known]
    answers = Truth.by_pairs(numbers, chosen, *reversed(pairs))
    return captions[first], Truth.by_pairs(chosen, numbers, *pairs), answers


def _recalls(scores: Scores, truth: Truth, direction: str) -> dict[str, float]:
    ranks = np.concatenate([best_ranks(block, rows, truth, "pessimistic") for rows, block in scores.blocks()])
    return {f"val_{direction}_r{k}": round(recall(hits_at(ranks, k)), 6) for k in KS}
