"""Inference criteria with their parameters, for ``criterion=``: ``vp.criteria.CSLS(k=5)``; ``IS() +
RGM(lam=2)`` rescores, then matches. A name such as ``"is+rgm"`` stands for the criteria with their
default parameters.

>>> import vse_pipe as vp
>>> vp.criteria.IS(beta=20) + vp.criteria.GM()
is(beta=20.0)+gm
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec

from vse_pipe.api import arguments
from vse_pipe.core.errors import UsageError
from vse_pipe.core.strict import Strict
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking.inference import options as page

Arguments = ParamSpec("Arguments")


@dataclass(frozen=True, repr=False)
class Inference:
    """name: such as ``csls`` or ``is+rgm``; options: parameters by member."""

    name: str
    options: dict[str, Strict]

    @classmethod
    def named(cls, criterion: "str | Inference") -> "Inference":
        """A criterion from its name. Raises UsageError for what is neither a name nor a
        criterion."""
        if isinstance(criterion, cls):
            return criterion
        if not isinstance(criterion, str):
            raise UsageError(f"criterion is {criterion!r}; give a name, or vp.criteria.CSLS()")
        return cls(criterion, {})

    def __add__(self, matching: "Inference") -> "Inference":
        """This rescoring, then the matching."""
        matching = Inference.named(matching)
        return Inference(f"{self.name}+{matching.name}", self.options | matching.options)

    def __repr__(self) -> str:
        """``is(beta=20.0)+gm``: the parameters that were given."""
        texts = []
        for name, params in self.options.items():
            values = params.model_dump(include=params.model_fields_set)
            inside = ", ".join(f"{key}={value!r}" for key, value in values.items())
            texts.append(f"{name}({inside})" if values else name)
        return "+".join(texts)


def __getattr__(title: str) -> Any:
    """A criterion that was added to the family."""
    return _member(title, INFERENCES.options(arguments.member(INFERENCES, title)))


def _member(title: str, options: Callable[Arguments, Strict]) -> Callable[Arguments, Inference]:
    return arguments.factory(INFERENCES, title, options, lambda name, params: Inference(name, {name: params}))


CSLS = _member("CSLS", page.CslsOptions)
DualIS = _member("DualIS", page.DualIsOptions)
GM = _member("GM", page.GmOptions)
Hungarian = _member("Hungarian", page.HungarianOptions)
IS = _member("IS", page.IsOptions)
MutualProximity = _member("MutualProximity", page.MutualProximityOptions)
NNN = _member("NNN", page.NnnOptions)
NNS = _member("NNS", page.NnsOptions)
QBNorm = _member("QBNorm", page.QbNormOptions)
RGM = _member("RGM", page.RgmOptions)
Sinkhorn = _member("Sinkhorn", page.SinkhornOptions)
