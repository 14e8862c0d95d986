"""The options of trackers."""

from typing import Literal

from vse_pipe.core.strict import Strict


class DvcliveOptions(Strict):
    """No options."""


class MlflowOptions(Strict):
    """Where the run is kept."""

    uri: str | None = None
    """tracking server or database; null: $MLFLOW_TRACKING_URI, or the SQLite database data/track/mlflow.db"""
    experiment: str = "vse-pipe"
    """of the run; made if absent"""


class TensorboardOptions(Strict):
    """No options."""


class WandbOptions(Strict):
    """Where the run goes."""

    project: str = "vse-pipe"
    """of the run"""
    entity: str | None = None
    """user or team; null: as wandb is set up"""
    mode: Literal["offline", "online"] = "offline"
    """``offline`` writes to data/track/wandb without a network; ``online`` sends figures at once"""
