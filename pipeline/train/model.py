"""The dual encoder: an image side, a text side and the similarity between them."""

import torch
from torch import Tensor, nn

from pipeline.params.strict import Strict
from pipeline.params.typed import Member
from pipeline.registry import IMAGE_ENCODERS, SIMILARITIES, TEXT_ENCODERS
from pipeline.seeds import derive


class DualEncoder(nn.Module):
    """Images and captions into one space; ``score`` compares them."""

    def __init__(self, image: nn.Module, text: nn.Module, similarity: Member) -> None:
        super().__init__()
        self.img, self.txt = image, text
        self._similarity = similarity
        self._score = SIMILARITIES.load(similarity.name).score

    def score(self, images: Tensor, texts: Tensor) -> Tensor:
        """(images, dim) and (texts, dim) to (images, texts)."""
        return self._score(images, texts, self._similarity.params)

    def forward(self, features: Tensor, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Scores of every image of the batch with every caption of it."""
        return self.score(self.img(features), self.txt(tokens, lengths))


def build(
    image: Member,
    text: Member,
    similarity: Member,
    feature_shape: tuple[int, ...],
    words: int,
    embed_size: int,
    seed: int,
) -> DualEncoder:
    """Fresh weights from ``seed``; image and text side draw from generators of their own."""

    def generator(side: str) -> torch.Generator:
        return torch.Generator().manual_seed(derive(seed, "weights", side))

    image_side = IMAGE_ENCODERS.load(image.name).build(
        image.params, feature_shape, embed_size, generator("image")
    )
    text_side = TEXT_ENCODERS.load(text.name).build(text.params, words, embed_size, generator("text"))
    return DualEncoder(image_side, text_side, similarity)


def describe(member: Member) -> dict:
    """A member as JSON: what ``restore`` reads back."""
    return {"name": member.name, "params": member.params.model_dump(mode="json")}


def restore(family, described: dict) -> Member:
    """The member that ``describe`` wrote down."""
    params: Strict = family.load(described["name"]).Params.model_validate(described["params"])
    return Member(described["name"], params)
