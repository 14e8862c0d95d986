"""Where the queries of a bank come from, for any fold and direction."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from vse_pipe.artifacts.names import TextIds
from vse_pipe.core.errors import InputError
from vse_pipe.ranking.engine.bank import Bank
from vse_pipe.ranking.engine.fragments import plain, pooled, same
from vse_pipe.ranking.engine.scores import Scores, Similarity
from vse_pipe.ranking.engine.split import Split

OWN = "test"


@dataclass(frozen=True)
class BankSource:
    """name: what metrics call it; split: its images and captions, None for the very queries that are ranked; folder: of its
    embeddings, where they are read from one."""

    name: str
    split: Split | None = None
    folder: Path | None = None

    @property
    def own(self) -> bool:
        return self.split is None

    def bank(
        self, fold: Split, scores: Scores, direction: str, similarity: Similarity, memory: int, sets: int = 1
    ) -> Bank:
        """The bank for one direction of ``fold``, whose own scores in that direction are ``scores``. memory (MiB) and
        sets: see ``Scores.of``."""
        of_images = direction == "image_to_text"
        other = fold if self.split is None else self.split

        def gallery() -> Scores:
            kept, ranked = (other.captions, fold.captions) if of_images else (other.images, fold.images)
            if not plain(kept):
                return Scores.of(pooled(kept), pooled(ranked), cosine, memory=memory, sets=0)
            # One pass and no more: nothing to hold.
            return Scores.of(kept, ranked, similarity, memory=memory, sets=0)

        if self.split is None:
            return Bank(scores, True, gallery)
        if of_images:
            queries = Scores.of(other.images, fold.captions, similarity, memory=memory, sets=sets)
        else:
            one = Scores.of(fold.images, other.captions, similarity, memory=memory, sets=sets)
            queries = one.transposed()
        return Bank(queries, False, gallery)

    def checked_against(self, ranked: Split, where: str, names: TextIds | None = None) -> "BankSource":
        """Itself, if none of its queries is ranked. Raises InputError otherwise: the bank would not be one of its own."""
        if self.split is not None:
            disjoint(self.split, ranked, where, "bank", names)
        return self


def disjoint(kept: Split, ranked: Split, where: str, what: str, names: TextIds | None = None) -> None:
    """Raises InputError when ``kept`` holds an image or a caption that is ranked. what: ``kept`` in the message; names: of
    ids that are text.

    Ids may coincide by chance between data sets; the same id with the same vector does not.
    """
    sides = [
        ("image_id", kept.image_ids, kept.images, ranked.image_ids, ranked.images),
        ("caption_id", kept.caption_ids, kept.captions, ranked.caption_ids, ranked.captions),
    ]
    for kind, own_ids, own_vectors, ids, vectors in sides:
        shared, left, right = np.intersect1d(own_ids, ids, return_indices=True)
        if not len(shared):
            continue
        known = same(own_vectors, left, vectors, right).numpy()
        if known.any():
            first = int(shared[known][0])
            raise InputError(
                f"{where}: the {what} holds {known.sum()} of the vectors that are ranked, the first is {kind} "
                f"{names.shown(kind, first) if names else first}; it must have none of them"
            )


def cosine(one: Tensor, other: Tensor) -> Tensor:
    """Of unit vectors of the same kind."""
    return one @ other.T


def halves(split: Split) -> tuple[Split, Split]:
    """Every other image with its captions, and the rest: to tune on one half of a split whose other half is the bank."""
    return split.fold(slice(0, None, 2)), split.fold(slice(1, None, 2))
