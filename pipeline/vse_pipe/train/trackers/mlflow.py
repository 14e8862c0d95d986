"""MLflow: a run with parameters and metrics, in a database on this machine or on a server."""

import os
import time
from typing import Any

from vse_pipe.core.extras import absent
from vse_pipe.train.engine.tracking import Rows, Training
from vse_pipe.train.trackers.options import MlflowOptions as Params

_TAG = "fingerprint"
# Of a request: servers refuse more parameters.
_MOST = 100


def start(training: Training, params: Params) -> "_MlflowRun":
    """The run of this training, found by the training's fingerprint, which is a tag of it, or made."""
    try:
        from mlflow import entities
        from mlflow.tracking import MlflowClient
    except ImportError as error:
        raise absent("tracker mlflow", "mlflow-skinny", "mlflow") from error
    training.folder.mkdir(parents=True, exist_ok=True)
    own = f"sqlite:///{(training.folder / 'mlflow.db').resolve()}"
    client = MlflowClient(params.uri or os.environ.get("MLFLOW_TRACKING_URI") or own)
    found = client.get_experiment_by_name(params.experiment)
    experiment = found.experiment_id if found else client.create_experiment(params.experiment)
    same = client.search_runs([experiment], f"tags.{_TAG} = '{training.mark}'", max_results=1)
    if same:
        run = same[0].info.run_id
        client.update_run(run, "RUNNING")
        return _MlflowRun(client, entities, run, len(client.get_metric_history(run, "loss")))
    run = client.create_run(experiment, tags={_TAG: training.mark}, run_name=training.name).info.run_id
    named = [entities.Param(name, str(value)) for name, value in training.parameters.items()]
    for first in range(0, len(named), _MOST):
        client.log_batch(run, params=named[first : first + _MOST])
    return _MlflowRun(client, entities, run, 0)


class _MlflowRun:
    def __init__(self, client: Any, entities: Any, run: str, written: int) -> None:
        self._client, self._entities, self._run, self._written = client, entities, run, written

    def follow(self, rows: Rows) -> None:
        for row in rows[self._written :]:
            at = int(time.time() * 1000), int(row["epoch"])
            values = [self._entities.Metric(name, value, *at) for name, value in row.items() if name != "epoch"]
            self._client.log_batch(self._run, metrics=values)
            self._written += 1

    def close(self, finished: bool) -> None:
        self._client.set_terminated(self._run, "FINISHED" if finished else "KILLED")
