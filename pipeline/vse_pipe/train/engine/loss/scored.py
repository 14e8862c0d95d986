"""What a loss sees of a batch."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse_pipe.core.errors import InputError
from vse_pipe.ranking.engine.words import Words
from vse_pipe.train.engine.loss.matches import Matches


@dataclass(frozen=True)
class Scored:
    """A batch of B pairs, pair i being image i shown with text i.

    scores: rows are images, columns texts, positives on the diagonal; same: the cells that are no negatives: the
    diagonal, under ``train.mask_same_image`` every text of the same image, and with ``matches`` all that match; owners:
    the image that each pair shows, by its id; images, texts: the vectors, or regions and words; weights: factors that a
    scheme gives to the cells, None where it gives none; matches: where a text can have several images, else None;
    mined: vectors of further images, each a negative of the text of pair ``mined_for`` and of no other; targets: how far a
    scheme takes each pair for matched, from 0 to 1, None where it judges none; passed: epochs that have been trained, with
    the share of the one at hand.
    """

    scores: Float[Tensor, "pairs pairs"]
    same: Bool[Tensor, "pairs pairs"]
    owners: Int[Tensor, " pairs"]
    images: Float[Tensor, "pairs ..."] | None = None
    texts: Float[Tensor, "pairs dim"] | Words | None = None
    weights: Float[Tensor, "pairs pairs"] | None = None
    matches: Matches | None = None
    mined: Float[Tensor, "mined dim"] | None = None
    mined_for: Int[Tensor, " mined"] | None = None
    targets: Float[Tensor, " pairs"] | None = None
    passed: float = 0.0

    @property
    def trust(self) -> Float[Tensor, " pairs"]:
        """``targets``, and 1 where nobody judges."""
        return torch.ones_like(self.scores[0]) if self.targets is None else self.targets

    @classmethod
    def of(
        cls,
        scores: Tensor,
        owners: Tensor | None = None,
        mask_same_image: bool = False,
        images: Tensor | None = None,
        texts: Tensor | Words | None = None,
        weights: Tensor | None = None,
        matches: Matches | None = None,
        passed: float = 0.0,
    ) -> "Scored":
        """owners: left out, every pair has an image of its own.

        Raises InputError unless ``scores`` is square with at least two pairs: a pair alone has no negative.
        """
        if scores.ndim != 2 or scores.shape[0] != scores.shape[1] or scores.shape[0] < 2:
            raise InputError(f"a loss needs square scores of at least 2 pairs, got shape {tuple(scores.shape)}")
        if owners is None:
            owners = torch.arange(len(scores), device=scores.device)
        same = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
        if mask_same_image:
            same = owners[:, None] == owners[None, :]
        if matches is not None:
            same = same | matches.same
        return cls(scores, same, owners, images, texts, weights, matches, passed=passed)
