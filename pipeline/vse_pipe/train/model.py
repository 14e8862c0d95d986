"""The dual encoder, its construction from params.yaml, and batched encoding without gradients.

When several processes train together, each encodes a share of the rows and all receive every row.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from vse_pipe.artifacts.features import Features
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core import processes
from vse_pipe.core.console import track
from vse_pipe.core.errors import InputError
from vse_pipe.core.processes import Share
from vse_pipe.core.seeds import derive_seed
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.project.params.typed import Member, Run
from vse_pipe.project.registry import IMAGE_ENCODERS, LOSSES, RUN_FAMILIES, TEXT_ENCODERS, Family
from vse_pipe.ranking.fragments import Similarity, Words, blocks, build_similarity
from vse_pipe.train.data import Batch, Pairs, image_inputs, text_inputs, text_lengths
from vse_pipe.train.heads import exact

if TYPE_CHECKING:
    from vse_pipe.train.pictures import Pictures


# Images and captions in one pass of an encoder outside of training.
BATCH, _CAPTIONS = 1024, 256


class DualEncoder(nn.Module):
    """Encodes images and captions into one space; ``score`` compares them.

    Each side gives one vector, or fragments: the regions of an image, the words of a caption. loss:
    module with the weights that the loss learns, in training only.
    """

    # Any: encoders have more methods than nn.Module.
    img: Any
    txt: Any

    def __init__(
        self, image: nn.Module, text: nn.Module, similarity: Similarity, loss: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.img, self.txt, self.sim, self.loss = image, text, similarity, loss

    @property
    def fragments(self) -> bool:
        """Whether images are compared by regions and captions by words."""
        return self.sim.fragments

    @property
    def trains_on_pixels(self) -> bool:
        """Whether the epoch passed to ``start`` trains on images instead of stored features."""
        return getattr(self.img, "trains_on_pixels", False)

    @property
    def tests_on_pixels(self) -> bool:
        """Whether the network may differ from that of the stored features."""
        return getattr(self.img, "tests_on_pixels", False)

    @property
    def is_static(self) -> bool:
        """Whether training passes read tensors of the device alone, as a CUDA graph repeats them."""
        return not self.fragments and all(getattr(side, "is_static", False) for side in (self.img, self.txt))

    def start(self, epoch: int) -> None:
        """Prepare ``epoch``, counted from 0, for image encoders that change between epochs."""
        if hasattr(self.img, "start"):
            self.img.start(epoch)

    def score(self, images: Tensor, texts: Tensor | Words) -> Tensor:
        """(images, dim) and (texts, dim), or (images, R, dim) and words, to scores (images, texts).

        With several processes and fragments, each process compares all images with its share of the
        captions.
        """
        if isinstance(texts, Words) and processes.rank_count() > 1:
            images, texts = processes.summed(images), Words(processes.summed(texts.vectors), texts.lengths)
        return self.sim(images, texts)

    def captions(self, texts: tuple[Tensor, ...], device: torch.device) -> Tensor | Words:
        """(B, dim) caption vectors, or words; texts: as in ``Batch``."""
        inputs = texts[0].to(device), *texts[1:]  # lengths stay on the CPU
        return Words.from_padded(self.txt.words(*inputs), inputs[1]) if self.fragments else self.txt(*inputs)

    @property
    def encodes_whole_batches(self) -> bool:
        """Whether a layer of either encoder normalises over the batch; all processes then encode
        all of it, with the same dropout."""
        return any(layer.training for side in (self.img, self.txt) for layer in batch_norms(side).values())

    def encode(self, batch: Batch, device: torch.device, precision: str = "float32") -> tuple[Tensor, Tensor | Words]:
        """float32 images (B, dim) or (B, R, dim), and captions (B, dim) or words, of a batch.

        precision: ``bfloat16`` runs the products in bfloat16 under autocast. Weights and vectors
        stay float32, because similarities and losses must resolve a margin of 0.05.

        With several processes each encodes its share of the rows, or ``encodes_whole_batches``. All
        receive the vectors of the whole batch and pass back the gradient of their share only.
        """
        image_share, text_share = Share.even(len(batch.features)), Share.even(len(batch.pairs))
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
            if self.encodes_whole_batches:
                images = image_share.take(self.img(batch.features.to(device)))
                texts = text_share.take(self.captions(batch.texts, device))
            else:
                images = self.img(image_share.take(batch.features).to(device))
                texts = self.captions(tuple(map(text_share.take, batch.texts)), device)
        images = image_share.gather(exact(images))
        if isinstance(texts, Tensor):
            return images, text_share.gather(exact(texts))
        lengths = batch.texts[1]
        return images, Words(text_share.of_parts(lengths).gather(exact(texts.vectors)), lengths)

    def sum_gradients(self) -> None:
        """Sum the gradient of each weight over the processes, after the backward pass."""
        # Every process computes the gradient of the loss's weights completely, so it counts in the
        # first process only.
        if self.loss is not None and not processes.is_first():
            for weight in self.loss.parameters():
                weight.grad = None if weight.grad is None else torch.zeros_like(weight.grad)
        for weight in self.parameters():
            if weight.grad is not None:
                processes.total(weight.grad)


@dataclass(frozen=True)
class Setting:
    """The inputs of a scheme.

    pairs: all training pairs; build: function from a seed to a model like ``model`` with fresh
    weights, on the CPU.
    """

    run: Run
    model: DualEncoder
    pairs: Pairs
    device: torch.device
    build: Callable[[int], DualEncoder]

    @property
    def train(self) -> TrainParams:
        return self.run.train


def batch_norms(model: nn.Module) -> dict[str, nn.Module]:
    """The layers that normalise over the whole batch in training, by name."""
    is_one = nn.modules.batchnorm._BatchNorm
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, is_one)}


def build(
    image: Member,
    text: Member,
    similarity: Member,
    feature_shape: tuple[int, ...],
    text_inputs: int,
    embed_size: int,
    seed: int,
    backbone: nn.Module | None = None,
    loss: Member | None = None,
) -> DualEncoder:
    """A model with fresh weights from ``seed``; each side and the similarity draw by themselves.

    text_inputs: words of the vocabulary, or dimensions of the text vectors. backbone: network with
    its weights, for encoders that hold it. loss: needed in training only.
    """

    def generator(side: str) -> torch.Generator:
        return torch.Generator().manual_seed(derive_seed(seed, "weights", side))

    def encoder(side: str, family: Family, member: Member, inputs: int) -> nn.Module:
        make = getattr(family.load(member.name), f"build_{side}")
        network = [backbone] if _holds_network(family, member) else []
        return make(member.params, inputs, embed_size, generator(side), *network)

    image_side = encoder("image", IMAGE_ENCODERS, image, _width(image, feature_shape))
    text_side = encoder("text", TEXT_ENCODERS, text, text_inputs)
    regions = feature_shape[0] if len(feature_shape) == 2 else 1
    learned = LOSSES.load(loss.name).network(loss.params) if loss and LOSSES.traits(loss.name).learns else None
    measure = build_similarity(similarity, embed_size, regions, generator("similarity"))
    return DualEncoder(image_side, text_side, measure, learned)


def _width(image: Member, feature_shape: tuple[int, ...]) -> int:
    """Raises InputError for regions where the encoder reads one vector an image, or the reverse."""
    reads_regions = IMAGE_ENCODERS.traits(image.name).reads == "regions"
    if len(feature_shape) != 1 + reads_regions:
        inputs = "features (regions, dim) of an image" if reads_regions else "one vector per image"
        raise InputError(f"image encoder '{image.name}' needs {inputs}, the features are {feature_shape} each")
    return feature_shape[-1]


def _holds_network(family: Family, member: Member) -> bool:
    traits = family.traits(member.name)
    return traits.reads == "pixels" or bool(traits.backbones)


def network_holder(image: Member, text: Member) -> ModuleType | None:
    """The module of the encoder that holds the network behind the features, if any."""
    sides = ((IMAGE_ENCODERS, image), (TEXT_ENCODERS, text))
    return next((family.load(member.name) for family, member in sides if _holds_network(family, member)), None)


def described(run: Run, features: Features, texts: Texts, embed_size: int) -> dict:
    """config.json of any model: members, sizes as in ``build``, names and digests."""
    members = {key: describe(getattr(run, key)) for key in RUN_FAMILIES}
    shape = list(features.array.shape[1:])
    sizes = {"embed_size": embed_size, "feature_shape": shape, "text_inputs": texts.inputs}
    sources = {key: getattr(run, key) for key in ("dataset", "features", "texts", "noise")}
    digests = {"features_sha256": features.meta["sha256"], "texts_sha256": texts.digest}
    return {**members, **sizes, **sources, **digests}


def describe(member: Member) -> dict:
    """A member as JSON, for config.json."""
    return {"name": member.name, "params": member.params.model_dump(mode="json")}


def images(
    model: DualEncoder,
    source: "np.ndarray | Pictures",
    rows: np.ndarray,
    device: torch.device,
    title: str = "",
) -> Tensor:
    """float32 vectors (len(rows), dim) or (len(rows), R, dim) of feature rows, from stored features
    or from images. title: of the progress line, if any."""
    share = Share.even(len(rows))
    rows = share.take(rows)
    if isinstance(source, np.ndarray):
        parts = [rows[part] for part in blocks(len(rows), BATCH)]
        inputs: Iterable[Tensor] = map(partial(image_inputs, source), parts)
    else:
        parts = [rows[part] for part in blocks(len(rows), min(BATCH, source.batch_size))]
        inputs = source.tested(parts)
    with evaluating(model):
        return share.gather(_filled((model.img(chosen.to(device)) for chosen in inputs), parts, title))


def captions(
    model: DualEncoder, texts: Texts, places: np.ndarray, device: torch.device, title: str = ""
) -> Tensor | Words:
    """float32 vectors (len(places), dim) of captions, or their words; batches hold captions of
    similar length. title: as in ``images``."""
    lengths = torch.from_numpy(text_lengths(texts, places))
    order, share = processes.dealt(lengths.argsort(stable=True))
    lengths, back = lengths[order], order.argsort()
    own = share.take(order).numpy()
    parts = [own[part] for part in blocks(len(own), _CAPTIONS)]
    batches = (text_inputs(texts, places[part]) for part in parts)
    with evaluating(model):
        encoded: Iterator[Any] = (model.captions(inputs, device) for inputs in batches)
        if not model.fragments:
            return share.gather(_filled(encoded, parts, title))[back]
        words = Words.joined([part.float().to(torch.device("cpu")) for part in encoded])
        return Words(share.of_parts(lengths).gather(words.vectors), lengths).take(back)


@contextlib.contextmanager
def evaluating(model: DualEncoder) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards the model returns to its earlier mode."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


def _filled(encoded: Iterable[Tensor], parts: list[np.ndarray], title: str) -> Tensor:
    """All rows of ``encoded``, which has a tensor for each of ``parts``, in one tensor."""
    vectors, start = torch.empty((0, 0)), 0
    for rows in track(encoded, len(parts), title) if title else encoded:
        if not start:
            vectors = torch.empty((sum(map(len, parts)), *rows.shape[1:]))
        vectors[start : start + len(rows)] = rows
        start += len(rows)
    return vectors
