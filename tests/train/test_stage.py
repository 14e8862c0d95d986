"""Trainings that cannot go on name the failure, its place and a remedy; runs with seeds."""

import hashlib
import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
import torch

from tests.command_line import Call, caller
from tests.toy_project import PARAMS, load_params, write_params
from tests.train.some import killed_after, some_pairs, some_scheme
from vse_pipe.artifacts import features, model_files, pairs
from vse_pipe.core.errors import InputError, IntegrityError, ParamsError, PipelineError
from vse_pipe.core.files import read_json
from vse_pipe.project import paths
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.load import load
from vse_pipe.tools.check import check
from vse_pipe.train import loop
from vse_pipe.train.stage import train


def test_weights_that_are_not_finite_are_said_with_run_and_epoch(project, monkeypatch):
    """The loss before the step was finite still."""
    real = loop.step

    def step(scheme, optimizer, batch):
        value = real(scheme, optimizer, batch)
        scheme.setting.model.img.fc.weight.data.fill_(float("nan"))
        return value

    monkeypatch.setattr(loop, "step", step)
    params = load_params(project, train={**PARAMS["train"], "batch_size": 512})
    with pytest.raises(
        PipelineError, match=r"^train sum, epoch 1, validation: .* NaN .*; lower train\.lr, or check"
    ) as error:
        train(params, "sum", "cpu")
    assert error.value.exit_status == 1


def test_an_earlier_model_stays_until_the_new_one_is_whole(project):
    train(load_params(project), "sum", "cpu")
    out = paths.trained("sum")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(PipelineError, match="train sum, epoch 1"):
        train(load_params(project, train={**PARAMS["train"], "lr": 1e38}), "sum", "cpu")
    assert {path.name for path in out.parent.iterdir() if path.is_dir()} == {"sum"}, "nothing was finished"
    changed = load_params(project, train={**PARAMS["train"], "lr": 5e-3})
    killed_after(2, changed, "sum")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    train(changed, "sum", "cpu")
    assert model_files.read_history(out).lr.iloc[0] == 5e-3
    assert {path.name for path in out.parent.iterdir() if path.is_dir()} == {"sum"}


def test_the_folder_of_a_renamed_run_is_not_up_to_date(project):
    params = load_params(project)
    train(params, "sum", "cpu")
    whole = (paths.trained("sum") / model_files.MODEL).read_bytes()
    paths.trained("sum").rename(paths.trained("base"))
    renamed = load_params(project, runs={"base": PARAMS["runs"]["sum"]})
    train(renamed, "base", "cpu")
    assert model_files.read(paths.trained("base")).config["run"] == "base"
    assert (paths.trained("base") / model_files.MODEL).read_bytes() == whole


@pytest.mark.parametrize(
    "error", [RuntimeError("DefaultCPUAllocator: no"), torch.OutOfMemoryError("no"), MemoryError()]
)
def test_memory_that_runs_out_ends_with_advice_and_finished_epochs_stay(project, monkeypatch, error):
    params = load_params(project)
    train(params, "sum", "cpu")
    whole = (paths.trained("sum") / model_files.MODEL).read_bytes()
    shutil.rmtree(paths.trained("sum"))
    killed_after(2, params, "sum")
    with monkeypatch.context() as patch:
        patch.setattr(loop, "step", Mock(side_effect=error))
        wanted = r"^train sum, epoch 3: out of memory.*goes on after 2 finished epochs.*runs\.sum\.train\.chunk"
        with pytest.raises(PipelineError, match=wanted):
            train(params, "sum", "cpu")
    train(params, "sum", "cpu")
    assert (paths.trained("sum") / model_files.MODEL).read_bytes() == whole


def test_features_that_are_changed_in_place_meanwhile_end_the_run_before_its_epoch_is_kept(project, monkeypatch):
    path, real = paths.extracted("toy", "plain") / features.ARRAY, loop.step

    def step(*arguments):
        with path.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"x")
        return real(*arguments)

    monkeypatch.setattr(loop, "step", step)
    with pytest.raises(IntegrityError, match=r"^data/extract/toy/plain/features\.npy: changed while it was read"):
        train(load_params(project), "sum", "cpu")
    assert not paths.trained("sum").with_name("sum.partial").exists()


def test_a_failure_of_validation_that_is_not_the_weights_keeps_its_class(tmp_path):
    def validate(model):
        raise IntegrityError("a picture changed")

    with pytest.raises(IntegrityError, match=r"^train name, epoch 1, validation: a picture changed$"):
        loop.fit(
            some_scheme(some_pairs()),
            lambda epoch: [np.arange(8)],
            validate,
            tmp_path,
            "mark",
            "name",
        )


def test_no_batch_of_two_pairs_is_said_and_an_earlier_model_stays(project):
    params = load_params(project, runs={"sum": {**PARAMS["runs"]["sum"], "sampler": "images"}})
    train(params, "sum", "cpu")
    before = (paths.trained("sum") / model_files.MODEL).read_bytes()
    folder = paths.injected("toy", "clean")
    shown = pairs.read(folder).to_pandas()
    for column in ("image_id", "true_image_id"):
        shown.loc[shown.split == "train", column] = 7
    pairs.write(folder, pa.Table.from_pandas(shown, preserve_index=False), {})
    wanted = "train sum: 60 training pairs of 1 images give the sampler 'images' no batch of at least 2 pairs"
    with pytest.raises(InputError, match=wanted):
        train(params, "sum", "cpu")
    assert (paths.trained("sum") / model_files.MODEL).read_bytes() == before


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
