"""The pairs of an audit without a run: vectors of a data set or of files."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from vse_pipe.artifacts import features, identity, pairs, texts
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.audit import evidence
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.extract.text_methods import tokenize
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.rows import require_distinct
from vse_pipe.ranking.vectors import NO_IMAGE, Vectors


@dataclass(frozen=True)
class JudgedPairs:
    """images: each with a pair, by rising id; captions: with the image that each is shown with;
    texts: of the captions. verdicts: 1 for a pair that is known to be matched, -1 for a dropped
    one, which is evidence and no more, else 0; mismatched: None where it is unknown; joint: images
    and captions lie in one space."""

    images: Side
    captions: Side
    texts: pa.Array
    verdicts: Int[ndarray, " pairs"]
    mismatched: Bool[ndarray, " pairs"] | None
    joint: bool = False

    def pool(self, seed: int) -> evidence.PairPool:
        owners = np.searchsorted(self.images.ids, self.captions.image_ids)
        vectors = self.images.vectors, self.captions.vectors
        return evidence.PairPool.of(*vectors, owners, joint=self.joint, seed=seed, verdicts=self.verdicts)


def _require_images(subject: str, count: int) -> None:
    """Raises InputError for too few images. subject: a plural, begins the message."""
    if count < evidence.FEWEST_IMAGES:
        number = "one image" if count == 1 else f"{count} images"
        raise InputError(f"{subject} show {number}; an audit compares {evidence.FEWEST_IMAGES} or more")


def of_vectors(vectors: Vectors) -> JudgedPairs:
    """Raises InputError for a caption without its image, and for too few images."""
    images, captions, where = vectors.images, vectors.captions, vectors.where
    assert isinstance(images, Side)
    assert isinstance(captions, Side)
    if (captions.image_ids == NO_IMAGE).all():
        raise InputError(f"{where[1]}: nothing says which caption belongs to which image; give --caption-images")
    if len(absent := np.setdiff1d(captions.image_ids, images.ids)):
        names = vectors.label("image_id", absent)
        raise InputError(f"{where[1]}: {len(absent)} images of captions are not in {where[0]}: {names}")
    ids, owners = np.unique(captions.image_ids, return_inverse=True)
    _require_images(f"{where[1]}: the captions", len(ids))
    if not np.array_equal(ids, images.ids):
        rows = pd.Index(images.ids).get_indexer(ids)
        images = Side(ids, ids, images.splits[rows], images.vectors[rows], images.about)
    require_distinct(where[0], torch.from_numpy(images.vectors), owners)
    texts = id_texts(vectors, "caption_id", captions.ids)
    return JudgedPairs(images, captions, texts, np.zeros(len(captions.ids), np.int8), None, joint=True)


def id_texts(vectors: Vectors, key: str, ids: ndarray) -> pa.Array:
    """Ids as text: those of the files, or the numbers."""
    texts = None if vectors.names is None else vectors.names.texts(key, ids)
    return pa.array(ids).cast(pa.string()) if texts is None else texts


def of_dataset(
    params: Params,
    dataset: str,
    noise: str | None,
    array: features.Features,
    of_texts: str | None,
    caption_table: pa.Table,
    split: str,
) -> JudgedPairs:
    """The pairs of readable images of a split. Raises InputError for too few."""
    rows, truth, verdicts = _pair_rows(params, dataset, noise, caption_table)
    mask = pc.equal(rows["split"], split).to_numpy(zero_copy_only=False)
    mask &= array.readable(rows["image_id"].to_numpy())
    rows, sentences = rows.filter(pa.array(mask)), caption_table["text"].filter(pa.array(mask))
    ids, image_ids, of_splits = (rows[name].to_numpy(zero_copy_only=False) for name in rows.column_names)
    distinct, first = np.unique(image_ids, return_index=True)
    _require_images(f"audit {dataset}: the pairs of split {split}", len(distinct))
    pictures = array.array[array.rows_of(distinct)].astype(np.float32)
    pictures = evidence.reduced(pictures.mean(axis=1) if pictures.ndim == 3 else pictures)
    words, vectors = word_vectors(sentences.to_pylist(), params.seed), _vectors(dataset, of_texts, rows)
    both = words if vectors is None else evidence.unit(np.hstack([words, evidence.reduced(vectors)]))
    sides = Side(distinct, distinct, of_splits[first], pictures, {}), Side(ids, image_ids, of_splits, both, {})
    return JudgedPairs(*sides, sentences.combine_chunks(), verdicts[mask], None if truth is None else truth[mask])


def _pair_rows(
    params: Params, dataset: str, noise: str | None, caption_table: pa.Table
) -> tuple[pa.Table, ndarray | None, ndarray]:
    """caption_id, image_id and split of the pairs; which are mismatched, None where that is
    unknown; and ``verdicts`` of ``JudgedPairs``."""
    columns = ["caption_id", "image_id", "split"]
    if noise is None:
        return caption_table.select(columns), None, np.zeros(caption_table.num_rows, np.int8)
    if params.pairs(noise).dataset != dataset:
        raise UsageError(f"--noise {noise}: of data set '{params.pairs(noise).dataset}', not of '{dataset}'")
    folder = paths.injected(dataset, noise)
    identity.require_current(folder)
    table = pairs.read(folder)
    truth = table["mismatched"].to_numpy(zero_copy_only=False)
    verdicts = np.zeros(table.num_rows, np.int8)
    if pairs.WEIGHT in table.column_names:
        verdicts[table[pairs.WEIGHT].to_numpy() == 0] = -1
        verdicts[table[pairs.KEPT].to_numpy(zero_copy_only=False)] = 1
    return table.select(columns), truth.astype(bool) if table["mismatched"].null_count == 0 else None, verdicts


def _vectors(dataset: str, name: str | None, rows: pa.Table) -> Float[ndarray, "captions e"] | None:
    if name is None:
        return None
    folder = paths.extracted(dataset, name)
    identity.require_current(folder)
    stored = texts.read(folder)
    if stored.array is None or stored.rows is None:
        raise UsageError(f"--texts {name}: of kind {stored.kind}; name texts that are one vector a caption")
    return stored.array[stored.rows[stored.places_of(rows["caption_id"].to_numpy())]].astype(np.float32)


def word_vectors(
    sentences: list[str], seed: int, dimensions: int = evidence.DIMENSIONS
) -> Float[ndarray, "captions e"]:
    """Captions as tf-idf along the main directions, spreads evened by a square root."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    counted = TfidfVectorizer(
        tokenizer=tokenize,
        token_pattern=None,
        lowercase=False,
        sublinear_tf=True,
        max_features=20_000,
        dtype=np.float32,
    ).fit_transform(sentences)
    size = min(dimensions, min(counted.shape) - 1)
    if size < 1:
        raise InputError("audit: the captions have one word in all; nothing tells them apart")
    model = TruncatedSVD(size, n_iter=2, random_state=seed)
    with np.errstate(
        invalid="ignore", divide="ignore"
    ):  # of equal captions the share of variance is 0 / 0; it is not used
        rows = model.fit_transform(counted)
    return evidence.reduced(rows / np.sqrt(np.maximum(model.singular_values_, 1e-6)), size)
