"""Trainings that cannot go on name the failure, its place and a remedy; runs with seeds."""

import hashlib
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from tests.command_line import Call, caller, failure, output
from tests.toy_project import PARAMS, load_params, write_params
from tests.train.some import files_of, history, killed_after, weights_file
from vse_pipe.artifacts import identity, model_files, pairs
from vse_pipe.core.errors import InputError, IntegrityError, ParamsError, PipelineError
from vse_pipe.core.files import read_json, sha256
from vse_pipe.core.locks import claim
from vse_pipe.project import paths
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.load import load
from vse_pipe.train.stage import train
from vse_pipe.train.trained import Trained

SEED, RUN = PARAMS["seed"], PARAMS["runs"]["sum"]


def test_an_earlier_model_stays_until_the_new_one_is_whole(trained_project):
    before = files_of("sum")
    with pytest.raises(PipelineError, match="train sum: epoch 1"):
        train(load_params(trained_project, train={**PARAMS["train"], "lr": 1e38}), "sum", "cpu")
    assert [path.name for path in Path("data/train").iterdir() if path.is_dir()] == ["sum"], "nothing was finished"
    changed = load_params(trained_project, train={**PARAMS["train"], "epochs": 2, "lr": 5e-3})
    killed_after(1, changed, "sum")
    assert files_of("sum") == before
    train(changed, "sum", "cpu")
    assert (history().epoch.tolist(), history().lr.tolist()) == ([1, 2], [5e-3, 5e-3])
    assert [path.name for path in Path("data/train").iterdir() if path.is_dir()] == ["sum"]


@pytest.mark.parametrize("name", [model_files.MODEL, model_files.VOCABULARY, model_files.HISTORY, identity.NAME])
def test_a_model_with_a_damaged_or_absent_file_is_trained_again(trained_project, name):
    params, before = load_params(trained_project), files_of("sum")
    for damage in (Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-2])):
        damage(paths.trained("sum") / name)
        train(params, "sum", "cpu")
        assert files_of("sum") == before


def test_no_batch_of_two_pairs_is_said_and_an_earlier_model_stays(trained_project):
    folder, before = paths.injected("toy", "clean"), weights_file()
    shown = pairs.read(folder).to_pandas()
    shown.loc[shown.split == "train", ["image_id", "true_image_id"]] = 7
    pairs.write(folder, pa.Table.from_pandas(shown, preserve_index=False), {})
    wanted = "train sum: 60 training pairs of 1 images give the sampler 'images' no batch of at least 2 pairs"
    with pytest.raises(InputError, match=wanted):
        train(load_params(trained_project, runs={"sum": {**RUN, "sampler": "images"}}), "sum", "cpu")
    assert weights_file() == before


# Runs with seeds.


@pytest.fixture
def call(made, monkeypatch, capsys) -> Call:
    return caller(monkeypatch, capsys, "--set", "evaluate.resamples=10")


def _name(*seeds: int) -> None:
    """Give the run ``sum`` these seeds; none: take them away."""
    document = read_document(Path("params.yaml"))
    document["runs"]["sum"]["seeds"] = list(seeds) or None
    write_params(Path(), **document)


def _models() -> dict[str, tuple[str, int]]:
    """By repetition: the weights' digest, and when they were written."""
    files = sorted(paths.trained("sum").glob(f"*/{model_files.MODEL}"))
    return {one.parent.name: (hashlib.sha256(one.read_bytes()).hexdigest(), one.stat().st_mtime_ns) for one in files}


def _trained(call: Call, *arguments: object) -> tuple[list[str], str]:
    """The runs that `train` has trained, and stderr."""
    said = output(call, "train", *arguments)[1]
    return [line.split()[1].rstrip(":") for line in said.splitlines() if "best epoch" in line], said


