"""Greedy matching: RGM without relaxation."""

from vse_pipe.project.traits import CriterionTraits
from vse_pipe.ranking.engine.matching_params import MatchingParams


class Params(MatchingParams):
    """Lambda is 1."""


TRAITS = CriterionTraits(matches=True)
