"""What every loss returns: a term per pair, named parts, and how the paper reduces them."""

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor


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
