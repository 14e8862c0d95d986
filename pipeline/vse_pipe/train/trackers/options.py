"""The options of trackers."""

from typing import Literal

from vse_pipe.core.strict import Strict


class DvcliveOptions(Strict):
    """No options."""


class MlflowOptions(Strict):
    """Where the run is kept."""

    uri: str | None = None
    """of the tracking server or database; null: what $MLFLOW_TRACKING_URI says, else data/track/mlflow.db, an SQLite database"""
    experiment: str = "vse-pipe"
    """what the run belongs to; made where there is none of that name"""


class TensorboardOptions(Strict):
    """No options."""


class WandbOptions(Strict):
    """Where the run goes."""

    project: str = "vse-pipe"
    """what the run belongs to"""
    entity: str | None = None
    """the user or team; null: as wandb is set up"""
    mode: Literal["offline", "online"] = "offline"
    """``offline`` writes to data/track/wandb and never asks the network; ``online`` sends figures as they come"""
