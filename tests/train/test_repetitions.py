"""A run with seeds: a model each, of which only those that are missing are trained."""

import hashlib
from pathlib import Path

import pytest

from tests.command_line import Call, caller
from tests.toy_project import PARAMS, write_params
from vse_pipe.artifacts import model_files
from vse_pipe.core.errors import ParamsError, PipelineError
from vse_pipe.core.files import read_json
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.project.params.typed import read_document
from vse_pipe.tools.check.stage import check

SEED = PARAMS["seed"]


@pytest.fixture
def call(made, monkeypatch, capsys) -> Call:
    return caller(monkeypatch, capsys, "--set", "evaluate.resamples=10")


def _name(*seeds: int, **changes: object) -> None:
    """Give the run ``sum`` these seeds; none: take them away."""
    document = read_document(Path("params.yaml"))
    document["runs"]["sum"]["seeds"] = list(seeds) or None
    write_params(Path(), **{**document, **changes})


def _models() -> dict[str, tuple[str, int]]:
    """By repetition: the weights' digest, and when they were written."""
    files = sorted(paths.trained("sum").glob(f"*/{model_files.MODEL}"))
    return {one.parent.name: (hashlib.sha256(one.read_bytes()).hexdigest(), one.stat().st_mtime_ns) for one in files}


def _trained(stderr: str) -> list[str]:
    return [line.split()[1].rstrip(":") for line in stderr.splitlines() if "best epoch" in line]


def test_a_seed_more_trains_that_seed_alone_and_one_less_removes_it(call):
    _name(1, SEED)
    status, _, said = call("train")
    assert (status, _trained(said)) == (0, ["sum/1", f"sum/{SEED}"])
    before = _models()
    _name(2, SEED, 1)
    status, _, said = call("train", "--run", "sum")
    assert (status, _trained(said)) == (0, ["sum/2"])
    assert {name: _models()[name] for name in before} == before
    assert len({digest for digest, _ in _models().values()}) == 3
    _name(2, 1)
    status, _, said = call("train", "--run", "sum")
    assert (status, _trained(said)) == (0, [])
    assert f"data/train/sum/{SEED}: removed" in said
    assert sorted(path.name for path in paths.trained("sum").iterdir() if path.is_dir()) == ["1", "2"]


def test_one_seed_alone_is_the_run_without_seeds_of_that_project_seed(call):
    of_run = paths.trained("sum")
    alone = {name: (of_run / name).read_bytes() for name in (model_files.MODEL, model_files.HISTORY, "vocabulary.json")}
    config = read_json(of_run / model_files.CONFIG)
    _name(1, SEED)
    status, _, said = call("train", "--run", f"sum/{SEED}")
    assert (status, _trained(said)) == (0, [f"sum/{SEED}"])
    assert not (of_run / "1").exists()
    assert {name: (of_run / str(SEED) / name).read_bytes() for name in alone} == alone
    assert read_json(of_run / str(SEED) / model_files.CONFIG) == config | {"run": f"sum/{SEED}"}


def test_every_stage_takes_the_run_or_one_seed_of_it(call):
    _name(1, 2)
    for stage, place in (("train", paths.trained), ("embed", paths.embedded), ("evaluate", paths.evaluations)):
        status, _, said = call(stage, "--run", "sum/2")
        assert status == 0, said
        assert place("sum/2").is_dir()
        assert not place("sum/1").exists()
        assert call(stage, "--run", "sum")[0] == 0
        assert place("sum/1").is_dir()
    assert {path.name for path in paths.evaluations("sum").iterdir() if path.is_dir()} == {"1", "2"}
    assert call("audit", "--run", "sum/1")[0] == 0
    found = check([])
    assert [problem.line for problem in found.problems if "data/audit" not in problem.line] == []
    assert (found.artefacts, found.named) == (11, 11)


def test_what_a_run_without_seeds_left_goes_and_comes_back(call):
    _name(1, 2)
    status, _, said = call("train")
    assert status == 0
    assert "removed what the run without seeds had left there" in said
    assert not (paths.trained("sum") / model_files.MODEL).exists()
    _name()
    status, _, said = call("train")
    assert (status, _trained(said)) == (0, ["sum"])
    assert "data/train/sum/1, data/train/sum/2" in said
    assert not (paths.trained("sum") / "1").exists()
    assert (paths.trained("sum") / model_files.MODEL).is_file()


def test_files_of_somebody_else_stay(call):
    strange = paths.trained("sum") / "1" / "notes.txt"
    strange.parent.mkdir()
    strange.write_text("mine", encoding="utf-8")
    before = (paths.trained("sum") / model_files.MODEL).read_bytes()
    _name(2)
    status, _, said = call("train")
    assert status == PipelineError.exit_status
    assert f"{strange}: not a file of this output" in said
    assert strange.read_text(encoding="utf-8") == "mine"
    assert (paths.trained("sum") / model_files.MODEL).read_bytes() == before


def test_where_one_model_is_needed_the_repetitions_are_named(call):
    _name(1, 2)
    export = ("--inference", "nns", "--to", "npy", "--out", "x")
    for command in (("export", *export), ("serve",), ("search", "red")):
        status, _, said = call(*command, "--run", "sum")
        assert status == 2
        assert said == "error: run 'sum' has a model for each of its seeds; name one of them: sum/1, sum/2\n"


@pytest.mark.parametrize(
    ("seeds", "said"),
    [
        ([1, 2, 1], "seed 1 is named twice"),
        ([], "at least 1 item"),
        ([-1], "greater than or equal to 0"),
        ([2**32], "less than"),
    ],
)
def test_seeds_are_distinct_numbers(folder, seeds, said):
    runs = {"sum": PARAMS["runs"]["sum"] | {"seeds": seeds}}
    with pytest.raises(ParamsError, match=f"runs.sum.seeds.*{said}"):
        load(write_params(folder, runs=runs))


def test_every_list_of_runs_knows_them(folder):
    entry = PARAMS["runs"]["sum"]
    runs = {"sum": entry | {"seeds": [4, 2**32 - 1]}, "one": entry}
    document = {
        "runs": runs,
        "report": {"audits": ["sum", "one"]},
        "ensembles": {"two": {"first": "sum/4", "second": "one"}},
    }
    params = load(write_params(folder, **document))
    assert {name: run.seed for name, run in params.runs.items()} == {
        "sum/4": 4,
        "sum/4294967295": 2**32 - 1,
        "one": SEED,
    }
    assert params.groups == {"sum": ("sum/4", "sum/4294967295")}
    assert params.report.audits == ["sum/4", "sum/4294967295", "one"]
    assert params.models("sum") == ("sum/4", "sum/4294967295")
    assert params.models("two") == ("two",)
    document["ensembles"]["two"]["first"] = "sum"
    with pytest.raises(
        ParamsError, match=r"ensembles\.two\.first: run 'sum' has a model for each of its seeds; name one: sum/4"
    ):
        load(write_params(folder, **document))
