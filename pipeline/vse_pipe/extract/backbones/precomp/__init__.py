"""Features somebody else computed: rows of ``.npy`` files, passed through in the data set's order."""

from typing import Literal

from pydantic import PositiveInt

from vse_pipe.extract.engine.params import FeatureParams
from vse_pipe.project.traits import BackboneTraits


class Params(FeatureParams):
    """As they are, by default: not normalised and in the type they have (float64 becomes float32)."""

    normalise: bool = False
    store: Literal["float32", "float16"] | None = None
    batch_size: PositiveInt = 1024


TRAITS = BackboneTraits(alone=True)
