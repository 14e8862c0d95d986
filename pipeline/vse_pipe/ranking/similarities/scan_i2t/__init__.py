"""SCAN, image to text: every region attends to the words, the image scores by how well its regions are described."""

from pydantic import PositiveFloat

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import SimilarityTraits
from vse_pipe.ranking.engine.alignment.choices import Aggregate, Norm


class Params(Strict):
    """Defaults: the authors' Flickr30k i-t."""

    aggregate: Aggregate = "mean"
    """of the regions' cosines"""
    temperature: PositiveFloat = 4.0
    """lambda_1"""
    lse: PositiveFloat = 5.0
    """lambda_2, of ``aggregate: lse`` alone"""
    norm: Norm = "clipped_l2norm"
    """of the similarities of a word to all regions, the authors' raw_feature_norm"""


TRAITS = SimilarityTraits(fragments=True)
