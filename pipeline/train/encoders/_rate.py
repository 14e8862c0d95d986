"""A part of an encoder that learns at a rate of its own."""

from dataclasses import dataclass


@dataclass(frozen=True)
class OwnRate:
    """Set as ``own_rate`` on a module: lr, of its parameters in place of ``train.lr``; after: the epoch its schedule counts
    from. Its rate falls by the same factor after the same number of epochs as every other.
    """

    lr: float
    after: int = 0
