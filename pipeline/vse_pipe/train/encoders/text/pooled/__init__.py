"""One linear layer on the vector of every token of an encoder that is not trained, and one vector of them all."""

from typing import Annotated, Literal

from pydantic import Field

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import TextEncoderTraits


class Params(Strict):
    pooling: Literal["gpo", "mean", "max"] = "gpo"
    """of the tokens' vectors, as of image encoder ``pooled``"""
    drop_words: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.2
    """share of the tokens left out of the pooling at random, in training (VSE-infinity: 0.2)"""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """of the tokens' vectors, in training"""
    use_abs: bool = False
    """absolute values at the end (order)"""


# It also gives a vector for each token, for similarities of fragments.
TRAITS = TextEncoderTraits(reads="fragments", words=True)
