"""The last feature map of a classifier of torchvision or timm: where it is in the network, and the network up to it."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torchvision.models.feature_extraction import create_feature_extractor

from vse_pipe.core.errors import UsageError

_MAP = "map"


class Timm(nn.Module):
    """A timm model's features before pooling; the patches of a ViT are put back into their rows and columns."""

    # timm's models have no base class.
    model: Any

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, images: Tensor) -> Tensor:
        """Raises UsageError for features that are neither a map nor patches of one."""
        found = self.model.forward_features(images)
        if found.ndim == 4:
            # Swin and its kin have the channels last.
            last = found.shape[-1] == self.model.num_features != found.shape[1]
            return found.permute(0, 3, 1, 2) if last else found
        grid = getattr(getattr(self.model, "patch_embed", None), "grid_size", None)
        patches = found[:, getattr(self.model, "num_prefix_tokens", 0) :] if found.ndim == 3 else found
        if grid is None or patches.ndim != 3 or patches.shape[1] != grid[0] * grid[1]:
            raise UsageError(f"{self.name} gives features of shape {tuple(found.shape[1:])}, no map for a grid")
        return patches.transpose(1, 2).unflatten(2, tuple(grid))


def cut(model: nn.Module, size: int, name: str) -> nn.Module:
    """``model``, in eval mode and without its classifier, up to its last map; ``of`` takes the map from its output.

    size: pixels of images that are large enough for a map of several places; name: for messages. Raises UsageError when the
    network has no map.
    """
    # Traced, not run with a hook: what comes after the map, as the 120 million weights of VGG, is never computed.
    node = _last(model, size, name)
    return create_feature_extractor(model, {node: _MAP}, suppress_diff_warning=True)


def of(output: dict[str, Tensor] | Tensor) -> Tensor:
    """The map (B, D, H, W)."""
    return output if isinstance(output, Tensor) else output[_MAP]


def size(net: nn.Module, pixels: int, name: str) -> tuple[int, int]:
    """Height and width of the map for square images of ``pixels``."""
    shape = of(_run(net, pixels, name)).shape
    return shape[2], shape[3]


def _last(model: nn.Module, size: int, name: str) -> str:
    """The module whose output is the last map (B, D, H, W), more than one place, before the network pools it.

    Of DenseNet it is the ReLU after the map, which is no module. Raises UsageError for networks that end with tokens (ViT).
    """
    if name.split()[-1].startswith("densenet"):
        return "relu"
    seen: list[tuple[str, tuple[int, ...], bool]] = []

    def record(node: str, module: nn.Module, inputs, output) -> None:
        if isinstance(output, Tensor):
            own = any(True for _ in module.parameters(recurse=False))
            seen.append((node, tuple(output.shape), own))

    handles = [m.register_forward_hook(partial(record, node)) for node, m in model.named_modules() if node]
    _run(model, size, name)
    for handle in handles:
        handle.remove()
    places = [i for i, (_, shape, _) in enumerate(seen) if len(shape) == 4 and min(shape[2:]) > 1]
    if not places or any(own and len(shape) == 3 for _, shape, own in seen[places[-1] :]):
        raise UsageError(f"{name} ends with tokens, so it has no map for a grid; take a convolutional network")
    return seen[places[-1]][0]


def _run(model: nn.Module, size: int, name: str) -> Tensor | dict[str, Tensor]:
    try:
        with torch.inference_mode():
            return model(torch.zeros(1, 3, size, size))
    except (RuntimeError, AssertionError, ValueError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UsageError(f"{name} does not take images of {size} pixels: {reason}") from error
