"""Word embeddings and a GRU over them; a caption is the last state, or a pooling of all (VSE++ EncoderText)."""

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
    pooling: Literal["last", "mean", "max", "gpo"] = "last"
    """of the tokens' states, ``last`` being that of the last token read (``mean`` and ``max``: the "temporal
    pooling" of HAL), ``gpo`` a learned mean of each dimension's numbers in order of size (VSE-infinity)"""
    drop_words: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """share of the words of a caption left out at random, in training (VSE-infinity: 0.2)"""
    projection: bool = False
    """a linear layer after pooling (W_g of the VSE++ paper)"""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """of word vectors, in training (SGRAF: 0.4)"""
    init: Literal["code", "xavier"] = "code"
    """``xavier`` as HAL's papers say"""


# It also gives a vector for each word, for similarities of fragments.
TRAITS = TextEncoderTraits(words=True)
