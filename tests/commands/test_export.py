"""vse-pipe export and pack, and rankings in the format of TREC."""

import numpy as np
import pytest

from tests.command_line import failure, output
from tests.evaluate.embedded import sides
from tests.evaluate.embedded import write as write_run
from tests.evaluate.files import sample, write
from tests.toy_project import write_params


def test_a_run_is_exported_to_where_the_command_was_called(call, tmp_path, monkeypatch):
    write_params(tmp_path)
    write_run(*sides({"test": 24}))
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    output(call, "export", "--run", "sum", "--inference", "csls", "--to", "npy", "--out", "o")
    assert np.load(tmp_path / "deep" / "o" / "items.npy").shape == (24, 9)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["o"], "no lock is left"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((), "export what? give --run, or --images and --captions"),
    ],
)
def test_wrong_usage_is_status_2_and_one_line(call, tmp_path, given, message):
    write_params(tmp_path)
    write(sample(), tmp_path)
    more = {"--to": "npy", "--inference": "is", "--out": "o"}
    rest = [part for option, value in more.items() if option not in given for part in (option, value)]
    status, out, err = call("export", *given, *rest)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {message}")
    assert not (tmp_path / "o").exists()


def test_the_table_and_what_does_not_go_together(call, tmp_path):
    (tmp_path / "run.txt").write_text("q 0 a 1 2 t\nq 0 b 2 1 t\nr 0 a 1 1 t\n")
    (tmp_path / "qrels.txt").write_text("q 0 b 1\np 0 b 1\n")
    out, _ = output(call, "rank", "--trec-run", "run.txt", "--qrels", "qrels.txt")
    assert "mrr 25.00" in " ".join(out.split())
    assert "of which 1 have no answer" in out
    assert "1 further ones have no correct item" in out
    err = failure(call, 2, "rank", "--trec-run", "run.txt")
    assert err == "error: --trec-run goes with --qrels FILE and --json, and nothing else\n"
    err = failure(call, 4, "rank", "--trec-run", "no.txt", "--qrels", "qrels.txt")
    assert err == "error: no.txt does not exist\n"
