"""The losses of the pipeline as modules, with the options of params.yaml by name.

>>> import torch, vse_pipe as vp
>>> loss = vp.losses.HAL(gamma=30, eps=0.3)
>>> images, texts = torch.eye(4, requires_grad=True), torch.eye(4)
>>> loss(images, texts).backward()
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ParamSpec

import numpy as np
import torch
from torch import Tensor, nn

from vse_pipe.api import arguments
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.core.strict import Strict
from vse_pipe.project.registry import LOSSES
from vse_pipe.ranking.rows import PRODUCTS
from vse_pipe.train.losses import options as page
from vse_pipe.train.scored import LossTerms, Scored

Arguments = ParamSpec("Arguments")
Similarity = Callable[[Tensor, Tensor], Tensor]
REDUCTIONS = ("sum", "mean", "none")


class Loss(nn.Module):
    """A loss of pairs: image i belongs to text i. name, options: of params.yaml; title: in a repr.
    A learned temperature (``InfoNCE(learn=True)``, ``Sigmoid()``) is a parameter of the module."""

    def __init__(self, name: str, options: Strict, title: str) -> None:
        super().__init__()
        self.name, self.options, self._title = name, options, title
        member = LOSSES.load(name)
        self._loss = member.loss  # a function, so that the module can be copied and saved
        self.learned = member.network(options) if LOSSES.traits(name).learns else None

    def _get_name(self) -> str:
        return self._title

    def extra_repr(self) -> str:
        return ", ".join(f"{key}={value!r}" for key, value in self.options)

    def forward(
        self,
        images: Tensor,
        texts: Tensor,
        owners: Tensor | None = None,
        *,
        similarity: str | Similarity = "cosine",
        **options: Any,
    ) -> Tensor:
        """The loss of a batch.

        Args:
            images, texts: (B, D) vectors of the pairs.
            owners: (B,) id of each text's image, whose other texts are no negatives; by default
                each pair has an image of its own.
            similarity: "cosine", "dot", or a function of images and texts to (B, B) scores, larger
                is more similar.
            options: ``reduction``, ``weights``, ``targets`` and ``passed`` of ``from_scores``.

        Raises InputError for shapes that do not fit.
        """
        images = _precise("images", images)
        texts = _precise("texts", texts, images.shape)
        if isinstance(similarity, str):
            arguments.chosen("similarity", similarity, PRODUCTS)
            if similarity == "cosine":
                images, texts = (nn.functional.normalize(side, dim=1) for side in (images, texts))
            with torch.autocast(images.device.type, enabled=False):
                scores = images @ texts.T
        else:
            scores = similarity(images, texts)
        return self.from_scores(scores, owners, sides=(images, texts), **options)

    def from_scores(
        self,
        scores: Tensor,
        owners: Tensor | None = None,
        *,
        reduction: str | None = None,
        weights: Tensor | None = None,
        targets: Tensor | None = None,
        passed: float = 0.0,
        sides: tuple[Tensor | None, Tensor | None] = (None, None),
    ) -> Tensor:
        """As a call, from (B, B) scores, images in rows.

        Args:
            reduction: "sum", "mean" or "none", (B,) a value a pair; by default that of the paper:
                the hinge losses are sums over the batch, all other losses are means.
            weights: (B, B) factors of the cells, as from HAL's memory bank; others refuse them.
            targets: (B,) trust in each pair from 0 to 1, for CRCL and DECL.
            passed: epochs so far, for a curriculum.
            sides: the vectors behind the scores, which "structure" needs.
        """
        count, scores = len(scores), _precise("scores", scores)
        shapes = {"weights": (weights, scores.shape), "targets": (targets, (count,))}
        for title, (factors, shape) in shapes.items():
            if factors is not None and title not in LOSSES.traits(self.name).takes:
                raise UsageError(f"loss {self.name} takes no {title}")
            if factors is not None:
                _precise(title, factors, shape)
        if owners is not None:
            owners = torch.from_numpy(arguments.array("owners", owners, count, kind="integers").astype(np.int64))
        batch = Scored.from_scores(scores, owners, owners is not None, *sides, weights, passed=passed)
        learned = {} if self.learned is None else {"network": self.learned}
        with torch.autocast(scores.device.type, enabled=False):
            terms: LossTerms = self._loss(replace(batch, targets=targets), self.options, **learned)
        reduction = arguments.chosen("reduction", reduction or terms.reduction, REDUCTIONS)
        return terms.per_pair if reduction == "none" else getattr(terms.per_pair, reduction)()


def _precise(title: str, tensor: Tensor, shape: Sequence[int] | None = None) -> Tensor:
    """float16 and bfloat16 become float32: exponentials and logarithms of scores need it, as in the
    stage ``train``. Raises InputError unless it is a tensor of floats of the shape, by default of
    any matrix."""
    is_float = isinstance(tensor, Tensor) and tensor.is_floating_point()
    if not is_float or (tensor.ndim != 2 if shape is None else tensor.shape != shape):
        about = f"{tuple(tensor.shape)} of {tensor.dtype}" if isinstance(tensor, Tensor) else type(tensor).__name__
        raise InputError(f"{title}: expected a tensor of floats, {tuple(shape or 'BD')}, got {about}")
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def __getattr__(title: str) -> Any:
    """A loss by its name in other letters, and one that was added to the family."""
    return _member(title, LOSSES.options(arguments.member(LOSSES, title)))


def _member(title: str, options: Callable[Arguments, Strict]) -> Callable[Arguments, Loss]:
    return arguments.factory(LOSSES, title, options, lambda name, params: Loss(name, params, title))


CRCL = _member("CRCL", page.CrclOptions)
DECL = _member("DECL", page.DeclOptions)
HAL = _member("HAL", page.HalOptions)
HAL_EMNLP = _member("HAL_EMNLP", page.HalEmnlpOptions)
Hub = _member("Hub", page.HubOptions)
InfoNCE = _member("InfoNCE", page.InfonceOptions)
InfoNCE_RCE = _member("InfoNCE_RCE", page.InfonceRceOptions)
MAX = _member("MAX", page.MaxOptions)
RCL = _member("RCL", page.RclOptions)
Sigmoid = _member("Sigmoid", page.SigmoidOptions)
Structure = _member("Structure", page.StructureOptions)
SUM = _member("SUM", page.SumOptions)
