"""The embeddings of a model that compares regions with words: written block by block, never whole in memory."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from vse_pipe.artifacts import embeddings
from vse_pipe.artifacts.embeddings import FragmentRows
from vse_pipe.core.console import track
from vse_pipe.core.files import save_tensors, sha256
from vse_pipe.embed.engine.inputs import Sources, of_splits
from vse_pipe.ranking.fragments import Words

HELD_OUT = ("val", "test")
# Images or captions encoded and written at once.
_BLOCK = 1024


def write(folder: Path, sources: Sources, about: dict[str, str], splits: Sequence[str] | None) -> tuple[list[int], int]:
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
