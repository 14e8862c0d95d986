"""Trackers are told of a training and never change it, whatever they do."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.toy_project import PARAMS, load_params
from tests.train.killed import killed_after
from vse_pipe.artifacts import history, model_files
from vse_pipe.core.errors import ParamsError, PipelineError
from vse_pipe.project import paths
from vse_pipe.train.engine import checkpoint, finished, tracking
from vse_pipe.train.stage import train

OUTPUTS = [*model_files.FILES, history.NAME, str(checkpoint.FILE), str(finished.FILE)]


class Fake:
    """What it was told, in order; fails when asked to."""

    def __init__(self, fails: str = "") -> None:
        self.told: list = []
        self.fails = fails

    def start(self, training, params):
        self.told.append(("start", training))
        self._do("start")
        return self

    def follow(self, rows):
        self.told.append(("follow", [dict(row) for row in rows]))
        self._do(f"follow {len(rows)}")

    def close(self, finished):
        self.told.append(("close", finished))
        self._do("close")

    def _do(self, what: str) -> None:
        if what == self.fails:
            raise ConnectionError("the server\nis gone")


@pytest.fixture
def fake(monkeypatch):
    def named(**members: Fake) -> None:
        monkeypatch.setattr(tracking, "TRACKERS", SimpleNamespace(load=members.__getitem__))

    return named


def told(root: Path, *names: str, **changes: object):
    return load_params(root, trackers={name: {} for name in names}, **changes)


def outputs() -> dict[str, bytes]:
    return {name: (paths.trained("sum") / name).read_bytes() for name in OUTPUTS}


def test_it_is_told_parameters_every_epoch_and_the_end_and_changes_nothing(project, fake):
    train(load_params(project), "sum", "cpu")
    plain = outputs()
    for path in sorted(paths.trained("sum").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    one = Fake()
    fake(wandb=one)
    train(told(project, "wandb"), "sum", "cpu")
    assert outputs() == plain
    (_, training), *followed, ended = one.told
    rows = history.read(paths.trained("sum")).to_dict("records")
    assert [[row["epoch"] for row in seen] for _, seen in followed] == [[], [1], [1, 2], [1, 2, 3], [1, 2, 3, 4]]
    assert followed[-1][1] == [pytest.approx(row) for row in rows]
    assert ended == ("close", True)
    assert (training.name, training.place, training.folder) == ("sum", Path("sum"), Path("data/track"))
    assert training.parameters["train.epochs"] == PARAMS["train"]["epochs"]
    assert (training.parameters["text"], training.parameters["text.word_dim"]) == ("gru", 6)
    assert training.parameters["text.vectors"] == "null"
    one.told.clear()
    train(told(project, "wandb"), "sum", "cpu")
    assert one.told == [], "nothing is trained, so there is nothing to tell"


def test_a_training_that_goes_on_has_the_same_mark_and_begins_with_its_rows(project, fake):
    one = Fake()
    fake(wandb=one)
    params = told(project, "wandb")
    killed_after(2, params, "sum")
    assert one.told[-1] == ("close", False)
    first = one.told[0][1]
    one.told.clear()
    train(params, "sum", "cpu")
    assert one.told[0][1].mark == first.mark
    assert [len(seen) for what, seen in one.told if what == "follow"] == [2, 3, 4]


@pytest.mark.parametrize("fails", ["follow 0", "follow 2", "close"])
def test_one_that_fails_is_said_once_and_the_training_is_as_it_would_have_been(project, fake, capsys, fails):
    broken, whole = Fake(fails), Fake()
    fake(mlflow=broken, wandb=whole)
    train(told(project, "mlflow", "wandb"), "sum", "cpu")
    warning = "train sum: tracker mlflow failed and is left out from here on (ConnectionError: the server is gone)"
    assert capsys.readouterr().err.count(warning) == 1
    assert whole.told[-1] == ("close", True)
    assert (paths.trained("sum") / model_files.MODEL).is_file()
    assert broken.told[-1][0] == fails.split()[0]


def test_one_that_does_not_start_stops_the_command_before_anything_is_lost(project, fake):
    changed = {"train": {**PARAMS["train"], "lr": 5e-3}}
    killed_after(2, load_params(project), "sum")
    state = (paths.trained("sum").with_name("sum.partial") / checkpoint.FILE).read_bytes()
    first = Fake()
    fake(mlflow=first, wandb=Fake("start"))
    with pytest.raises(
        PipelineError, match=r"tracker wandb does not start \(ConnectionError: the server is gone\); mend"
    ):
        train(told(project, "mlflow", "wandb", **changed), "sum", "cpu")
    assert (paths.trained("sum").with_name("sum.partial") / checkpoint.FILE).read_bytes() == state
    assert first.told[-1] == ("close", False)


def test_a_killed_training_goes_on_without_one_that_does_not_start(project, fake, capsys):
    killed_after(2, load_params(project), "sum")
    whole = Fake()
    fake(mlflow=whole, wandb=Fake("start"))
    train(told(project, "mlflow", "wandb"), "sum", "cpu")
    assert (
        "tracker wandb does not start (ConnectionError: the server is gone) and is left out" in capsys.readouterr().err
    )
    assert [len(seen) for what, seen in whole.told if what == "follow"] == [2, 3, 4]
    assert whole.told[-1] == ("close", True)


def test_places_of_trainings_differ(project):
    run = load_params(project).runs["sum"]
    outs = {"max/1": paths.trained("max/1"), "choose/max/0a": Path("data/choose/max/0a"), "there": project / "there"}
    found = {place: tracking.Training.of(run, "max", "0", out).place for place, out in outs.items()}
    assert {place: str(one) for place, one in found.items()} == {place: place for place in outs}


def test_a_name_that_is_none_gets_the_near_miss(project):
    with pytest.raises(
        ParamsError, match=r"trackers\.tensorbord: unknown tracker 'tensorbord'; did you mean 'tensorboard'"
    ):
        told(project, "tensorbord")
