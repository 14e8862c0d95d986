"""The options of a residual head, the same for images and captions."""

from typing import Annotated

from pydantic import Field

from vse_pipe.core.strict import Strict, Width


class ResidualOptions(Strict):
    """Beside the one layer."""

    hidden: Width = 1024
    """numbers between the two layers of the second branch (VSE-infinity: half of ``train.embed_size``)"""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """of these, in training"""
    drop: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """share of the numbers of a vector left out at random, in training, the others scaled to its length: of tf-idf it is the
    vector of the caption without some of its words"""
    use_abs: bool = False
    """absolute values at the end (order)"""
