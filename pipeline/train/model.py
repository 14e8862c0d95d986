"""The dual encoder: an image side, a text side and the similarity between them."""

import torch
from torch import Tensor, nn

from pipeline.params.strict import Strict
from pipeline.params.typed import Member
from pipeline.registry import IMAGE_ENCODERS, SIMILARITIES, TEXT_ENCODERS
from pipeline.seeds import derive
from pipeline.train.data import Batch


class DualEncoder(nn.Module):
    """Images and captions into one space; ``score`` compares them."""

    def __init__(self, image: nn.Module, text: nn.Module, similarity: Member) -> None:
        super().__init__()
        self.img, self.txt = image, text
        self._similarity = similarity
        self._score = SIMILARITIES.load(similarity.name).score

    @property
    def trains_on_pixels(self) -> bool:
        """Whether the epoch that ``start`` spoke of trains on images and not on their stored features."""
        return getattr(self.img, "trains_on_pixels", False)

    @property
    def tests_on_pixels(self) -> bool:
        """Whether vectors of images must be computed from the images: their stored features are another network's."""
        return getattr(self.img, "tests_on_pixels", False)

    def start(self, epoch: int) -> None:
        """Before ``epoch``, counted from 0; tells an image encoder that does not train alike in all epochs."""
        if hasattr(self.img, "start"):
            self.img.start(epoch)

    def score(self, images: Tensor, texts: Tensor) -> Tensor:
        """(images, dim) and (texts, dim) to (images, texts)."""
        return self._score(images, texts, self._similarity.params)

    def encode(self, batch: Batch, device: torch.device, precision: str = "float32") -> tuple[Tensor, Tensor]:
        """(B, dim) float32 vectors of the images and of the captions of a batch.

        precision: ``bfloat16`` runs the products in bfloat16 under autocast; weights and vectors stay float32, and
        similarities and losses, where a margin of 0.05 has to be resolved, are computed from float32.
        """
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
            images = self.img(batch.features.to(device))
            texts = self.txt(*on_device(batch.texts, device))
        return images.float(), texts.float()


def on_device(texts: tuple[Tensor, ...], device: torch.device) -> tuple[Tensor, ...]:
    """Token ids or vectors go to the device; lengths stay on the CPU, where packing needs them."""
    return texts[0].to(device), *texts[1:]


def build(
    image: Member,
    text: Member,
    similarity: Member,
    feature_shape: tuple[int, ...],
    text_inputs: int,
    embed_size: int,
    seed: int,
    backbone: nn.Module | None = None,
) -> DualEncoder:
    """Fresh weights from ``seed``; image and text side draw from generators of their own.

    text_inputs: words of the vocabulary, or dimensions of the text vectors. backbone: for image encoders that read pixels,
    the network that makes the features, with its weights.
    """

    def generator(side: str) -> torch.Generator:
        return torch.Generator().manual_seed(derive(seed, "weights", side))

    image_side = IMAGE_ENCODERS.load(image.name).build(
        image.params, feature_shape, embed_size, generator("image"), *([backbone] if backbone else [])
    )
    text_side = TEXT_ENCODERS.load(text.name).build(text.params, text_inputs, embed_size, generator("text"))
    return DualEncoder(image_side, text_side, similarity)


def describe(member: Member) -> dict:
    """A member as JSON: what ``restore`` reads back."""
    return {"name": member.name, "params": member.params.model_dump(mode="json")}


def restore(family, described: dict) -> Member:
    """The member that ``describe`` wrote down."""
    params: Strict = family.load(described["name"]).Params.model_validate(described["params"])
    return Member(described["name"], params)
