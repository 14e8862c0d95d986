"""Vectors as another program may have written them: ids neither dense nor sorted, captions in no order."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vse_pipe.evaluate.rank import VectorSets, rank_vectors, read
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking.vectors import Vectors


@dataclass(frozen=True)
class Files:
    """What options of the command line name."""

    images: Path
    captions: Path
    image_ids: Path | None = None
    caption_ids: Path | None = None
    caption_images: Path | None = None
    bank_images: Path | None = None
    bank_captions: Path | None = None
    val_images: Path | None = None
    val_captions: Path | None = None
    similarity: str = "cosine"
    qrels: str | None = None

    def sources(self, params: EvaluateParams | None = None) -> VectorSets:
        ids = {"image_ids": self.image_ids, "caption_ids": self.caption_ids, "caption_images": self.caption_images}
        bank, val = (self.bank_images, self.bank_captions), (self.val_images, self.val_captions)
        return read(params or EvaluateParams(), self.similarity, self.images, self.captions, bank, val, **ids)

    def vectors(self, **options: object) -> Vectors:
        ids = {"image_ids": self.image_ids, "caption_ids": self.caption_ids, "caption_images": self.caption_images}
        return Vectors.of_files(self.images, self.captions, self.similarity, **ids, **options)

    def ranked(self, inferences: list[str], params: EvaluateParams, options=None, out: Path | None = None) -> dict:
        """The metrics by criterion."""
        sources = self.sources(params)
        return rank_vectors(sources, inferences, params, options or {}, "cpu", out, 1, self.qrels)


@dataclass(frozen=True)
class Sample:
    image_ids: np.ndarray
    images: np.ndarray
    caption_ids: np.ndarray
    owners: np.ndarray
    captions: np.ndarray

    def but(self, **changes: np.ndarray) -> "Sample":
        return replace(self, **changes)

    def cosines(self) -> np.ndarray:
        """float64 (images, captions)."""
        one, other = (
            side.astype(np.float64) / np.linalg.norm(side.astype(np.float64), axis=1, keepdims=True)
            for side in (self.images, self.captions)
        )
        return one @ other.T


def sample(images: int = 24, dim: int = 8, noise: float = 1.5, seed: int = 0, first: int = 5) -> Sample:
    """Image i has 1 + i mod 4 captions near it; vectors of any length. first: the smallest image_id."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(images).astype(np.int64) * 3 + first
    vectors = rng.standard_normal((images, dim)) * rng.uniform(0.5, 4, (images, 1))
    rows = rng.permutation(np.repeat(np.arange(images), 1 + np.arange(images) % 4))
    texts = vectors[rows] + noise * rng.standard_normal((len(rows), dim))
    caption_ids = np.arange(len(rows), dtype=np.int64)[::-1] + 1000 * first
    return Sample(ids, vectors.astype(np.float32), caption_ids, ids[rows], texts.astype(np.float32))


def write(one: Sample, folder: Path, kind: pa.DataType | None = None, prefix: str = "") -> Files:
    """Parquet; kind: of the embedding column, fixed-size lists of float32 without it."""
    kind = kind or pa.list_(pa.float32(), one.images.shape[1])
    images = {"image_id": one.image_ids, "embedding": column(one.images, kind), "note": ["x"] * len(one.images)}
    captions = {"caption_id": one.caption_ids, "image_id": one.owners, "embedding": column(one.captions, kind)}
    pq.write_table(pa.table(images), folder / f"{prefix}a.parquet")
    pq.write_table(pa.table(captions), folder / f"{prefix}b.parquet", write_page_checksum=True)
    return Files(folder / f"{prefix}a.parquet", folder / f"{prefix}b.parquet")


def column(vectors: np.ndarray, kind: pa.DataType) -> pa.Array:
    return pa.array(list(vectors.astype(kind.value_type.to_pandas_dtype())), kind)


def write_npy(one: Sample, folder: Path, dtype: type = np.float32) -> Files:
    for name, array in [("a", one.images.astype(dtype)), ("b", one.captions.astype(dtype))]:
        np.save(folder / f"{name}.npy", array)
    np.save(folder / "ids.npy", one.image_ids)
    (folder / "captions.txt").write_text("".join(f"{value}\n" for value in one.caption_ids))
    np.save(folder / "owners.npy", one.owners)
    names = ("a.npy", "b.npy", "ids.npy", "captions.txt", "owners.npy")
    return Files(*(folder / name for name in names))
