"""SAF: the alignments of words and whole are filtered by an attention of their own, their sum is the score."""

from pydantic import Field, PositiveFloat

from vse_pipe.core.strict import Strict, Width
from vse_pipe.project.traits import SimilarityTraits


class Params(Strict):
    """Defaults: the paper's."""

    sim_dim: Width = 256
    """width of an alignment vector"""
    temperature: PositiveFloat = 9.0
    """of the attention of words to regions"""
    dropout: float = Field(default=0.4, ge=0, lt=1)
    """in the self-attention of both sides"""


TRAITS = SimilarityTraits(fragments=True, learns=True)
