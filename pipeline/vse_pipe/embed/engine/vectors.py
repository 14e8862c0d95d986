"""The embeddings of a model with one vector for each image and caption: encoded and written block by block."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from torch import Tensor

from vse_pipe.artifacts import embeddings, joins
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.core import tables
from vse_pipe.core.console import say
from vse_pipe.core.errors import InputError
from vse_pipe.embed.engine.earlier import EarlierVectors, contents_of
from vse_pipe.embed.engine.inputs import BATCH, Sources, of_splits
from vse_pipe.project.params.schema import EmbedParams

# A vector as it is encoded, as Parquet keeps it until its row group is whole, and the copies in between, in float32.
_COPIES = 3 * 4


def write(
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
