"""SGR: a graph of the alignments of words and whole, whose nodes reason over each other; node 0 is the score."""

from pydantic import Field, PositiveFloat

from vse_pipe.core.strict import Strict, Width
from vse_pipe.project.traits import SimilarityTraits


class Params(Strict):
    """Defaults: the paper's."""

    sim_dim: Width = 256
    """width of an alignment vector"""
    steps: int = Field(default=3, ge=1, le=16)
    """of reasoning"""
    temperature: PositiveFloat = 9.0
    """of the attention of words to regions"""
    dropout: float = Field(default=0.4, ge=0, lt=1)
    """in the self-attention of both sides"""


TRAITS = SimilarityTraits(fragments=True, learns=True)
