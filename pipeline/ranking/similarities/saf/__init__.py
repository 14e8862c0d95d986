"""SAF: the alignments of words and whole are filtered by an attention of their own, their sum is the score."""

from pydantic import Field, PositiveFloat

from pipeline.core.strict import Strict, Width
from pipeline.project.traits import SimilarityTraits


class Params(Strict):
    """sim_dim: width of an alignment vector; temperature: of the attention of words to regions; dropout: in the
    self-attention of both sides. Defaults: the paper's."""

    sim_dim: Width = 256
    temperature: PositiveFloat = 9.0
    dropout: float = Field(default=0.4, ge=0, lt=1)


TRAITS = SimilarityTraits(fragments=True, learns=True)
