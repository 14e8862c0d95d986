"""The similarity under a model of one space, such as CLIP."""

from vse_pipe.audit.doubts.options import SimilarityOptions
from vse_pipe.audit.evidence import Evidence, PairPool, standardised


def fit(pool: PairPool, options: SimilarityOptions) -> Evidence:
    """The inner product, standardised over all captions, and over all images."""
    return standardised(pool, pool.text_vectors, pool.image_vectors)
