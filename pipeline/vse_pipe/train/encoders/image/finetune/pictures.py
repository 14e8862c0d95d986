"""The image files behind the rows of a feature file, for encoders that hold the network itself."""

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vse_pipe.artifacts import images as artefact
from vse_pipe.artifacts.features import Features
from vse_pipe.core.errors import InputError, IntegrityError, UnreadableImage
from vse_pipe.core.files import sha256
from vse_pipe.core.seeds import generator
from vse_pipe.extract.engine.reader import batches
from vse_pipe.pictures import images
from vse_pipe.pictures.images import Item
from vse_pipe.pictures.transforms import Transform
from vse_pipe.project import paths
from vse_pipe.train.encoders.image.finetune import Params
from vse_pipe.train.encoders.image.finetune.crops import mirrored, random_crop
from vse_pipe.train.encoders.image.finetune.network import transform

_AHEAD_OF_A_GPU = 4


@dataclass(frozen=True)
class Drawing:
    """What training sees of an image. crop: ``random``, or ``center``, the extraction's own; flip: a coin for the mirror image."""

    crop: str
    flip: bool
    seed: int

    @classmethod
    def of(cls, params: Params, seed: int) -> "Drawing":
        return cls(params.crop, params.flip, seed)


@dataclass(frozen=True)
class _Shown(Item):
    """An image as one pair of training shows it."""

    pair: int = -1


@dataclass(frozen=True)
class Pictures:
    """items: by row of the feature file. batch_size: images at a time where nothing is trained. ahead: batches that are
    read while the device works on one; on a CPU none, readers and network need the same cores.
    """

    root: Path
    items: dict[int, Item]
    transform: Transform
    drawing: Drawing
    batch_size: int
    ahead: int

    @classmethod
    def of(
        cls, dataset: str, features: Features, backbone: dict, device: torch.device, drawing: Drawing | None = None
    ) -> "Pictures":
        """Those of a data set that have features. backbone: as ``PixelNetwork.described`` puts it, whose transform and batch
        size hold; drawing: None where nothing is trained. Raises IntegrityError when the images are not the described.
        """
        path = paths.prepared(dataset) / artefact.NAME
        if sha256(path) != backbone["images_sha256"]:
            raise IntegrityError(
                f"{path} lists other images than the features were made from; run `vse-pipe extract` and train again"
            )
        table = artefact.read(path.parent)
        ids = table["image_id"].to_numpy()
        places = np.flatnonzero(np.isin(ids, features.image_ids))
        rows = features.rows_of(ids[places]).tolist()
        columns = [table[name].take(places).to_pylist() for name in ("image_id", "file", "sha256")]
        wheres = [f"{path} row {place}" for place in places.tolist()]
        items = [Item(*values) for values in zip(*columns, wheres, strict=True)]
        return cls(
            root=artefact.root(table),
            items=dict(zip(rows, items, strict=True)),
            transform=transform(backbone),
            drawing=drawing or Drawing("center", False, 0),
            batch_size=backbone["params"]["batch_size"],
            ahead=_AHEAD_OF_A_GPU if device.type == "cuda" else 0,
        )

    def tested(self, work: Iterable[np.ndarray]) -> Iterator[Tensor]:
        """For each array of rows uint8 (rows, crops, S, S, 3): what ``extract`` showed the network.

        Raises InputError (a file that cannot be read, is not inside its root or is no image) and IntegrityError (not the
        file that ``prepare`` saw).
        """
        items = ([self.items[row] for row in rows.tolist()] for rows in work)
        return self._read(items, self._as_extracted)

    def drawn(self, rows: np.ndarray, work: Iterable[np.ndarray], epoch: int) -> Generator[Tensor, None, None]:
        """For each array of pairs uint8 (pairs, crops, S, S, 3): what training shows of them in ``epoch``.

        rows: of every pair. What is shown follows from (seed, epoch, pair): neither the batch a pair is in nor the order
        in which threads come by matters, so a resumed run sees what an undisturbed one does. Raises as ``tested``.
        """
        items: Iterable[list[Item]] = (
            [self._shown(row, pair) for row, pair in zip(rows[pairs].tolist(), pairs.tolist(), strict=True)]
            for pairs in work
        )
        return self._read(items, partial(self._as_drawn, epoch))

    def _shown(self, row: int, pair: int) -> _Shown:
        item = self.items[row]
        return _Shown(item.image_id, item.file, item.sha256, item.where, pair)

    def _read(self, work: Iterable[list[Item]], read) -> Generator[Tensor, None, None]:
        with contextlib.closing(batches(work, partial(_readable, read), self.ahead)) as reading:
            for batch in reading:
                yield torch.from_numpy(batch.arrays)

    def _as_extracted(self, item: Item) -> np.ndarray:
        return images.pixels(self.root, item, self.transform)

    def _as_drawn(self, epoch: int, item: _Shown) -> np.ndarray:
        rng = generator(self.drawing.seed, "crop", epoch, item.pair)
        if self.drawing.crop == "random":
            resampling = Image.Resampling[self.transform.interpolation.upper()]
            image = images.load(self.root, item)
            pixels = random_crop(image, self.transform.image_size, resampling, rng)
        else:
            pixels = images.pixels(self.root, item, self.transform)
        return mirrored(pixels, rng) if self.drawing.flip else pixels


def _readable(read: Callable[[Item], np.ndarray], item: Item) -> np.ndarray:
    """An image that has features was readable once: here it is an error, whatever the features do about such images."""
    try:
        return read(item)
    except UnreadableImage as error:
        raise InputError(f"{error}; {item.where} names it") from error
