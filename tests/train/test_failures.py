"""Training that cannot go on says what failed, where and what to do."""

import os
import shutil
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
import torch

from tests.toy_project import PARAMS, load_params
from tests.train.killed import killed_after
from tests.train.some import some_pairs, some_scheme
from vse_pipe.artifacts import features, model_files, pairs
from vse_pipe.core.errors import InputError, IntegrityError, PipelineError
from vse_pipe.project import paths
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
