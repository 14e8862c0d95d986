"""SGR: a graph of the alignments of words and whole, whose nodes reason over each other; node 0 is the score."""

from pydantic import Field, PositiveFloat

from pipeline.core.strict import Strict, Width
from pipeline.project.traits import SimilarityTraits


class Params(Strict):
    """sim_dim: width of an alignment vector; steps: of reasoning; temperature: of the attention of words to regions;
    dropout: in the self-attention of both sides. Defaults: the paper's."""

    sim_dim: Width = 256
    steps: int = Field(default=3, ge=1, le=16)
    temperature: PositiveFloat = 9.0
    dropout: float = Field(default=0.4, ge=0, lt=1)


TRAITS = SimilarityTraits(fragments=True, learns=True)
