"""Pictures as image encoders see them, and the network behind features.

``Pictures`` reads the pictures behind rows of features: as they were extracted (``tested``), or
cropped for training (``drawn``). ``PhotoReader`` reads any other photo as the extraction would.
"""

import contextlib
import json
import math
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from vse_pipe.artifacts import images as artefact
from vse_pipe.artifacts.features import Features
from vse_pipe.core import devices
from vse_pipe.core.errors import InputError, IntegrityError, UnreadableImage, UsageError
from vse_pipe.core.seeds import generator
from vse_pipe.extract.compute import Arrays, Forward, ahead_of, batches
from vse_pipe.extract.job import Backbone
from vse_pipe.pictures import images
from vse_pipe.pictures.images import Item, Transform
from vse_pipe.project import paths
from vse_pipe.project.params.typed import FeatureSet
from vse_pipe.project.registry import BACKBONES

Box = tuple[int, int, int, int]
# Random crops: smallest share of the picture's area (VSE++), ratio of the sides, tries before the
# centred square is used.
AREA = 0.08
_RATIO, _TRIES = (3 / 4, 4 / 3), 10


@dataclass(frozen=True)
class PixelNetwork:
    """The network behind features, for encoders that hold it. module: with its weights, on the CPU;
    described: member, first weights and transform, as JSON for config.json."""

    module: nn.Module
    described: dict

    @classmethod
    def of_features(
        cls,
        name: str,
        source: FeatureSet,
        meta: dict,
        loaded: tuple[Backbone, nn.Module, dict],
    ) -> "PixelNetwork":
        """meta: meta.json of features.``name``; loaded: their backbone, the network of the
        encoders, and its own entries for config.json.

        Raises UsageError for features without a network (precomp), IntegrityError when weights or
        transform are not those of the features.
        """
        backbone, module, configuration = loaded
        if "transform" not in backbone.about:
            raise UsageError(
                "an image encoder that reads pixels needs features made from images; "
                f"features.{name} is '{source.backbone.name}'"
            )
        require_same(backbone, meta, name)
        described = {
            "name": source.backbone.name,
            "params": source.backbone.params.model_dump(mode="json"),
            **{key: backbone.about[key] for key in ("network", "weights", "transform")},
            **configuration,
        }
        return cls(module, described)


def require_same(backbone: Backbone, meta: dict, name: str) -> None:
    """Raises IntegrityError if weights, transform or another property of the backbone differs from
    ``meta``, the meta.json of features.``name``. Versions of libraries do not count."""
    about = json.loads(json.dumps(backbone.about))
    changed = [key for key, value in about.items() if same_weights(value) != same_weights(meta.get(key))]
    if changed:
        raise IntegrityError(
            f"features.{name} was made with other {' and '.join(changed)} than there are now; run `vse-pipe extract --features {name}` again"
        )


def same_weights(value: object) -> object:
    """``value``; for weights their digest and seed, without the place they came from."""
    if isinstance(value, dict) and ("sha256" in value or "seed" in value):
        return value.get("sha256"), value.get("seed")
    return value


def transform(described: dict) -> Transform:
    values = described["transform"]
    fields: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
    return Transform(**fields)


@dataclass(frozen=True)
class _PairItem(Item):
    """The image of a training pair."""

    pair: int = -1


