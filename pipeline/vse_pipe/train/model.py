"""Run a trained dual encoder over many images or captions, in batches, without gradients; results lie on the CPU.

Of processes that train as one each encodes a share, and all get everything.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vse_pipe.artifacts.texts import Texts
from vse_pipe.core import processes, workers
from vse_pipe.core.console import track
from vse_pipe.core.processes import Share
from vse_pipe.core.seeds import derive_seed
from vse_pipe.core.strict import Strict
from vse_pipe.project.params.typed import Member, Run
from vse_pipe.project.registry import IMAGE_ENCODERS, LOSSES, RUN_FAMILIES, TEXT_ENCODERS
from vse_pipe.ranking.fragments import Words
from vse_pipe.ranking.similarity import Similarity, build_similarity
from vse_pipe.train import processes as train_processes
from vse_pipe.train.batch import LossTerms, Scored
from vse_pipe.train.data import Batch, PixelSource, image_inputs, text_inputs, text_lengths


class DualEncoder(nn.Module):
    """Images and captions into one space; ``score`` compares them.

    Either has one vector, or fragments: an image its regions, a caption its words. loss: what the run's loss learns, if
    anything; in training only.
    """

    # Of members: they have more methods than any module.
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

    def score(self, images: Tensor, texts: Tensor | Words) -> Tensor:
        """(images, dim) and (texts, dim), or (images, R, dim) and words, to (images, texts).

        Of several processes each compares all images with its share of captions where there are fragments, else with all.
        """
        if isinstance(texts, Words) and processes.rank_count() > 1:
            images, texts = processes.summed(images), Words(processes.summed(texts.vectors), texts.lengths)
        return self.sim(images, texts)

    def captions(self, texts: tuple[Tensor, ...], device: torch.device) -> Tensor | Words:
        """(B, dim) vectors of captions, or their words; texts: as in a ``Batch``."""
        inputs = on_device(texts, device)
        return Words.from_padded(self.txt.words(*inputs), inputs[1]) if self.fragments else self.txt(*inputs)

    def encode(self, batch: Batch, device: torch.device, precision: str = "float32") -> tuple[Tensor, Tensor | Words]:
        """float32 images (B, dim) or (B, R, dim), and captions (B, dim) or words, of a batch.

        precision: ``bfloat16`` runs the products in bfloat16 under autocast; weights and vectors stay float32, and
        similarities and losses, where a margin of 0.05 has to be resolved, are computed from float32.

        Of several processes each encodes its share of the rows; all get the vectors of the whole batch, and take back the
        gradient of their own rows alone.
        """
        seen, read = Share.of(len(batch.features)), Share.of(len(batch.pairs))
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
            with train_processes.rows(seen):
                images = self.img(seen.take(batch.features).to(device))
            with train_processes.rows(read):
                texts = self.captions(tuple(map(read.take, batch.texts)), device)
        return seen.gather(_exact(images)), _gathered(texts, read, batch.texts)

    def sum_gradients(self) -> None:
        """After the backward pass of several processes: the whole gradient of each weight, from what each process has of it."""
        whole = [] if self.loss is None else list(self.loss.parameters())
        if not processes.is_first():  # what all have counts once
            for weight in whole:
                weight.grad = None if weight.grad is None else torch.zeros_like(weight.grad)
        for weight in self.parameters():
            if weight.grad is not None:
                processes.total(weight.grad)


def _gathered(texts: Tensor | Words, share: Share, read: tuple[Tensor, ...]) -> Tensor | Words:
    """All captions of a batch from those of each process. read: what the encoders read of all."""
    if isinstance(texts, Tensor):
        return share.gather(_exact(texts))
    return Words(share.of_parts(read[1]).gather(_exact(texts.vectors)), read[1])


def _exact(vectors: Tensor) -> Tensor:
    """float32 of what autocast made; float64, of tests, stays."""
    return vectors if vectors.dtype == torch.float64 else vectors.float()


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
    loss: Member | None = None,
) -> DualEncoder:
    """Fresh weights from ``seed``; image side, text side and similarity draw from generators of their own.

    text_inputs: words of the vocabulary, or dimensions of the text vectors. backbone: for image encoders that read pixels,
    the network that makes the features, with its weights. loss: for training.
    """

    def generator(side: str) -> torch.Generator:
        return torch.Generator().manual_seed(derive_seed(seed, "weights", side))

    image_side = IMAGE_ENCODERS.load(image.name).build(
        image.params, feature_shape, embed_size, generator("image"), *([backbone] if backbone else [])
    )
    text_side = TEXT_ENCODERS.load(text.name).build(text.params, text_inputs, embed_size, generator("text"))
    regions = feature_shape[0] if len(feature_shape) == 2 else 1
    learned = LOSSES.load(loss.name).network(loss.params) if loss and LOSSES.traits(loss.name).learns else None
    measure = build_similarity(similarity, embed_size, regions, generator("similarity"))
    return DualEncoder(image_side, text_side, measure, learned)


def objective(loss: Member, model: DualEncoder, **values: object) -> Callable[[Scored], LossTerms]:
    """The loss of a batch, with what it learns in ``model``; values: other ones of its options."""
    learned = {} if model.loss is None else {"network": model.loss}
    return partial(LOSSES.load(loss.name).loss, params=loss.params.model_copy(update=values), **learned)


def described(
    run: Run, feature_shape: tuple[int, ...], text_inputs: int, embed_size: int, features: dict, texts: Texts
) -> dict:
    """What config.json says of any model: members, sizes as of ``build``, names, and how features and texts were made.

    features: meta.json of the features, which has their digest.
    """
    members = {key: describe(getattr(run, key)) for key in RUN_FAMILIES}
    sizes = {"embed_size": embed_size, "feature_shape": list(feature_shape), "text_inputs": text_inputs}
    sources = {key: getattr(run, key) for key in ("dataset", "features", "texts", "noise")}
    inputs = {
        "features": {"name": features.get("backbone"), "params": features.get("params", {})},
        "texts": {"name": texts.meta.get("method"), "params": texts.meta.get("options", {})},
    }
    digests = {"features_sha256": features["sha256"], "texts_sha256": texts.digest}
    return {**members, **sizes, **sources, "inputs": inputs, **digests}


def describe(member: Member) -> dict:
    """A member as JSON: what ``restore`` reads back."""
    return {"name": member.name, "params": member.params.model_dump(mode="json")}


def restore(family, described: dict) -> Member:
    """The member that ``describe`` wrote down."""
    params: Strict = family.options(described["name"]).model_validate(described["params"])
    return Member(described["name"], params)


def images(
    model: DualEncoder,
    source: np.ndarray | PixelSource,
    rows: np.ndarray,
    device: torch.device,
    batch: int = 1024,
    shown: str = "",
) -> Tensor:
    """(len(rows), dim) or (len(rows), R, dim) float32 of the feature rows given, from the features or from the images
    behind them. shown: what a progress line calls the work; none without."""
    share = Share.of(len(rows))
    rows = share.take(rows)
    size = batch if isinstance(source, np.ndarray) else min(batch, source.batch_size)

    def encoded(work: Iterable[np.ndarray]) -> Iterator[Tensor]:
        given = map(partial(image_inputs, source), work) if isinstance(source, np.ndarray) else source.tested(work)
        for chosen in given:
            yield model.img(chosen.to(device))

    parts = _parts(np.arange(len(rows)), size)
    with evaluating(model):
        found = workers.each(encoded, _parts(rows, size), _cost(source, size))
        return share.gather(_placed(_told(found, parts, shown), parts))


def captions(
    model: DualEncoder, texts: Texts, places: np.ndarray, device: torch.device, batch: int = 256, shown: str = ""
) -> Tensor | Words:
    """(len(places), dim) float32 vectors of the captions given, or their words; batches hold captions of like length.
    shown: as of ``images``."""
    lengths = text_lengths(texts, places)
    order, share = processes.dealt(torch.from_numpy(np.argsort(lengths, kind="stable")))
    own = share.take(order).numpy()
    # Where each of these stands in what is given back, or in what this process has of it.
    parts = _parts(own, batch)
    placed = parts if len(own) == len(places) else _parts(np.arange(len(own)), batch)

    def read(inputs: tuple[Tensor, ...]) -> Tensor | Words:
        return model.captions(inputs, device)

    with evaluating(model):
        # Vectors or words, as the model has them.
        encoded: Iterator[Any] = workers.each(partial(map, read), (text_inputs(texts, places[part]) for part in parts))
        if not model.fragments:
            vectors = _placed(_told(encoded, parts, shown), placed)
            return vectors if placed is parts else share.gather(vectors)[order.argsort()]
        words = Words.cat([one.float().to(torch.device("cpu")) for one in encoded])
        if placed is not parts:
            said = torch.from_numpy(lengths)[order]
            words = Words(share.of_parts(said).gather(words.vectors), said)
        return words.take(order.argsort())


def _cost(source: np.ndarray | PixelSource, size: int) -> int:
    """Bytes of a batch as it is read; pixels are told by nobody."""
    return 4 * size * int(np.prod(source.shape[1:])) if isinstance(source, np.ndarray) else 0


@contextlib.contextmanager
def evaluating(model: DualEncoder) -> Iterator[None]:
    """Without gradients and as in evaluation; afterwards the model is in the mode it was."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(was_training)


def _parts(order: np.ndarray, size: int) -> list[np.ndarray]:
    return [order[start : start + size] for start in range(0, len(order), size)]


def _told(encoded: Iterable[Tensor], parts: list[np.ndarray], shown: str) -> Iterable[Tensor]:
    return track(encoded, len(parts), shown) if shown else encoded


def _placed(encoded: Iterable[Tensor], parts: list[np.ndarray]) -> Tensor:
    """parts: places of what each of ``encoded`` holds."""
    whole = torch.empty((0, 0))
    for part, chosen in zip(parts, encoded, strict=True):
        if not len(whole):
            whole = torch.empty((sum(map(len, parts)), *chosen.shape[1:]))
        whole[torch.from_numpy(part)] = chosen.float().cpu()
    return whole
