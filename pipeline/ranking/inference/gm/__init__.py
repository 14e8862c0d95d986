"""Greedy matching: RGM without relaxation."""

from pipeline.project.traits import CriterionTraits
from pipeline.ranking.engine.matching_params import MatchingParams


class Params(MatchingParams):
    """Lambda is 1."""


TRAITS = CriterionTraits(matches=True)
