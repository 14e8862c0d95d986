"""The cost of moving an image to a caption, learned from pairs that are made up on purpose (L2RM, CVPR 2024)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse_pipe.ranking.engine.words import Words
from vse_pipe.train.engine.encoder.norm import normalize


class CostNetwork(nn.Module):
    """``relu(W s + b)`` on the similarities of an image to all captions of a batch; at the start ``relu(1 - S)``.

    captions: of a whole batch. A batch with fewer is filled up with similarities of 0 and the costs of these are cut off;
    the authors' code drops such batches.
    """

    def __init__(self, captions: int) -> None:
        super().__init__()
        self.fc = nn.Linear(captions, captions)
        with torch.no_grad():
            self.fc.weight.copy_(-torch.eye(captions))
            self.fc.bias.fill_(1.0)

    def forward(self, scores: Float[Tensor, "images captions"]) -> Float[Tensor, "images captions"]:
        """Costs, at least 0. scores: larger is closer; no more captions than the network has."""
        given = scores.shape[1]
        filled = nn.functional.pad(scores, (0, self.fc.in_features - given))
        return self.fc(filled).relu()[:, :given]


def supervised_cost(
    cost: Float[Tensor, "images captions"], matching: Float[Tensor, "images captions"]
) -> Float[Tensor, ""]:
    """``sum(matching * cost)``, matching being 1 where image and caption belong together: what the network minimises.

    Source: L2RM (Han et al., CVPR 2024) Eq. 6. Nothing in it keeps costs up: a network of zeros minimises it, and only the
    small rate of learning (2e-6) stands in the way.
    """
    return (matching * cost).sum()


def cosine_distance(
    images: Float[Tensor, "images *regions dim"], texts: Float[Tensor, "captions dim"] | Words
) -> Float[Tensor, "images captions"]:
    """``1 - cos`` of the vectors of images and captions, the mean of its fragments where one has several: what the paper's
    Table 3 puts in the place of the learned cost, from features alone whatever the model makes of them.

    The paper does not say how regions and words become one vector. Of a model that compares vectors by their cosine this
    is ``1 - S``, where the network above starts.
    """
    seen = images.sum(dim=1) if images.ndim == 3 else images  # the direction of the sum is that of the mean
    read = texts.padded().sum(dim=1) if isinstance(texts, Words) else texts
    return (1 - normalize(seen) @ normalize(read).T).relu()
