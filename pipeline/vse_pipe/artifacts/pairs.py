"""data/inject/<dataset>/<noise>/pairs.parquet: the image that each caption is shown with, and the
truth.

data/inject/<dataset>/<teacher>/teachers.json: the teachers of a run, beside pairs.parquet.

A list of entries with ``run``, ``folder`` (of its vectors) and ``weight`` (only proportions count).

data/train/<run>/rematching.json: how a scheme split matched from mismatched pairs.

A list with an entry for each epoch that split:

- ``epoch`` (from 1); ``matched``, the number of pairs taken for matched;
- ``by``: what the histogram calls matched, ``truth`` where inject knows it, else ``split``;
- ``cost``: the histogram of pairs' own transport costs; the last bin takes all above it;
- ``alignment``: number ``rows`` and sorted ``mean`` of the refined alignments of ``transported``
  images (more than half of their mass moved) and ``untransported`` ones.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from vse_pipe.core import arrays, tables, weights
from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.core.tables import field

NAME, WEIGHT = "pairs.parquet", "weight"
TEACHER, REMATCHING = "teachers.json", "rematching.json"
SCHEMA = tables.schema(
    "pairs 2",
    field("caption_id", pa.int64(), "unique"),
    field("image_id", pa.int64(), "the image it is shown with"),
    field(
        "true_image_id",
        pa.int64(),
        "the image it describes; null for a train pair whose truth is unknown",
        nullable=True,
    ),
    field("mismatched", pa.bool_(), "image_id differs from true_image_id; null where that is unknown", nullable=True),
    field("split", pa.string(), "train, val or test; only train pairs are ever mismatched"),
)
# The last column is there only where a protocol writes it.
WEIGHTED_SCHEMA = tables.schema(
    "pairs 2",
    *SCHEMA,
    field("weight", pa.float32(), "trust in a train pair: 0 leaves it out of training, 1 is a usual pair"),
)


read = tables.Artefact(NAME, SCHEMA).read


def write(folder: Path, table: pa.Table, metadata: dict[str, str] | None = None) -> None:
    """With the column ``weight``, if any. Raises InputError for repeated ids."""
    schema = WEIGHTED_SCHEMA if WEIGHT in table.schema.names else SCHEMA
    tables.Artefact(NAME, schema, "caption_id").write(folder, table, metadata)


def read_noise_index(path: Path, digest: str, n_images: int, n_captions: int) -> np.ndarray:
    """int64 (n_images,) or (n_captions,): positions among the train images, 0 to n_images - 1.

    digest: sha256 of the file, hex. An index per image must be a permutation, as in RCL and DECL
    (some images keep their place); an index per caption may repeat images. Raises MissingResource
    without the file, IntegrityError for another digest, InputError for a file that is no such
    index.
    """
    if not path.is_file():
        raise MissingResource(f"{path} does not exist; put the index file there or correct `path`")
    weights.check(path, digest)
    index = np.array(arrays.open_npy(path, InputError))
    is_index = index.ndim == 1 and index.dtype.kind in "iu" and len(index) in (n_images, n_captions)
    if is_index and len(index) == n_images:
        is_index = len(np.unique(index)) == n_images
    if not is_index or index.min() < 0 or index.max() >= n_images:
        raise InputError(
            f"{path}: {index.dtype} {index.shape} is no index; expected a position, 0 to {n_images - 1}, "
            f"for each of {n_images} train images, each once, or of {n_captions} train captions"
        )
    return index.astype(np.int64)
