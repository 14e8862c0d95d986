"""--engine, and the section engine of params.yaml, of the commands that can spread their work."""

import sys

import pytest

from tests.toy_project import write_params

COMMANDS = [("embed",), ("evaluate",), ("audit", "--run", "sum"), ("extract", "--features", "plain")]
WHAT = 'error: engine ray needs the extra "ray": pip install "vse-pipe[ray]"\n'


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--engine", "rya"), "error: unknown engine 'rya'; did you mean 'ray'? known: local, ray\n"),
        (("--workers", "2"), "error: --workers and --address belong to --engine ray\n"),
        (("--engine", "ray", "--workers", "0"), "error: --workers 0: expected 1 or more\n"),
    ],
)
def test_an_engine_that_is_not_there_is_one_line(call, tmp_path, command, given, message):
    write_params(tmp_path)
    assert call(*command, *given) == (2, "", message)


@pytest.mark.parametrize("command", COMMANDS[:3], ids=" ".join)
def test_params_yaml_and_the_command_line_name_it(call, tmp_path, monkeypatch, command):
    monkeypatch.setitem(sys.modules, "ray", None)
    write_params(tmp_path)
    assert call(*command, "--engine", "ray") == (4, "", WHAT)
    write_params(tmp_path, engine={"name": "ray", "workers": 2})
    assert call(*command) == (4, "", WHAT)
    status, _, err = call(*command, "--engine", "local")
    assert (status, WHAT in err) == (3, False)  # nothing is trained


def test_vectors_from_files_take_it_from_set(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    files = ("evaluate", "--images", "a.npy", "--captions", "b.npy")
    assert call("-S", "engine.name=ray", *files) == (4, "", WHAT)
    assert call("-S", "engine.memory=100", *files, "--engine", "ray") == (4, "", WHAT)
    status, _, err = call("-S", "engine.memory=0", *files)
    assert status == 2
    assert err.startswith("error: --set engine.memory: ")