@dataclass(frozen=True)
class Pictures:
    """items: by row of the feature file. batch_size: images at a time outside of training. ahead:
    batches to read while the device works. params, seed: ``crop``, ``flip`` and ``area`` of the
    image encoder and the seed of the run, for ``drawn``."""

    root: Path
    items: dict[int, _PairItem]
    transform: Transform
    batch_size: int
    ahead: int
    params: Any = None
    seed: int = 0

    @classmethod
    def join(
        cls, dataset: str, features: Features, backbone: dict, device: torch.device, params: Any = None, seed: int = 0
    ) -> "Pictures":
        """The images of a data set that have features. backbone: ``PixelNetwork.described``."""
        path = paths.prepared(dataset) / artefact.NAME
        table = artefact.read(path.parent)
        ids = table["image_id"].to_numpy()
        places = np.flatnonzero(np.isin(ids, features.image_ids))
        columns = [table[name].take(places).to_pylist() for name in ("image_id", "file", "sha256")]
        wheres = [f"{path} row {place}" for place in places.tolist()]
        items = [_PairItem(*values) for values in zip(*columns, wheres, strict=True)]
        return cls(
            root=artefact.root(table),
            items=dict(zip(features.rows_of(ids[places]).tolist(), items, strict=True)),
            transform=transform(backbone),
            batch_size=backbone["params"]["batch_size"],
            ahead=ahead_of(device),
            params=params,
            seed=seed,
        )

    def tested(self, work: Iterable[np.ndarray]) -> Iterator[Tensor]:
        """Pixels of each array of rows, uint8 (rows, crops, S, S, 3), as in ``extract``.

        Raises InputError for a file that is unreadable, no image or outside of its root, and
        IntegrityError for a file that has changed since ``prepare``.
        """
        return self._read(([self.items[row] for row in rows.tolist()] for rows in work), self._pixels)

    def drawn(self, rows: np.ndarray, work: Iterable[np.ndarray], epoch: int) -> Generator[Tensor, None, None]:
        """Pixels of each array of pairs, uint8 (pairs, crops, S, S, 3), as training crops them in
        ``epoch``.

        rows: of every pair. A crop follows from (seed, epoch, pair) and not from batches or
        threads, so a resumed run has the same crops. Raises as ``tested``.
        """
        items = ([replace(self.items[int(rows[pair])], pair=pair) for pair in pairs.tolist()] for pairs in work)
        return self._read(items, partial(self._pixels, epoch=epoch))

    def _read(self, work: Iterable[list[Any]], read: Callable[[Any], np.ndarray]) -> Generator[Tensor, None, None]:
        with contextlib.closing(batches(work, read, self.ahead)) as reading:
            for batch in reading:
                yield torch.from_numpy(batch.arrays)

    def _pixels(self, item: _PairItem, epoch: int | None = None) -> np.ndarray:
        """epoch: of training; None: as extracted."""
        rng = None if epoch is None else generator(self.seed, "crop", epoch, item.pair)
        try:
            if rng is None or self.params.crop != "random":
                pixels = images.pixels(self.root, item, self.transform)
            else:
                resampling = Image.Resampling[self.transform.interpolation.upper()]
                area = getattr(self.params, "area", AREA)
                pixels = random_crop(images.load(self.root, item), self.transform.image_size, resampling, rng, area)
        except UnreadableImage as error:  # always an error here, because it has features
            raise InputError(f"{error}; {item.where} names it") from error
        is_mirrored = rng is not None and self.params.flip and rng.random() < 0.5
        return pixels[:, :, ::-1] if is_mirrored else pixels


@dataclass(frozen=True)
class PhotoReader:
    """Photos as inputs of an image encoder. read: (folder, item) to an array or several;
    batch_size: as in ``extract``; inputs: of the encoder, from what was read."""

    read: Callable[[Path, Item], Arrays]
    batch_size: int
    inputs: Callable[[Arrays], np.ndarray]

    @classmethod
    def of_pixels(cls, backbone: dict) -> "PhotoReader":
        """backbone: as of ``Pictures.join``."""
        read = partial(images.pixels, transform=transform(backbone))
        return cls(read, backbone["params"]["batch_size"], np.asarray)

    @classmethod
    def of_features(cls, meta: dict, params: dict, name: str, device: torch.device) -> "PhotoReader":
        """meta: meta.json of features.``name``; params: those in it, with the paths to use. Raises
        IntegrityError when weights or transform are not those of the features."""
        options = BACKBONES.options(meta["backbone"]).model_validate(params)
        seed = (meta.get("weights") or {}).get("seed", 1)
        backbone = BACKBONES.load(meta["backbone"]).build(options, seed)
        require_same(backbone, meta, name)
        forward = Forward(backbone.module.to(device), options, device)

        def computed(arrays: Arrays) -> np.ndarray:
            with devices.inference(device, meta.get("precision", "float32")):
                return forward(arrays).features

        return cls(backbone.read, options.batch_size, computed)


def random_box(width: int, height: int, rng: np.random.Generator, area: float = AREA) -> Box:
    """(left, top, right, bottom) in pixels: ``area`` to 100 % of the image's area, 3:4 to 4:3, at
    any place.

    As torchvision's RandomResizedCrop, which the VSE++ code calls, but after ten tries it is the
    largest centred square.
    """
    for _ in range(_TRIES):
        size = width * height * rng.uniform(area, 1.0)
        ratio = math.exp(rng.uniform(math.log(_RATIO[0]), math.log(_RATIO[1])))
        w, h = round(math.sqrt(size * ratio)), round(math.sqrt(size / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(rng.integers(width - w + 1)), int(rng.integers(height - h + 1))
            return left, top, left + w, top + h
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def random_crop(
    image: Image.Image,
    size: int,
    resampling: Image.Resampling,
    rng: np.random.Generator,
    area: float = AREA,
) -> np.ndarray:
    """uint8 (1, size, size, 3) of a random box of an RGB image; area: its smallest share.

    It is cut before it is scaled, as in torchvision; scaling with ``box=`` would use pixels outside
    of the box.
    """
    return np.asarray(image.crop(random_box(*image.size, rng, area)).resize((size, size), resampling))[None]
