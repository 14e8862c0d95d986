"""The options and traits of text encoders."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from vse_pipe.core.strict import Digest, Strict, Width
from vse_pipe.project.registry import TextEncoderTraits
from vse_pipe.train.encoders.image.options import BranchShape, ResidualShape


class GruOptions(Strict):
    """The defaults are those of the VSE++ and HAL code."""

    word_dim: Width = 300
    """size of a word vector"""
    layers: PositiveInt = 1
    """stacked GRU layers"""
    use_abs: bool = False
    """takes absolute values at the end (order)"""
    bidirectional: bool = False
    """a second GRU reads backwards; both states are averaged"""
    pooling: Literal["last", "mean", "max", "gpo"] = "last"
    """of the tokens' states: the last one, ``mean`` or ``max`` (HAL's "temporal pooling"), or ``gpo``, a learned mean
    over each dimension's sorted numbers (VSE-infinity)"""
    drop_words: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """share of a caption's words left out in training; 0.2 in VSE-infinity"""
    projection: bool = False
    """adds a linear layer after pooling (W_g of the VSE++ paper)"""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """of word vectors, in training; 0.4 in SGRAF"""
    init: Literal["code", "xavier"] = "code"
    """``xavier`` as in HAL's papers"""
    vectors: str | None = None
    """file of initial word vectors with ``word_dim`` dimensions: .bin, .txt, .vec, each also .gz, .npz, or .npy with
    ``words``; words that it lacks start at random"""
    words: str | None = None
    """for .npy: file of the words, one a line, or Parquet with one text column"""
    sha256: Digest | None = None
    """required digest of ``vectors``"""
    freeze_vectors: bool = False
    """trains no word vectors, also not those that start at random"""

    # It also gives a vector for each word, for similarities of fragments.
    traits: ClassVar = TextEncoderTraits(words=True, vectors=True)

    @model_validator(mode="after")
    def _of_vectors(self) -> Self:
        if self.vectors is None and (self.words or self.sha256 or self.freeze_vectors):
            raise ValueError("words, sha256 and freeze_vectors need vectors")
        return self


class IdentityOptions(Strict):
    """No parameters."""

    traits: ClassVar = TextEncoderTraits(reads="vectors", learns=False)


class PooledOptions(Strict):
    pooling: Literal["gpo", "mean", "max"] = "gpo"
    """of the tokens' vectors, as in image encoder ``pooled``"""
    drop_words: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.2
    """share of a caption's tokens left out in training; 0.2 in VSE-infinity"""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """of the tokens' vectors, in training"""
    use_abs: bool = False
    """takes absolute values at the end (order)"""

    # It also gives a vector for each token, for similarities of fragments.
    traits: ClassVar = TextEncoderTraits(reads="fragments", words=True)


class ResidualOptions(ResidualShape):
    """Those of ``ResidualShape``, shared by both sides."""

    traits: ClassVar = TextEncoderTraits(reads="vectors")


class TwoBranchOptions(BranchShape):
    """Those of ``BranchShape``, shared by both branches."""

    traits: ClassVar = TextEncoderTraits(reads="vectors")
