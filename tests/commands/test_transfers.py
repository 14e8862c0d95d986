"""embed, evaluate, export and search of a run on another data set, from the command line."""

import json
from pathlib import Path

import pytest

from tests.command_line import caller
from tests.toy_project import write_params, write_prepared
from vse_pipe.artifacts import embeddings
from vse_pipe.project import paths
from vse_pipe.project.params.document import read_document


@pytest.fixture
def cli(made, monkeypatch, capsys):
    """A project with a trained run, and a data set ``mine`` with features made as the run's own."""
    write_prepared(4, 4, 9, seed=2, dataset="mine", extracted="of_mine")
    document = read_document(Path("params.yaml"))
    document["datasets"]["mine"] = {"format": "csv", "source": "toy.csv"}
    document["features"]["of_mine"] = {"dataset": "mine", "backbone": "precomp"}
    write_params(Path(), **document)
    return caller(monkeypatch, capsys, "--set", "evaluate.resamples=10")


def _add_entry() -> None:
    document = read_document(Path("params.yaml"))
    write_params(Path(), **{**document, "transfers": {"moved": {"run": "sum", "dataset": "mine"}}})


def test_one_call_embeds_and_ranks_without_an_entry(cli):
    status, _, err = cli("embed", "--run", "sum", "--dataset", "mine", "--device", "cpu")
    assert status == 0, err
    assert "embed sum@mine: words that run 'sum' does not know: test 0.0%, train 0.0%, val 0.0%" in " ".join(
        err.split()
    )
    status, out, err = cli("evaluate", "--run", "sum", "--dataset", "mine", "--inference", "nns", "--json")
    assert status == 0, err
    found = json.loads(out)["sum@mine"]["nns"]
    assert found["image_to_text"]["queries"] == 9
    assert found["transfer"]["trained_on"] == "toy"


def test_an_entry_is_a_name_like_that_of_a_run(cli, tmp_path):
    _add_entry()
    for command in (
        ("embed", "--dataset", "mine", "--run", "sum"),
        ("evaluate", "--run", "moved", "--inference", "csls"),
    ):
        status, _, err = cli(*command, "--device", "cpu")
        assert status == 0, err
    assert not paths.embedded("sum@mine").exists()
    own = embeddings.read(paths.embedded("moved") / embeddings.IMAGES)
    status, out, err = cli("search", "red dog", "--run", "moved", "--json", "--k", "3", "--inference", "csls")
    assert status == 0, err
    assert {hit["image_id"] for hit in json.loads(out)["hits"]} <= set(own.split("test").ids.tolist())
    status, _, err = cli("export", "--run", "moved", "--inference", "csls", "--to", "npy", "--out", tmp_path / "out")
    assert status == 0, err
    assert json.loads((tmp_path / "out/manifest.json").read_text())["transfer"]["dataset"] == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "--run", "moved"), "'moved' is run 'sum' on data set 'mine'; name the run: sum"),
        (("embed", "--run", "sum", "--dataset", "min"), "unknown data set 'min'; did you mean 'mine'?"),
        (("embed", "--run", "sum", "--dataset", "toy"), "run 'sum' was trained on 'toy' itself; name another data set"),
        (
            ("embed", "--run", "moved", "--dataset", "mine"),
            "'moved' is run 'sum' on data set 'mine'; name the run: sum",
        ),
        (("evaluate", "--images", "a.npy", "--captions", "b.npy", "--dataset", "mine"), "exclude each other"),
    ],
)
def test_what_cannot_be_is_one_line(cli, arguments, message):
    _add_entry()
    status, _, err = cli(*arguments)
    assert status == 2
    assert message in " ".join(err.split())
    assert len(err.strip().splitlines()) == 1


def test_check_finds_embeddings_of_another_data_set(cli):
    _add_entry()
    cli("embed", "--run", "moved", "--device", "cpu")
    document = read_document(Path("params.yaml"))
    document["datasets"]["other"] = document["datasets"]["mine"]
    document["features"]["more"] = {**document["features"]["of_mine"], "dataset": "other"}
    write_params(Path(), **{**document, "transfers": {"moved": {"run": "sum", "dataset": "other"}}})
    status, out, err = cli("check")
    assert status != 0
    assert "not what params.yaml transfers.moved says" in " ".join((out + err).split())
