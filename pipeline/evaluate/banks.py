"""Where the queries of a bank come from, for any fold and direction."""

from dataclasses import dataclass

import numpy as np

from pipeline.errors import InputError
from pipeline.evaluate.bank import Bank
from pipeline.evaluate.scores import Scores, Similarity
from pipeline.evaluate.split import Split

OWN = "test"


@dataclass(frozen=True)
class BankSource:
    """name: what metrics call it; split: its images and captions, None for the very queries that are ranked."""

    name: str
    split: Split | None = None

    @property
    def own(self) -> bool:
        return self.split is None

    def bank(self, fold: Split, scores: Scores, direction: str, similarity: Similarity, memory: int) -> Bank:
        """The bank for one direction of ``fold``, whose own scores in that direction are ``scores``."""
        of_images = direction == "image_to_text"
        other = fold if self.split is None else self.split

        def gallery() -> Scores:
            kept, ranked = (other.captions, fold.captions) if of_images else (other.images, fold.images)
            return Scores.of(kept, ranked, similarity, memory=memory)

        if self.split is None:
            return Bank(scores, True, gallery)
        if of_images:
            queries = Scores.of(other.images, fold.captions, similarity, memory=memory)
        else:
            queries = Scores.of(fold.images, other.captions, similarity, memory=memory).transposed()
        return Bank(queries, False, gallery)

    def checked_against(self, ranked: Split, where: str) -> "BankSource":
        """Itself, if none of its queries is ranked. Raises InputError otherwise: the bank would not be one of its own.

        Ids may coincide by chance between data sets; the same id with the same vector does not.
        """
        if self.split is not None:
            for kind, ids, own in [
                ("image_id", "image_ids", "images"),
                ("caption_id", "caption_ids", "captions"),
            ]:
                _disjoint(
                    getattr(self.split, ids),
                    getattr(self.split, own),
                    getattr(ranked, ids),
                    getattr(ranked, own),
                    kind,
                    where,
                )
        return self


def _disjoint(bank_ids, bank_vectors, ids, vectors, kind: str, where: str) -> None:
    shared, left, right = np.intersect1d(bank_ids, ids, return_indices=True)
    if len(shared) and bank_vectors.shape[1] == vectors.shape[1]:
        same = (bank_vectors[left] == vectors[right]).all(dim=1).cpu().numpy()
        if same.any():
            raise InputError(
                f"{where}: the bank holds {same.sum()} of the vectors that are ranked, the first is {kind} "
                f"{shared[same][0]}; a bank of its own must not"
            )


def halves(split: Split) -> tuple[Split, Split]:
    """Every other image with its captions, and the rest: to tune on one half of a split whose other half is the bank."""
    return split.fold(slice(0, None, 2)), split.fold(slice(1, None, 2))
