"""What every loss returns: a term per pair, named parts, and how the paper reduces them."""

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from pipeline.errors import InputError


@dataclass(frozen=True)
class LossTerms:
    """per_pair: (pairs,), the share of each positive pair; parts: named scalars for logs, detached.

    reduction: ``sum`` for the hinge losses (the authors sum over the batch), ``mean`` where the paper divides by B.
    """

    per_pair: Tensor
    reduction: Literal["sum", "mean"]
    parts: dict[str, Tensor] = field(default_factory=dict)

    def total(self) -> Tensor:
        """The scalar to minimise."""
        return self.per_pair.sum() if self.reduction == "sum" else self.per_pair.mean()


def require_negatives(scores: Tensor) -> None:
    """Raises InputError unless ``scores`` is square, positives on the diagonal, with at least one negative each."""
    if scores.ndim != 2 or scores.shape[0] != scores.shape[1] or scores.shape[0] < 2:
        raise InputError(f"a loss needs square scores of at least 2 pairs, got shape {tuple(scores.shape)}")
