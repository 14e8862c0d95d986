"""What a stage must not remove, whoever put it there."""

import shutil
from pathlib import Path

import pytest

from tests.command_line import caller

STAGES = {
    "prepare --dataset toy": "prepare/toy",
    "extract --texts words": "extract/toy/words",
    "inject --noise clean": "inject/toy/clean",
    "train --run sum": "train/sum",
    "embed --run sum": "embed/sum",
    "evaluate --run sum --inference nns": "evaluate/sum/nns",
    "audit --run sum": "audit/sum",
}


@pytest.mark.parametrize(("command", "out"), STAGES.items(), ids=list(STAGES))
def test_what_is_not_ours_is_never_removed(made, monkeypatch, capsys, command, out):
    """Neither a file in an output's folder nor one in the folder's place, and the earlier output stays with it."""
    call, folder = (
        caller(monkeypatch, capsys, "-S", "texts.words.min_count=2", "-S", "train.lr=0.02"),
        Path("data") / out,
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "notes.txt").write_text("mine")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    status, _, err = call(*command.split())
    assert (status, err.splitlines()[-1].partition(", which")[0]) == (
        1,
        f"error: {folder}/notes.txt: not a file of this output",
    )
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    shutil.rmtree(folder)
    folder.write_text("mine")
    status, _, err = call(*command.split())
    # Criteria are replaced together, so a file in the place of one is a file in the folder of the run.
    why = (
        "not a file of this output, which is to be replaced"
        if out.endswith("nns")
        else "a file lies in the place of a folder"
    )
    assert (status, err.splitlines()[-1].partition(";")[0]) == (1, f"error: {folder}: {why}")
    assert folder.read_text() == "mine"
