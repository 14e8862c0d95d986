"""A classifier as a feature extractor: pixels in, what its last layer would see out."""

import torch
from torch import Tensor, nn

from vse_pipe.core.errors import UsageError
from vse_pipe.pictures.transforms import Transform


class Extractor(nn.Module):
    """uint8 (B, crops, S, S, 3) -> float32 (B, D): scale to 0..1, normalise the channels, mean over the crops."""

    mean: Tensor
    std: Tensor

    def __init__(self, net: nn.Module, transform: Transform) -> None:
        super().__init__()
        self.net = net.to(memory_format=torch.channels_last)
        self.register_buffer("mean", torch.tensor(transform.mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(transform.std).view(3, 1, 1), persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        # Crop by crop: ten crops of a batch at once need ten times the memory and are no faster.
        features = [self.net(self.scaled(crop)).float() for crop in pixels.unbind(1)]
        return features[0] if len(features) == 1 else torch.stack(features).mean(0)

    def scaled(self, crop: Tensor) -> Tensor:
        """Permuting rows of pixels gives channels_last, the layout convolutions are fastest in, for nothing."""
        return crop.permute(0, 3, 1, 2).float().div_(255).sub_(self.mean).div_(self.std)


def without_classifier(model: nn.Module, classes: int) -> nn.Module:
    """Replace the last linear layer (or convolution, as in SqueezeNet) by the identity, in place.

    Holds for every torchvision classifier: VGG and AlexNet give fc7 after its ReLU, the others their pooled features.
    Raises UsageError when that layer does not have ``classes`` outputs, so is not the classifier.
    """
    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    name, layer = layers[-1]
    outputs = layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels
    if outputs != classes:
        raise UsageError(
            f"{type(model).__name__}: its last layer '{name}' has {outputs} outputs, not {classes} classes"
        )
    model.set_submodule(name, nn.Identity())
    return model


def dimensions(network: Extractor, size: int, name: str) -> int:
    """D, found by a forward pass of one black image. Raises UsageError when the network does not give (1, D)."""
    try:
        with torch.inference_mode():
            shape = tuple(network(torch.zeros(1, 1, size, size, 3, dtype=torch.uint8)).shape)
    except (RuntimeError, AssertionError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"{name} does not take images of {size} pixels: {reason}") from error
    if len(shape) != 2:
        raise UsageError(f"{name} gives features of shape {shape[1:]} for an image, expected one vector")
    return shape[1]
