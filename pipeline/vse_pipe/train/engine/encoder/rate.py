"""Parts of an encoder that learn at rates of their own."""

from dataclasses import dataclass


@dataclass(frozen=True)
class OwnRate:
    """lr: in place of ``train.lr``; after: the epoch its schedule counts from. It falls by the same factor after the same
    number of epochs as every other.

    As ``own_rate`` of a module it holds for that module's parameters; as ``takes_over`` for all parameters of the model
    without an own rate, from epoch ``after`` on.
    """

    lr: float
    after: int = 0
