"""MLflow: a run with parameters and metrics, in a database on this machine or on a server."""

from vse_pipe.core.strict import Strict


class Params(Strict):
    """Where the run is kept."""

    uri: str | None = None
    """of the tracking server or database; null: what $MLFLOW_TRACKING_URI says, else data/track/mlflow.db, an SQLite database"""
    experiment: str = "vse-pipe"
    """what the run belongs to; made where there is none of that name"""
