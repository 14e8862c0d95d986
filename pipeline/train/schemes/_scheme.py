"""What every scheme is: how a batch becomes terms, and what is kept across steps and epochs."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from pipeline.params.schema import TrainParams
from pipeline.train.data import Batch, Pairs
from pipeline.train.losses._scored import Scored
from pipeline.train.losses._terms import LossTerms
from pipeline.train.model import DualEncoder


@dataclass(frozen=True)
class Setting:
    """What a scheme may use. loss: the run's loss with its parameters; pairs: all training pairs."""

    model: DualEncoder
    loss: Callable[[Scored], LossTerms]
    pairs: Pairs
    train: TrainParams
    seed: int
    device: torch.device


class Scheme:
    """No state: the loss of the batch. Schemes with state override ``start`` and ``scored`` or ``terms``.

    Whatever ``start`` keeps must follow from (seed, epoch) and the model, so that a resumed run is bit-equal to one that
    never stopped.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def start(self, epoch: int) -> None:
        """Before the first step of ``epoch``, counted from 0."""

    def scored(self, images: Tensor, texts: Tensor, batch: Batch) -> Scored:
        """images, texts: (pairs, dim) vectors of the batch."""
        scores = self.setting.model.score(images, texts)
        owners = batch.owners.to(scores.device)
        return Scored.of(scores, owners, self.setting.train.mask_same_image, images, texts)

    def terms(self, images: Tensor, texts: Tensor, batch: Batch) -> LossTerms:
        return self.setting.loss(self.scored(images, texts, batch))
