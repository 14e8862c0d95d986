import importlib.util

import pytest

from tests.train.trackers.some import MARK, PARAMETERS, ROWS, interrupted, training, without
from vse_pipe.core.errors import MissingResource
from vse_pipe.train.trackers.mlflow import Params, start

needed = pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="needs mlflow-skinny (extra: mlflow)")


@pytest.fixture
def runs(folder, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def read(uri: str = ""):
        from mlflow.tracking import MlflowClient

        client = MlflowClient(uri or f"sqlite:///{folder}/data/track/mlflow.db")
        experiment = client.get_experiment_by_name("vse-pipe")
        return client, client.search_runs([experiment.experiment_id])

    return read


@needed
@pytest.mark.acceptance
@pytest.mark.filterwarnings("ignore")
def test_a_database_has_one_run_with_every_epoch_once_also_of_a_training_that_went_on(runs, folder):
    interrupted(start, Params())
    client, (run,) = runs()
    assert (run.info.run_name, run.info.status, run.data.tags["fingerprint"]) == ("max/1", "FINISHED", MARK)
    assert run.data.params == {name: str(value) for name, value in PARAMETERS.items()}
    found = [(one.step, one.value) for one in client.get_metric_history(run.info.run_id, "loss")]
    assert found == [(row["epoch"], row["loss"]) for row in ROWS]
    again = start(training("f" * 64), Params())
    again.close(False)
    assert sorted(one.info.status for one in runs()[1]) == ["FINISHED", "KILLED"]
    assert [path.name for path in folder.iterdir()] == ["data"]


def test_without_the_package_the_extra_is_named(folder, monkeypatch):
    without("mlflow", monkeypatch, "mlflow.tracking", "mlflow.entities")
    with pytest.raises(MissingResource, match=r"tracker mlflow needs .*'vse-pipe\[mlflow\]'"):
        start(training(), Params())
