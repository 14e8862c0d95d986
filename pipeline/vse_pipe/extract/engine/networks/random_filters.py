"""One convolution with random filters that are never trained, and the strongest response anywhere in the image."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class RandomFilters(nn.Module):
    """(B, 3, S, S) to (B, 2 * filters): how well the best place of the image fits each filter, and its negative.

    Filters are Gaussian, scaled to unit length. The mean over the features is subtracted from every vector: maxima
    are positive throughout, and without it any two images would point the same way (cosine 0.94 on ``shapes``).
    """

    def __init__(self, filters: int, size: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, filters, size, stride, bias=False)
        weights = torch.randn(self.conv.weight.shape)
        norms = weights.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
        self.conv.weight = nn.Parameter(weights / norms, requires_grad=False)

    def forward(self, images: Float[Tensor, "images 3 side side"]) -> Float[Tensor, "images features"]:
        responses = self.conv(images)
        extremes = torch.cat([responses.amax(dim=(2, 3)), -responses.amin(dim=(2, 3))], dim=1)
        return extremes - extremes.mean(dim=1, keepdim=True)
