"""Inference criteria with their parameters, for ``criterion=``: ``vp.criteria.CSLS(k=5)``; ``IS() + RGM(lam=2)`` rescores,
then matches. A name such as ``"is+rgm"`` stands for the criteria with their default parameters.

>>> import vse_pipe as vp
>>> vp.criteria.IS(beta=20) + vp.criteria.GM()
is+gm
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec

from vse_pipe.api import arguments
from vse_pipe.core.strict import Strict
from vse_pipe.ranking.inference import options as page

Given = ParamSpec("Given")


@dataclass(frozen=True, repr=False)
class Criterion:
    """name: such as ``csls`` or ``is+rgm``; options: parameters by member."""

    name: str
    options: dict[str, Strict]

    def __add__(self, matching: "Criterion") -> "Criterion":
        """This rescoring, then the matching."""
        return Criterion(f"{self.name}+{matching.name}", self.options | matching.options)

    def __repr__(self) -> str:
        return self.name


def _member(name: str, options: Callable[Given, Strict]) -> Callable[Given, Criterion]:
    def criterion(*args: Given.args, **values: Given.kwargs) -> Criterion:
        if args:
            raise TypeError(f"criterion {name}: give its parameters by name")
        return Criterion(name, {name: arguments.configured(f"criterion {name}", options, dict(values))})

    criterion.__doc__ = f"The criterion ``{name}`` of docs/criteria.md."
    criterion.__signature__ = inspect.signature(options)  # type: ignore[attr-defined]
    return criterion


CSLS = _member("csls", page.CslsOptions)
DualIS = _member("dual_is", page.DualIsOptions)
GM = _member("gm", page.GmOptions)
Hungarian = _member("hungarian", page.HungarianOptions)
IS = _member("is", page.IsOptions)
MutualProximity = _member("mutual_proximity", page.MutualProximityOptions)
NNN = _member("nnn", page.NnnOptions)
NNS = _member("nns", page.NnsOptions)
QBNorm = _member("qb_norm", page.QbNormOptions)
RGM = _member("rgm", page.RgmOptions)
Sinkhorn = _member("sinkhorn", page.SinkhornOptions)
