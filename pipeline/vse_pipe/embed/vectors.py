"""Encode the images and captions of a run's data set, and write them as vectors or as fragments."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from vse_pipe.artifacts import embeddings, joins
from vse_pipe.artifacts.features import Features
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core import tables
from vse_pipe.core.console import say, track
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import save_tensors, sha256
from vse_pipe.embed.earlier import EarlierVectors, contents_of
from vse_pipe.project.params.schema import EmbedParams
from vse_pipe.ranking.fragments import Words
from vse_pipe.train import model
from vse_pipe.train.data import PixelSource
from vse_pipe.train.model import DualEncoder

# Images in one pass.
BATCH = 1024
HELD_OUT = ("val", "test")
# Bytes of a number in the encoded vector, in Parquet's unfinished row group, and in the copies in between.
_COPIES = 3 * 4
# Images or captions whose fragments are encoded and written at a time.
_BLOCK = 1024


@dataclass(frozen=True)
class Sources:
    """model: on ``device``; images, captions: the tables of the data set; inputs: of the image encoder; texts: None
    without captions."""

    model: DualEncoder
    images: pa.Table
    captions: pa.Table
    features: Features
    inputs: np.ndarray | PixelSource
    texts: Texts | None
    device: torch.device

    def encode_images(self, image_ids: np.ndarray, label: str = "", even: bool = False) -> Tensor:
        """(n, dim) or (n, R, dim). label: the text of a progress line, none if empty.

        even: fill up the last batch. The last bits of a vector may depend on the size of its batch, never on the other
        images in it."""
        rows = self.features.rows_of(image_ids)
        size = BATCH if isinstance(self.inputs, np.ndarray) else min(BATCH, self.inputs.batch_size)
        filled = np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % size)]) if even else rows
        return model.images(self.model, self.inputs, filled, self.device, size, label)[: len(rows)]

    def encode_captions(self, caption_ids: np.ndarray, label: str = "") -> Tensor | Words:
        """(n, dim), or the words of n captions. label: as in ``encode_images``."""
        assert self.texts is not None
        places = self.texts.places_of(caption_ids)
        return model.captions(self.model, self.texts, places, self.device, title=label)


def write_vectors(
    folder: Path,
    sources: Sources,
    dim: int,
    about: dict[str, str],
    params: EmbedParams,
    earlier: EarlierVectors,
    run: str,
) -> list[int]:
    """Write both files and the contents of the images; returns the numbers of images and captions. dim: of a vector.
    Raises InputError if no picture is left."""
    images, captions = _of_splits(sources.images, params.splits), _of_splits(sources.captions, params.splits)
    if not len(images):
        lack = "left none that could be read" if params.splits is None else f"of split {', '.join(params.splits)}"
        raise InputError(f"embed {run}: the data set has no picture {lack}; embed.splits says which are embedded")
    image_ids, caption_ids = images["image_id"].to_numpy(), captions["caption_id"].to_numpy()
    contents = contents_of(sources.features, image_ids)
    cached = earlier.cached(contents)
    if cached.count:
        say(f"embed {run}: {cached.count} of {len(image_ids)} pictures computed before")
    joins.write(folder, contents, earlier.digest)

    def encode_images(part: slice, label: str) -> np.ndarray:
        return cached.completed(part, lambda places: sources.encode_images(image_ids[places], label, even=True))

    def encode_captions(part: slice, label: str) -> np.ndarray:
        if not len(caption_ids):
            return np.empty((0, dim), np.float32)
        encoded = sources.encode_captions(caption_ids[part], label)
        assert isinstance(encoded, Tensor)
        return encoded.numpy()

    parts = [parts_of(len(table), dim, params.memory) for table in (images, captions)]
    _write(folder / embeddings.IMAGES, images, "image_id", parts[0], encode_images, about)
    _write(folder / embeddings.CAPTIONS, captions, "caption_id", parts[1], encode_captions, about)
    return [len(images), len(captions)]


def _of_splits(table: pa.Table, splits: Sequence[str] | None) -> pa.Table:
    return table if splits is None else table.filter(pc.is_in(table["split"], pa.array(splits, pa.string())))


def parts_of(count: int, dim: int, memory: int) -> list[slice]:
    """Consecutive rows in whole batches, each part at most a row group and ``memory`` MiB."""
    size = min(tables.ROWS, max(1, memory * 2**20 // (_COPIES * dim * BATCH)) * BATCH)
    return [slice(start, min(start + size, count)) for start in range(0, max(count, 1), size)]


def _write(
    path: Path,
    table: pa.Table,
    key: str,
    parts: Sequence[slice],
    encode: Callable[[slice, str], np.ndarray],
    about: dict[str, str],
) -> None:
    def sides() -> Iterator[embeddings.Side]:
        for number, part in enumerate(parts, start=1):
            suffix = f" of part {number} of {len(parts)}" if len(parts) > 1 else ""
            rows = table.slice(part.start, part.stop - part.start)
            split = rows["split"].to_numpy(zero_copy_only=False)
            vectors = encode(part, f"embedding {path.stem}, batches{suffix}")
            yield embeddings.Side(rows[key].to_numpy(), rows["image_id"].to_numpy(), split, vectors, about)

    embeddings.write_each(path, sides(), about)


def write_fragments(
    folder: Path, sources: Sources, about: dict[str, str], splits: Sequence[str] | None
) -> tuple[list[int], int]:
    """Write both files, and the weights of a similarity that learns. Returns the numbers of images and captions, and
    the dimensions of a vector."""
    network = sources.model.sim.network
    if network is not None:
        weights = {name: value.cpu().contiguous() for name, value in network.state_dict().items()}
        save_tensors(folder / embeddings.WEIGHTS, weights)
        about = {**about, "weights_sha256": sha256(folder / embeddings.WEIGHTS)}
    distinct = list(dict.fromkeys(splits or HELD_OUT))
    shape = sources.encode_images(sources.images["image_id"].to_numpy()[:1]).shape
    about = {**about, "regions": str(shape[1]), "dim": str(shape[2])}
    counts = [
        embeddings.write_fragments(folder / name, _blocks(sources, name, distinct), shape[2], about)
        for name in (embeddings.IMAGES, embeddings.CAPTIONS)
    ]
    return counts, shape[2]


def _blocks(sources: Sources, name: str, splits: Sequence[str]) -> Iterator[embeddings.FragmentRows]:
    encode: Callable[[np.ndarray], Tensor | Words] = sources.encode_captions
    table, key = sources.captions, "caption_id"
    if name == embeddings.IMAGES:
        table, key, encode = sources.images, "image_id", sources.encode_images
    parts = [(split, _of_splits(table, [split])) for split in splits]
    work = [(split, rows.slice(start, _BLOCK)) for split, rows in parts for start in range(0, len(rows), _BLOCK)]
    for split, rows in track(work, len(work), f"embedding {name.removesuffix('.parquet')}"):
        ids = rows[key].to_numpy()
        vectors, lengths = _flat(encode(ids))
        yield embeddings.FragmentRows(split, ids, rows["image_id"].to_numpy(), lengths, vectors)


def _flat(side: Tensor | Words) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(side, Words):
        return side.vectors.numpy(), side.lengths.numpy()
    return side.flatten(0, 1).numpy(), torch.full((len(side),), side.shape[1]).numpy()
