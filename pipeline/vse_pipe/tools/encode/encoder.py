"""A trained run's encoders for captions and pictures of no data set: the vectors that ``embed`` gives of the same content."""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32

from vse_pipe.artifacts import model_files
from vse_pipe.core import devices
from vse_pipe.core.console import track
from vse_pipe.core.errors import UsageError
from vse_pipe.embed.earlier import Fitted, fitted
from vse_pipe.embed.stage import about_model
from vse_pipe.embed.vectors import BATCH, parts_of
from vse_pipe.extract.compute import Arrays, Read, batches
from vse_pipe.extract.networks import Failure
from vse_pipe.pictures import images
from vse_pipe.pictures.images import Item
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import BACKBONES, SIMILARITIES
from vse_pipe.tools.search.encoders import PhotoEncoder
from vse_pipe.train import model as train_model
from vse_pipe.train import restore
from vse_pipe.train.encoders.image import finetune
from vse_pipe.train.model import DualEncoder

# Batches that are read while a GPU works on one; on a CPU readers and network need the same cores.
_AHEAD = 4


@dataclass(frozen=True)
class EncodedPictures:
    """Consecutive pictures. places: int64, of those that could be read; vectors: a row each; failures: the others, ``image_id`` is
    their place."""

    places: np.ndarray
    vectors: Float32[np.ndarray, "pictures dim"]
    failures: list[Failure]


@dataclass(frozen=True)
class Encoder:
    """run: a name under runs; config: of its model, of which nothing is loaded before it is needed."""

    params: Params
    run: str
    config: dict
    device: torch.device

    @classmethod
    def open(cls, params: Params, run: str, device: torch.device) -> "Encoder":
        """Raises InputError for a run that is not trained, UsageError for one that gives a picture more than one vector."""
        config = model_files.read_config(paths.trained(run), run)
        similarity = config["similarity"]["name"]
        if SIMILARITIES.traits(similarity).fragments:
            raise UsageError(
                f"run '{run}' compares regions with words ({similarity}): a picture or a caption of it is no single vector; "
                f"`vse-pipe embed --run {run} --dataset NAME` embeds further data sets"
            )
        if "peer_sha256" in config:
            raise UsageError(f"run '{run}' is the mean of two networks; encode works for runs of one")
        return cls(params, run, config, device)

    @property
    def about(self) -> dict[str, str]:
        """What the footer of a file of these vectors says: run, digest of the model, similarity."""
        return about_model(self.run, self.config)

    @property
    def dim(self) -> int:
        return self.config["embed_size"]

    def unknown_words(self, sentences: Iterable[str]) -> float | None:
        """As ``Fitted.unknown_share``."""
        return self._read.unknown_share(sentences)

    def captions(self, sentences: Iterable[str], count: int) -> Iterator[Float32[np.ndarray, "captions dim"]]:
        """Consecutive blocks of rows, one a sentence. sentences: ``count`` of them, which may be more than memory holds.

        The same sentences in the same order have the vectors of ``embed`` to the last bit; one among others differs by rounding, since a
        batch is padded to its longest caption. Raises InputError and IntegrityError as ``fitted``.
        """
        with tempfile.TemporaryDirectory(prefix="vse-pipe-") as folder:
            words = self._read.treated(Path(folder) / self._read.name, np.arange(count), sentences)
            for part in parts_of(count, self.dim, self.params.embed.memory):
                places = np.arange(part.start, part.stop)
                said = train_model.captions(self._model, words, places, self.device, shown="encoding captions, batches")
                assert isinstance(said, torch.Tensor)
                yield said.numpy()

    def images(self, folder: Path, files: Sequence[str]) -> Iterator[EncodedPictures]:
        """Blocks of the pictures ``files`` below ``folder``, to the last bit as ``embed`` has them on the same machine. Raises UsageError
        where no network here makes the run's features, MissingResource and IntegrityError where its weights are others."""
        read, size = self._reader(folder)
        items = [Item(place, file, "", str(folder / file)) for place, file in enumerate(files)]
        work = [items[start : start + size] for start in range(0, len(items), size)]
        rows = size if self._photo_encoder.backbone is None else BATCH
        found: list[np.ndarray] = []
        places: list[int] = []
        failures: list[Failure] = []
        with contextlib.closing(batches(work, read, _AHEAD if self.device.type == "cuda" else 0)) as reading:
            for batch in track(reading, len(work), "encoding images, batches"):
                failures += batch.failures
                places += [item.image_id for item in batch.items]
                found += [] if batch.arrays is None else [self._features(batch.arrays)]
                if len(places) >= rows:
                    yield self._block(found, rows, places, failures)
                    found, places, failures = [], [], []
        if places or failures:
            yield self._block(found, rows, places, failures)

    @property
    def _model(self) -> DualEncoder:
        return self._loaded[0]

    @cached_property
    def _loaded(self) -> tuple[DualEncoder, model_files.ModelFiles]:
        model, files = restore.load(paths.trained(self.run), self.run)
        return model.to(self.device), files

    @cached_property
    def _read(self) -> Fitted:
        return fitted(self.run, self._loaded[1])

    @cached_property
    def _photo_encoder(self) -> PhotoEncoder:
        encoder = PhotoEncoder.open(self.params, self.run, self._model, self.config, self.device)
        if encoder.forward is not None:
            node = self.params.features[self.config["features"]].backbone
            encoder.forward.even = 0 if BACKBONES.traits(node.name).alone else node.params.batch_size
        return encoder

    def _reader(self, folder: Path) -> tuple[Read, int]:
        """What makes an array of a picture, and how many pictures are a batch, as ``extract`` has it."""
        if self._photo_encoder.backbone is not None:
            params = self.params.features[self.config["features"]].backbone.params
            return partial(self._photo_encoder.backbone.read, folder), params.batch_size
        described = self.config["backbone"]
        transform = finetune.transform(described)

        def pixels(item: Item) -> np.ndarray:
            return images.pixels(folder, item, transform)

        return pixels, min(BATCH, described["params"]["batch_size"])

    def _features(self, arrays: Arrays) -> np.ndarray:
        """What the image encoder reads: the network's features, or the pixels themselves."""
        if self._photo_encoder.forward is None:
            assert isinstance(arrays, np.ndarray)
            return arrays
        with devices.inference(self.device, self._photo_encoder.computing):
            return self._photo_encoder.forward(arrays).features

    def _block(self, found: list[np.ndarray], size: int, places: list[int], failures: list[Failure]) -> EncodedPictures:
        """size: rows of a batch. The last one is filled up, as the last bits follow from how many rows a batch has."""
        vectors = np.empty((0, self.dim), np.float32)
        if found:
            rows, model = np.concatenate(found), self._model
            filled = torch.from_numpy(np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % size, axis=0)]))
            inputs = filled if self._photo_encoder.backbone is None else filled.float()
            with train_model.evaluating(model):
                parts = [model.img(part.to(self.device)).float().cpu() for part in inputs.split(size)]
            vectors = torch.cat(parts)[: len(rows)].numpy()
        return EncodedPictures(np.array(places, np.int64), vectors, failures)