def test_a_seed_more_trains_that_seed_alone_one_less_removes_it_and_none_is_the_run_itself(call):
    out = paths.trained("sum")
    _name(1, SEED)
    trained, said = _trained(call)
    assert trained == ["sum/1", f"sum/{SEED}"]
    assert "model.safetensors: removed, it is of none of the run's seeds" in said
    assert not (out / model_files.MODEL).exists()
    before = _models()
    _name(2, SEED, 1)
    assert _trained(call, "--run", "sum")[0] == ["sum/2"]
    assert {name: _models()[name] for name in before} == before
    assert len({digest for digest, _ in _models().values()}) == 3
    _name(2, 1)
    trained, said = _trained(call, "--run", "sum")
    assert trained == []
    assert f"data/train/sum/{SEED}: removed" in said
    assert sorted(path.name for path in out.iterdir() if path.is_dir()) == ["1", "2"]
    _name()
    trained, said = _trained(call)
    assert trained == ["sum"]
    assert ((out / "1").exists(), (out / model_files.MODEL).is_file()) == (False, True)


@pytest.mark.parametrize("seeds", [(2, SEED), ()])
def test_a_seed_that_another_process_writes_is_not_removed(call, seeds):
    out = paths.trained("sum")
    _name(1, SEED)
    _trained(call)
    _name(*seeds)
    with claim(out / "1"):
        assert "is being written by process" in failure(call, 75, "train", "--run", "sum")
    assert (out / "1" / model_files.MODEL).is_file()


def test_one_seed_alone_is_the_run_without_seeds_of_that_project_seed(call):
    of_run = paths.trained("sum")
    alone = {name: (of_run / name).read_bytes() for name in (model_files.MODEL, model_files.HISTORY, "vocabulary.json")}
    config = read_json(of_run / model_files.CONFIG)
    _name(1, SEED)
    assert _trained(call, "--run", f"sum/{SEED}")[0] == [f"sum/{SEED}"]
    assert not (of_run / "1").exists()
    assert {name: (of_run / str(SEED) / name).read_bytes() for name in alone} == alone
    assert read_json(of_run / str(SEED) / model_files.CONFIG) == config | {"run": f"sum/{SEED}"}


def test_every_stage_takes_the_run_or_one_seed_of_it_and_where_one_model_is_needed_they_are_named(call):
    _name(1, 2)
    for stage, place in (("train", paths.trained), ("embed", paths.embedded), ("evaluate", paths.evaluations)):
        output(call, stage, "--run", "sum/2")
        assert (place("sum/2").is_dir(), place("sum/1").exists()) == (True, False), stage
        output(call, stage, "--run", "sum")
        assert place("sum/1").is_dir(), stage
    for command in (("export", "--inference", "nns", "--to", "npy", "--out", "x"), ("serve",), ("search", "red")):
        said = failure(call, 2, *command, "--run", "sum")
        assert said == "error: run 'sum' has a model for each of its seeds; name one of them: sum/1, sum/2\n", command


def test_seeds_are_distinct_numbers(folder):
    with pytest.raises(ParamsError, match=r"runs.sum.?seeds: 1 is named twice"):
        load(write_params(folder, runs={"sum": RUN | {"seeds": [1, 2, 1]}}))


# A model that is read.


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.acceptance
def test_a_second_network_is_the_one_that_config_json_names(project):
    runs = {"two": {**RUN, "loss": "max", "scheme": "ncr"}}
    options = {"train": {**PARAMS["train"], "epochs": 2}, "scheme": {"ncr": {"warm_up": 1}}}
    folder = train(load_params(project, runs=runs, **options), "two", "cpu")
    assert len({network.files.digest for network in Trained.open(folder).networks}) == 2
    peer = folder / model_files.PEER
    shutil.copyfile(folder / model_files.MODEL, peer / model_files.MODEL)
    digests = json.loads((peer / model_files.CONFIG).read_text())["sha256"]
    edit(peer / model_files.CONFIG, sha256={**digests, model_files.MODEL: sha256(folder / model_files.MODEL)})
    with pytest.raises(IntegrityError, match=r"holds another network than config\.json names"):
        Trained.open(folder)


def test_a_model_that_this_version_cannot_build_is_refused(trained_project):
    folder = paths.trained("sum")
    edit(folder / model_files.CONFIG, embed_size=13)
    with pytest.raises(IntegrityError, match=r"config\.json: does not fit model\.safetensors or this version"):
        Trained.open(folder)
    edit(folder / model_files.CONFIG, text={"name": "gone", "params": {}})
    with pytest.raises(IntegrityError, match="gone"):
        Trained.open(folder)
