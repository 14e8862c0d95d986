"""The options of a branch of a two-branch network, the same for images and captions."""

from typing import Annotated, Literal

from pydantic import Field

from vse_pipe.core.strict import Strict, Width


class Options(Strict):
    """The defaults are the paper's for tf-idf and Fisher vectors."""

    hidden: Width | Annotated[list[Width], Field(min_length=1)] = 2048
    """outputs of the layers before the last, whose outputs are ``train.embed_size`` (paper: 2048 then 512; mean
    word2vec: 1024 then 256; phrases: 8192 then 4096)"""
    nonlinear: bool = True
    """false is the paper's "Linear" rows: one layer straight into unit length, so that hidden, dropout and
    batch_norm have no part"""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.5
    """after each ReLU, in training"""
    drop: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """share of the numbers of a vector left out at random, in training, the others scaled to its length: of tf-idf it is the
    vector of the caption without some of its words"""
    batch_norm: Literal["last", "first", "none"] = "last"
    """``last``, after the last layer (paper), ``first``, before each ReLU (the authors' code), or ``none``"""
    use_abs: bool = False
    """absolute values at the end (order)"""
