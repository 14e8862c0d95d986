"""vse-pipe audit and localize, and runs on another data set."""

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from tests import regions_project as made
from tests.command_line import caller, failure, json_document, output
from tests.toy_project import write_params, write_prepared
from vse_pipe.project.params.document import read_document


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        (("--run", "summ"), 2, "error: unknown run 'summ'; did you mean 'sum'? known: sum\n"),
        (("--run", "sum"), 3, "error: data/train/sum/config.json does not exist; make it with `vse-pipe train"),
    ],
)
def test_an_audit_that_cannot_be_made_has_its_status(call, tmp_path, given, status, message):
    write_params(tmp_path)
    write_prepared()
    found, out, err = call("audit", *given)
    assert (found, out, err.startswith(message)) == (status, "", True)
    assert err.count("\n") == 1 if message else err
    assert not list(tmp_path.glob("data/audit/*/"))


ASKED = ("--run", "toy", "--image", "none.png", "--phrase")
BOXES = ("-S", "datasets.boxes.format=regions", "-S", "datasets.boxes.source=data/prepare/scenes")


@pytest.fixture(scope="module")
def regions_root(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("regions")
    with contextlib.chdir(root):
        made.write_regions_project(root, toy=made.run_of())
    return root


@pytest.fixture
def localize_project(call, regions_root, tmp_path):
    """call: the command line, in ``tmp_path``."""
    return shutil.copytree(regions_root, tmp_path, dirs_exist_ok=True)


def test_a_table_and_one_document(call, localize_project) -> None:
    made.write_embedded("toy")
    out, _ = output(call, "localize", "--run", "toy", "--device", "cpu")
    assert [line.split()[0] for line in out.splitlines()[-5:] if line.strip()] == ["all", "cool", "plain", "warm"]
    assert json_document(call, "-q", "localize", "--run", "toy", "--json")["all"]["mentions"] == 21


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        (("--run", "toy"), 3, "error: data/embed/toy/images.parquet does not exist; make it with `vse-pipe embed"),
        (("--run", "toy", "--phrase", "a dog"), 2, "error: give a photo with --image and what to find in it"),
        ((*ASKED, "a dog", "--out", "notes.png"), 2, "error: --out: notes.png exists and is not a drawing of"),
        ((*ASKED, "a dog"), 4, "error: none.png: no such file"),
        (("--run", "toy", "--image", "pipe.png", "--phrase", "a dog"), 3, "error: pipe.png is no regular file"),
    ],
)
def test_what_is_wrong_is_one_line(call, localize_project, given, status, message) -> None:
    (localize_project / "notes.png").write_text("keep me")
    os.mkfifo(localize_project / "pipe.png")
    found, out, err = call(*BOXES, "localize", *given)
    lines = [line for line in err.splitlines() if line.startswith("error")]
    assert (found, out, len(lines)) == (status, "", 1)
    assert message in lines[0].replace(f"{localize_project}/", "")
    assert not [*localize_project.glob("data/localize/*/"), *localize_project.glob("localized.png")]
    assert (localize_project / "notes.png").read_text() == "keep me"


@pytest.fixture
def cli(made, monkeypatch, capsys):
    """A project with a trained run, and a data set ``mine`` with features made as the run's own."""
    write_prepared(4, 4, 9, seed=2, dataset="mine", extracted="of_mine")
    document = read_document(Path("params.yaml"))
    document["datasets"]["mine"] = {"format": "csv", "source": "toy.csv"}
    document["features"]["of_mine"] = {"dataset": "mine", "backbone": "precomp"}
    write_params(Path(), **document)
    return caller(monkeypatch, capsys, "--set", "evaluate.resamples=10")


def _transfer(dataset: str = "mine", **sections: dict) -> None:
    document = read_document(Path("params.yaml"))
    document |= {name: document[name] | entries for name, entries in sections.items()}
    moved = {"run": "sum", "dataset": dataset, "features": "of_mine"}
    write_params(Path(), **{**document, "transfers": {"moved": moved}})


def test_a_transfer_is_no_run_to_train(cli):
    _transfer()
    err = failure(cli, 2, "train", "--run", "moved")
    assert ("'moved' is run 'sum' on data set 'mine'; name the run: sum" in err, err.strip().count("\n")) == (True, 0)
