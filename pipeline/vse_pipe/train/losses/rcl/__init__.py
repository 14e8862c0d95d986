"""Complementary contrastive learning: what does not belong together is pushed apart, nothing is pulled (RCL, TPAMI 2023)."""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat

from vse_pipe.core.strict import Strict


class Params(Strict):
    tau: PositiveFloat = 0.05
    """temperature that similarities are divided by"""
    method: Literal["log", "tan", "abs", "exp", "gce"] = "log"
    """what a negative's chance p costs"""
    q: Annotated[float, Field(gt=0, le=1)] = 0.5
    """of ``gce``. The authors' code has tau 0.05 and ``log``. q is 0.5 in its loss, and its training passes the
    option for the margin, 0.2"""
