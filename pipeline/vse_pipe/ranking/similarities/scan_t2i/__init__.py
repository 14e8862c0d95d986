"""SCAN, text to image: every word attends to the regions, the caption scores by how well its words are found."""

from pydantic import PositiveFloat

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import SimilarityTraits
from vse_pipe.ranking.engine.alignment.choices import Aggregate, Norm


class Params(Strict):
    """Defaults: the authors' Flickr30k t-i."""

    aggregate: Aggregate = "mean"
    """of the words' cosines"""
    temperature: PositiveFloat = 9.0
    """lambda_1"""
    lse: PositiveFloat = 6.0
    """lambda_2, of ``aggregate: lse`` alone"""
    norm: Norm = "clipped_l2norm"
    """of the similarities of a region to all words, the authors' raw_feature_norm"""


TRAITS = SimilarityTraits(fragments=True)
