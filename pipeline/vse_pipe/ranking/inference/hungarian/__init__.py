"""Optimal matching: what GM and RGM approximate, the matching with the largest sum of scores."""

from pydantic import PositiveInt

from vse_pipe.project.traits import CriterionTraits
from vse_pipe.ranking.engine.matching_params import MatchingParams


class Params(MatchingParams):
    most_pairs: PositiveInt = 25_000_000
    """queries times items that it takes on; more, such as COCO's 5,000 x 25,000, are refused: time and memory grow with them"""


TRAITS = CriterionTraits(matches=True)
