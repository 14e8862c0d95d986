"""Weights & Biases: a run with parameters and figures, kept on this machine until `wandb sync` sends it, or sent at once."""

from typing import Literal

from vse_pipe.core.strict import Strict


class Params(Strict):
    """Where the run goes."""

    project: str = "vse-pipe"
    """what the run belongs to"""
    entity: str | None = None
    """the user or team; null: as wandb is set up"""
    mode: Literal["offline", "online"] = "offline"
    """``offline`` writes to data/track/wandb and never asks the network; ``online`` sends figures as they come"""
