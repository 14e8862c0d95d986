"""The parameters a criterion tries under ``evaluate.tune``."""

from collections.abc import Sequence
from itertools import product
from typing import TypeVar

from vse_pipe.core.strict import Strict

Options = TypeVar("Options", bound=Strict)


def combinations(params: Options, **axes: Sequence[float]) -> list[Options]:
    """``params`` with every combination of the values given for some of its fields, in the order of the axes."""
    names, values = list(axes), product(*axes.values())
    return [params.model_copy(update=dict(zip(names, chosen, strict=True))) for chosen in values]
