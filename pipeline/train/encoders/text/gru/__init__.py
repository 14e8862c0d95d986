"""Word embeddings and a GRU over them; a caption is the last state, or the mean or the maximum of all (VSE++ EncoderText)."""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from pipeline.core.strict import Strict, Width
from pipeline.project.traits import TextEncoderTraits


class Params(Strict):
    """The defaults are those of the VSE++ and HAL code."""

    word_dim: Width = 300
    """size of a word vector"""
    layers: PositiveInt = 1
    """stacked GRU layers"""
    use_abs: bool = False
    """absolute values at the end (order)"""
    bidirectional: bool = False
    """a second GRU reads backwards and both states are averaged"""
    pooling: Literal["last", "mean", "max"] = "last"
    """of the tokens' states, ``last`` being that of the last token read (``mean`` and ``max``: the "temporal
    pooling" of HAL)"""
    projection: bool = False
    """a linear layer after pooling (W_g of the VSE++ paper)"""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """of word vectors, in training (SGRAF: 0.4)"""
    init: Literal["code", "xavier"] = "code"
    """``xavier`` as HAL's papers say"""


# It also gives a vector for each word, for similarities of fragments.
TRAITS = TextEncoderTraits(words=True)
