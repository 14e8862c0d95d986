"""SCAN, image to text: every region attends to the words, the image scores by how well its regions are described."""

from pydantic import PositiveFloat

from pipeline.core.strict import Strict
from pipeline.project.traits import SimilarityTraits
from pipeline.ranking.engine.alignment.choices import Aggregate, Norm


class Params(Strict):
    """aggregate: of the regions' cosines; temperature: lambda_1; lse: lambda_2, of ``aggregate: lse`` alone; norm: of the
    similarities of a word to all regions, the authors' raw_feature_norm. Defaults: the authors' Flickr30k i-t."""

    aggregate: Aggregate = "mean"
    temperature: PositiveFloat = 4.0
    lse: PositiveFloat = 5.0
    norm: Norm = "clipped_l2norm"


TRAITS = SimilarityTraits(fragments=True)
