"""Order: how far a caption is from being more general than an image, the more general one lying nearer to the origin."""

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import SimilarityTraits


class Params(Strict):
    root: bool = True
    """the length of the violation, as the VSE++ code has it; false: its square, as Vendrov et al. and the VSE++
    paper write it. Both rank alike; a loss sees another scale"""


TRAITS = SimilarityTraits(above_zero=False)
