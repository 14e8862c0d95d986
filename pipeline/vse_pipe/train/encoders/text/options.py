"""The options and traits of text encoders."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from vse_pipe.core.strict import Digest, Strict, Width
from vse_pipe.project.traits import TextEncoderTraits
from vse_pipe.train.encoders.image.options import BranchShape, ResidualShape


class GruOptions(Strict):
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
    vectors: str | None = None
    """a file of word vectors that words start from, of ``word_dim`` dimensions (.bin, .txt, .vec, each also .gz, .npz, or .npy
    with ``words``); words that it lacks start at random, as all do without one"""
    words: str | None = None
    """of ``vectors`` in .npy, the file of their words: a line each, or a Parquet file with one column of text"""
    sha256: Digest | None = None
    """what ``vectors`` must have; any other file is refused"""
    freeze_vectors: bool = False
    """word vectors are not trained, those that started at random included"""

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
    """of the tokens' vectors, as of image encoder ``pooled``"""
    drop_words: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.2
    """share of the tokens left out of the pooling at random, in training (VSE-infinity: 0.2)"""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """of the tokens' vectors, in training"""
    use_abs: bool = False
    """absolute values at the end (order)"""

    # It also gives a vector for each token, for similarities of fragments.
    traits: ClassVar = TextEncoderTraits(reads="fragments", words=True)


class ResidualOptions(ResidualShape):
    """Those of ``ResidualShape``, shared by both sides."""

    traits: ClassVar = TextEncoderTraits(reads="vectors")


class TwoBranchOptions(BranchShape):
    """Those of ``BranchShape``, shared by both branches."""

    traits: ClassVar = TextEncoderTraits(reads="vectors")
