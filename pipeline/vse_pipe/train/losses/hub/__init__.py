"""Hub: InfoNCE that weighs hubs more, and similarities drawn towards a plan without hubs (NeighborRetr, CVPR 2025)."""

from typing import Annotated

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from vse_pipe.core.strict import Strict


class Params(Strict):
    """Defaults: the authors' code, but for ``tau``."""

    tau: PositiveFloat = 0.05
    """temperature that similarities are divided by"""
    centrality: NonNegativeFloat = 0.3
    """how much more a pair weighs whose image or text is similar to the whole batch; 0: all weigh alike"""
    uniform: NonNegativeFloat = 1.0
    """weight of the distance from the plan; with 0 here and at ``centrality`` the loss is ``infonce``"""
    beta: Annotated[float, Field(ge=0, le=1)] = 0.7
    """share of the plan in what similarities are drawn towards; the rest is the pair itself"""
    iterations: PositiveInt = 50
    """of Sinkhorn's algorithm"""
