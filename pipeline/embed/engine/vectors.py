"""The embeddings of a model with one vector for each image and caption."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from pipeline.artifacts import embeddings
from pipeline.artifacts.embeddings import Side
from pipeline.embed.engine.inputs import Sources, of_splits


def write(folder: Path, sources: Sources, about: dict[str, str], splits: Sequence[str] | None) -> tuple[list[int], int]:
    """Both files. Returns how many images and captions there are, and the dimensions of a vector."""
    counts: list[int] = []
    dim = 0
    sides = [
        (embeddings.IMAGES, sources.images, "image_id", sources.seen),
        (embeddings.CAPTIONS, sources.captions, "caption_id", sources.read),
    ]
    for name, whole, key, encode in sides:
        table = of_splits(whole, splits)
        ids, image_ids = table[key].to_numpy(), table["image_id"].to_numpy()
        if len(ids):
            encoded = encode(ids, f"embedding {name.removesuffix('.parquet')}, batches")
            assert isinstance(encoded, Tensor)
            vectors = encoded.numpy()
            dim = vectors.shape[1]
        else:  # of a data set without captions; the images come first
            vectors = np.empty((0, dim), np.float32)
        split = table["split"].to_numpy(zero_copy_only=False)
        embeddings.write(folder / name, Side(ids, image_ids, split, vectors, about))
        counts.append(len(ids))
    return counts, dim
