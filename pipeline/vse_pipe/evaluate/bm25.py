"""BM25 in an ensemble: an image is the text of its captions but the compared one."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from scipy import sparse
from torch import Tensor

from vse_pipe.artifacts import captions
from vse_pipe.core.errors import InputError
from vse_pipe.ranking.split import Split

# How much a second occurrence of a word adds, and how much long texts are discounted.
K1, B = 1.5, 0.75


@dataclass(frozen=True)
class Bm25:
    """Has the interface of ``Vectors``, with the items of ``run``, an embedded run of
    data/prepare/<dataset>/. A side is one integer an item: its place among all images or captions
    of the data set."""

    run: Any
    prepared: Path

    compared_by = "bm25"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.run, name)

    def split(self, name: str, device: torch.device, paired: bool = True) -> Split:
        """Raises InputError where no image has two captions: no text would be left."""
        split, texts = self.run.split(name, device, paired), self._texts
        if len(split.caption_ids) and np.unique(split.caption_images, return_counts=True)[1].max() < 2:
            raise InputError(
                f"{self.prepared}: each image of split '{name}' has one caption, its own query, so bm25 has no texts to "
                "index; leave bm25 out of the ensemble"
            )
        sides = ((texts.image_ids, split.image_ids), (texts.caption_ids, split.caption_ids))
        images, captions = (torch.from_numpy(np.searchsorted(ids, part))[:, None].to(device) for ids, part in sides)
        return replace(split, images=images, captions=captions)

    def similarity(self, device: torch.device | None = None) -> "WordWeights":
        return self._texts

    @cached_property
    def _texts(self) -> "WordWeights":
        table = captions.read(self.prepared).sort_by("caption_id")
        ids, owners = table["caption_id"].to_numpy(), table["image_id"].to_numpy()
        return WordWeights.index(ids, owners, table["text"].to_pylist())


@dataclass(frozen=True)
class WordWeights:
    """image_ids, caption_ids: ascending; owners: place of each caption's image; weights: of words
    (images, words); queries: (captions, words); pair_scores: of each caption with its image."""

    image_ids: Int64[np.ndarray, " images"]
    caption_ids: Int64[np.ndarray, " captions"]
    owners: Int64[np.ndarray, " captions"]
    weights: sparse.csr_matrix
    queries: sparse.csr_matrix
    pair_scores: Float[np.ndarray, " captions"]

    @classmethod
    def index(cls, caption_ids: np.ndarray, images: np.ndarray, texts: list[str]) -> "WordWeights":
        """images: the image id of each caption. Words are lower case and have two letters or more.

        ``sum_t n_ct idf_t f / (f + k1 (1 - b + b l / mean l)) / sum_t n_ct idf_t`` with n_ct and f
        the counts of word t in the caption and in the image's text of l words, and ``idf_t = ln(1 +
        (N - N_t + 0.5) / (N_t + 0.5))`` over the texts of all N images: Robertson and Zaragoza, The
        probabilistic relevance framework, 2009, as in Lucene and bm25s. The divisor makes scores of
        different captions comparable and changes no ranking of images. f and l of a caption's own
        image do not count that caption."""
        from sklearn.feature_extraction.text import CountVectorizer

        counts = CountVectorizer(dtype=np.float64).fit_transform(texts).tocsr()
        image_ids, owners = np.unique(images, return_inverse=True)
        words = (sparse.csr_matrix((np.ones(len(owners)), (owners, np.arange(len(owners))))) @ counts).tocsr()
        lengths = np.asarray(words.sum(axis=1)).ravel()
        holding = np.bincount(words.indices, minlength=words.shape[1])
        idf = np.log1p((len(image_ids) - holding + 0.5) / (holding + 0.5))

        def saturated(frequencies: sparse.csr_matrix, row_lengths: np.ndarray) -> sparse.csr_matrix:
            norms = K1 * (1 - B + B * row_lengths / lengths.mean())
            below = frequencies.data + np.repeat(norms, np.diff(frequencies.indptr))
            weights = frequencies.copy()
            weights.data = frequencies.data / np.where(frequencies.data > 0, below, 1)
            return weights

        largest = np.maximum(counts @ idf, np.finfo(float).tiny)
        queries = (sparse.diags(1 / largest) @ counts @ sparse.diags(idf)).tocsr()
        # Both matrices have the cells of ``counts``, in ascending order.
        remaining = words[owners].multiply(counts.sign()).tocsr()
        remaining.sort_indices()
        remaining.data -= counts.data
        weights = saturated(remaining, lengths[owners] - np.asarray(counts.sum(axis=1)).ravel())
        pair_scores = np.asarray(weights.multiply(queries).sum(axis=1)).ravel()
        return cls(image_ids, caption_ids, owners, saturated(words, lengths), queries, pair_scores)

    def __call__(
        self, images: Int64[Tensor, "images 1"], captions: Int64[Tensor, "captions 1"]
    ) -> Float[Tensor, "images captions"]:
        """float32, from 0 to 1."""
        rows, columns = images[:, 0].cpu().numpy(), captions[:, 0].cpu().numpy()
        scores = (self.weights[rows] @ self.queries[columns].T).toarray()
        scores = np.where(rows[:, None] == self.owners[columns], self.pair_scores[columns], scores)
        return torch.from_numpy(scores.astype(np.float32)).to(images.device)
