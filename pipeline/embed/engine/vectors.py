"""The embeddings of a model with one vector for each image and caption."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from torch import Tensor

from pipeline.artifacts import contents, embeddings
from pipeline.artifacts.embeddings import Side
from pipeline.core.console import say
from pipeline.core.errors import InputError
from pipeline.embed.engine.earlier import EarlierVectors, contents_of
from pipeline.embed.engine.inputs import Sources, of_splits


def write(
    folder: Path,
    sources: Sources,
    about: dict[str, str],
    splits: Sequence[str] | None,
    earlier: EarlierVectors,
    run: str,
) -> tuple[list[int], int]:
    """Both files, and what the images show. Returns how many images and captions there are, and the dimensions of a vector. Raises
    InputError where no picture is left."""
    seen, read = of_splits(sources.images, splits), of_splits(sources.captions, splits)
    if not len(seen):
        told = "left none that could be read" if splits is None else f"of split {', '.join(splits)}"
        raise InputError(f"embed {run}: the data set has no picture {told}; embed.splits says which are embedded")
    ids = seen["image_id"].to_numpy()
    shown = contents_of(sources.features, ids)
    images, before = earlier.completed(
        shown, lambda places: sources.seen(ids[places], _told(embeddings.IMAGES), even=True)
    )
    if before:
        say(f"embed {run}: {before} of {len(ids)} pictures computed before")
    contents.write(folder, shown, earlier.made)
    captions = np.empty((0, images.shape[1]), np.float32)  # of a data set without any
    if len(read):
        encoded = sources.read(read["caption_id"].to_numpy(), _told(embeddings.CAPTIONS))
        assert isinstance(encoded, Tensor)
        captions = encoded.numpy()
    _write(folder / embeddings.IMAGES, seen, "image_id", images, about)
    _write(folder / embeddings.CAPTIONS, read, "caption_id", captions, about)
    return [len(seen), len(read)], images.shape[1]


def _told(name: str) -> str:
    return f"embedding {name.removesuffix('.parquet')}, batches"


def _write(path: Path, table: pa.Table, key: str, vectors: np.ndarray, about: dict[str, str]) -> None:
    split = table["split"].to_numpy(zero_copy_only=False)
    embeddings.write(path, Side(table[key].to_numpy(), table["image_id"].to_numpy(), split, vectors, about))
