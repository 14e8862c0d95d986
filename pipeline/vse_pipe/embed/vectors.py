"""What a run's images and captions are encoded from."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from vse_pipe.artifacts import embeddings, joins
from vse_pipe.artifacts.embeddings import FragmentRows, Side
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


@dataclass(frozen=True)
class Sources:
    """model: on ``device``; images, captions: the data set's tables; inputs: what the image encoder reads; texts: None where there
    are no captions."""

    model: DualEncoder
    images: pa.Table
    captions: pa.Table
    features: Features
    inputs: np.ndarray | PixelSource
    texts: Texts | None
    device: torch.device

    def seen(self, image_ids: np.ndarray, shown: str = "", even: bool = False) -> Tensor:
        """(n, dim) or (n, R, dim). shown: what a progress line calls the work; none without.

        even: the last batch is filled up, since the last bits of what an image gives may follow from how many a batch holds; they
        never follow from which.
        """
        rows = self.features.rows_of(image_ids)
        size = BATCH if isinstance(self.inputs, np.ndarray) else min(BATCH, self.inputs.batch_size)
        filled = np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % size)]) if even else rows
        return model.images(self.model, self.inputs, filled, self.device, size, shown)[: len(rows)]

    def read(self, caption_ids: np.ndarray, shown: str = "") -> Tensor | Words:
        """(n, dim), or the words of n captions. shown: as of ``seen``."""
        assert self.texts is not None
        places = self.texts.places_of(caption_ids)
        return model.captions(self.model, self.texts, places, self.device, title=shown)


def of_splits(table: pa.Table, splits: Sequence[str] | None) -> pa.Table:
    """The rows of these splits, in the table's order; all of them for None."""
    return table if splits is None else table.filter(pc.is_in(table["split"], pa.array(splits, pa.string())))


# A vector as it is encoded, as Parquet keeps it until its row group is whole, and the copies in between, in float32.
_COPIES = 3 * 4


def write_vectors(
    folder: Path,
    sources: Sources,
    dim: int,
    about: dict[str, str],
    asked: EmbedParams,
    earlier: EarlierVectors,
    run: str,
) -> list[int]:
    """Both files, and what the images show. dim: of a vector. Returns how many images and captions there are. Raises InputError
    where no picture is left."""
    seen, read = of_splits(sources.images, asked.splits), of_splits(sources.captions, asked.splits)
    if not len(seen):
        told = "left none that could be read" if asked.splits is None else f"of split {', '.join(asked.splits)}"
        raise InputError(f"embed {run}: the data set has no picture {told}; embed.splits says which are embedded")
    ids, said = seen["image_id"].to_numpy(), read["caption_id"].to_numpy()
    shown = contents_of(sources.features, ids)
    known = earlier.known(shown)
    parts = parts_of(len(seen), dim, asked.memory)
    if known.count:
        say(f"embed {run}: {known.count} of {len(ids)} pictures computed before")
    joins.write(folder, shown, earlier.made)

    def images(part: slice, told: str) -> np.ndarray:
        return known.completed(part, lambda places: sources.seen(ids[places], told, even=True))

    def captions(part: slice, told: str) -> np.ndarray:
        if not len(said):  # of a data set without any
            return np.empty((0, dim), np.float32)
        encoded = sources.read(said[part], told)
        assert isinstance(encoded, Tensor)
        return encoded.numpy()

    _write(folder / embeddings.IMAGES, seen, "image_id", parts, images, about)
    _write(folder / embeddings.CAPTIONS, read, "caption_id", parts_of(len(read), dim, asked.memory), captions, about)
    return [len(seen), len(read)]


def parts_of(count: int, dim: int, memory: int) -> list[slice]:
    """Consecutive rows: as many as a row group has, or as ``memory`` MiB hold, in whole batches."""
    at_once = min(tables.ROWS, max(1, memory * 2**20 // (_COPIES * dim * BATCH)) * BATCH)
    return [slice(start, min(start + at_once, count)) for start in range(0, max(count, 1), at_once)]


def _write(
    path: Path,
    table: pa.Table,
    key: str,
    parts: Sequence[slice],
    encode: Callable[[slice, str], np.ndarray],
    about: dict[str, str],
) -> None:
    def sides() -> Iterator[Side]:
        for number, part in enumerate(parts, start=1):
            of = f" of part {number} of {len(parts)}" if len(parts) > 1 else ""
            rows = table.slice(part.start, part.stop - part.start)
            split = rows["split"].to_numpy(zero_copy_only=False)
            vectors = encode(part, f"embedding {path.stem}, batches{of}")
            yield Side(rows[key].to_numpy(), rows["image_id"].to_numpy(), split, vectors, about)

    embeddings.write_each(path, sides(), about)


HELD_OUT = ("val", "test")
# Images or captions encoded and written at once.
_BLOCK = 1024


def write_fragments(
    folder: Path, sources: Sources, about: dict[str, str], splits: Sequence[str] | None
) -> tuple[list[int], int]:
    """Both files, and the weights of the similarity where it learns any. Returns how many images and captions there are,
    and the dimensions of a vector."""
    network = sources.model.sim.network
    if network is not None:
        weights = {name: value.cpu().contiguous() for name, value in network.state_dict().items()}
        save_tensors(folder / embeddings.WEIGHTS, weights)
        about = {**about, "weights_sha256": sha256(folder / embeddings.WEIGHTS)}
    wanted = list(dict.fromkeys(splits or HELD_OUT))  # named twice, its rows would be written twice
    shape = sources.seen(sources.images["image_id"].to_numpy()[:1]).shape
    about = {**about, "regions": str(shape[1]), "dim": str(shape[2])}
    counts = [
        embeddings.write_fragments(folder / name, _blocks(sources, name, wanted), shape[2], about)
        for name in (embeddings.IMAGES, embeddings.CAPTIONS)
    ]
    return counts, shape[2]


def _blocks(sources: Sources, name: str, splits: Sequence[str]) -> Iterator[FragmentRows]:
    """The rows of each split in the order of the data set."""
    encode: Callable[[np.ndarray], Tensor | Words] = sources.read
    whole, key = sources.captions, "caption_id"
    if name == embeddings.IMAGES:
        whole, key, encode = sources.images, "image_id", sources.seen
    work = [(split, part) for split in splits for part in _parts(of_splits(whole, [split]))]
    for split, part in track(work, len(work), f"embedding {name.removesuffix('.parquet')}"):
        ids = part[key].to_numpy()
        vectors, lengths = _flat(encode(ids))
        yield FragmentRows(split, ids, part["image_id"].to_numpy(), lengths, vectors)


def _parts(table: pa.Table) -> list[pa.Table]:
    return [table.slice(start, _BLOCK) for start in range(0, len(table), _BLOCK)]


def _flat(side: Tensor | Words) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(side, Words):
        return side.vectors.numpy(), side.lengths.numpy()
    return side.flatten(0, 1).numpy(), torch.full((len(side),), side.shape[1]).numpy()
