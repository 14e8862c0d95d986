"""A pretrained pair of open_clip that trains: its image side, its text side, or both.

Vectors are open_clip's, at unit length; a step with loss ``infonce`` (``learn``) has twice the
gradients of its ClipLoss.
"""

import math
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize

from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.core.text import SPECIAL
from vse_pipe.project.params.typed import FeatureSet
from vse_pipe.project.registry import BACKBONES
from vse_pipe.train.encoders.options import PairShape, TextOpenClipOptions
from vse_pipe.train.heads import OwnRate, exact
from vse_pipe.train.pictures import Pictures, PixelNetwork, transform

# Names of rows of equal blocks in open_clip, timm and transformers.
_BLOCKS = ("resblocks", "blocks", "layers", "layer")
# The loss has these.
LOGIT = ("logit_scale", "logit_bias")


class PairNetwork(nn.Module):
    """Both sides of a pair. dimensions: of a vector."""

    # open_clip's models have no base class.
    image: Any
    text: Any

    def __init__(self, image: nn.Module, text: nn.Module, dimensions: int) -> None:
        super().__init__()
        self.image, self.text, self.dimensions = image, text, dimensions


class TunedSide(nn.Module):
    """One side, of which ``params.tune`` says what trains."""

    side: ClassVar[str]
    network: Any

    def __init__(
        self, params: PairShape, inputs: int, embed_size: int, rng: torch.Generator, pair: PairNetwork
    ) -> None:
        """rng draws the additions of ``lora``. Raises InputError unless ``embed_size`` is the
        pair's, UsageError for ``lora`` of a network without one row of blocks."""
        super().__init__()
        self.name, self.params = f"{self.side} encoder 'open_clip'", params
        if pair.dimensions != embed_size:
            raise InputError(
                f"{self.name} gives vectors of {pair.dimensions} numbers, train.embed_size is "
                f"{embed_size}; set train.embed_size: {pair.dimensions}"
            )
        self.network = getattr(pair, self.side).requires_grad_(False)
        if params.tune == "lora":
            self._adapt(rng)
        for name, weight in self.network.named_parameters():
            weight.requires_grad_(self._trains(name))
        self.own_rate = OwnRate(params.lr)

    def train(self, mode: bool = True) -> "TunedSide":
        """As ``nn.Module.train``; batch normalisation keeps the statistics of the checkpoint."""
        super().train(mode)
        for layer in self.network.modules():
            if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                layer.eval()
        return self

    def _trains(self, name: str) -> bool:
        if name.endswith(LOGIT) or (hasattr(self.network, "net") and ".visual." not in name):
            return False  # an image tower also has a few weights of the text side
        return self.params.tune == "all" or "lora_" in name

    def _adapt(self, rng: torch.Generator) -> None:
        """Add to every linear layer and attention of the blocks. Raises UsageError for a network
        that is no single row of blocks."""
        rows = [
            module
            for name, module in self.network.named_modules()
            if name.rpartition(".")[2] in _BLOCKS and isinstance(module, nn.ModuleList | nn.Sequential)
        ]
        if len(rows) != 1:
            raise UsageError(f"{self.name}: its network is no single row of blocks, which lora needs; take `tune: all`")
        for layer in list(rows[0].modules()):
            is_linear = isinstance(layer, nn.Linear)
            if is_linear or _is_attention(layer):
                weight = "weight" if is_linear else "in_proj_weight"
                addition = LowRank(getattr(layer, weight), self.params.rank, self.params.alpha, rng)
                parametrize.register_parametrization(layer, weight, addition)


class LowRank(nn.Module):
    """A weight plus ``alpha / rank B A`` (Hu et al., LoRA, ICLR 2022): A uniform in +-1/sqrt(in), B
    zero.
    """

    def __init__(self, weight: Float[Tensor, "out in"], rank: int, alpha: float, rng: torch.Generator) -> None:
        super().__init__()
        self.lora_a = nn.Parameter(weight.new_empty(rank, weight.shape[1]))
        self.lora_b = nn.Parameter(weight.new_zeros(weight.shape[0], rank))
        self.scale = alpha / rank
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5), generator=rng)

    def forward(self, weight: Float[Tensor, "out in"]) -> Float[Tensor, "out in"]:
        with torch.autocast(weight.device.type, enabled=False):
            return torch.addmm(weight, self.lora_b, self.lora_a, alpha=self.scale)


def _is_attention(module: nn.Module) -> bool:
    weight = getattr(module, "in_proj_weight", None)
    return isinstance(weight, Tensor) and weight.ndim == 2


class ImageSide(TunedSide):
    """(B, crops, S, S, 3) uint8 pixels to (B, D)."""

    side = "image"
    trains_on_pixels = tests_on_pixels = True

    def forward(self, pixels: UInt8[Tensor, "images crops side side 3"]) -> Float[Tensor, "images dim"]:
        kind = next(self.network.parameters()).dtype
        crops = [exact(self.network.net(self.network.scaled(crop).to(kind))) for crop in pixels.unbind(1)]
        return functional.normalize(crops[0] if len(crops) == 1 else torch.stack(crops).mean(0), dim=-1)


class TextSide(TunedSide):
    """(B, L) ids of ``open_clip_tokens`` to (B, D); L is the length of the model's input."""

    side = "text"

    def __init__(
        self, params: TextOpenClipOptions, inputs: int, embed_size: int, rng: torch.Generator, pair: PairNetwork
    ) -> None:
        """inputs: pieces of words of the texts, and 4. Raises InputError unless they are the
        pair's."""
        super().__init__(params, inputs, embed_size, rng, pair)
        if (pieces := self.network.model.vocab_size) != inputs - len(SPECIAL):
            raise InputError(
                f"{self.name} knows {pieces} pieces of words, the texts have {inputs - len(SPECIAL)}; "
                "give the texts the model of the run's features"
            )

    def forward(
        self, tokens: Int[Tensor, "captions length"], lengths: Int[Tensor, " captions"]
    ) -> Float[Tensor, "captions dim"]:
        return functional.normalize(exact(self.network(tokens - len(SPECIAL))), dim=-1)


build_image, build_text = ImageSide, TextSide


pictures = Pictures.join


def network(name: str, source: FeatureSet, meta: dict, seed: int) -> PixelNetwork:
    """The pair behind the features ``name``, with its configuration. Raises as ``pair.load`` and
    ``PixelNetwork.of_features``."""
    image, text, configuration = BACKBONES.load("open_clip").both(source.backbone.params, seed)
    pair = PairNetwork(image.module, text, image.about["dimensions"])
    return PixelNetwork.of_features(name, source, meta, (image, pair, configuration))


def restore_network(described: dict) -> PairNetwork:
    """The pair with arbitrary weights, to be loaded from a model file."""
    return PairNetwork(*BACKBONES.load("open_clip").restored(described, transform(described)))
