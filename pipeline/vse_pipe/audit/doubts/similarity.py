"""The similarity of the vectors of a model that gives images and captions one space, such as CLIP."""

from vse_pipe.audit.doubts.options import SimilarityOptions
from vse_pipe.audit.evidence import Evidence, PairPool, standardised


def fit(pool: PairPool, options: SimilarityOptions) -> Evidence:
    """Two columns: the inner product of a caption and an image, standardised over all captions and over all images."""
    return standardised(pool, pool.text_vectors, pool.image_vectors)
