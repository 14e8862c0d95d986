"""The state of a run on disk: it comes back as it was, or not at all."""

from pathlib import Path

import pytest
import torch

from tests.toy_project import PARAMS, load_params
from tests.train.some import adam
from vse_pipe.project import code
from vse_pipe.project.stages import declarations
from vse_pipe.train import checkpoint
from vse_pipe.train.checkpoint import Progress


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, torch.nn.Module]:
    """The folder and the model of a run after one step."""
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64)
    optimizer = adam(model, 0.1)
    model(torch.ones(1, 64)).sum().backward()
    optimizer.step()
    best = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    kept = {"queue": torch.arange(4), "network/step": torch.tensor(2.0)}
    beside = {name: tensor + 1 for name, tensor in best.items()}
    progress = Progress(3, 50.0, 2, best, [{"epoch": 3}], [{"epoch": 2, "auc": 0.875}], kept, beside)
    checkpoint.save(tmp_path, model, optimizer, progress, "mark")
    return tmp_path, model


def test_a_state_comes_back(saved: tuple[Path, torch.nn.Module]) -> None:
    folder, model = saved
    other = torch.nn.Linear(64, 64)
    optimizer = adam(other, 0.1)
    found = checkpoint.resume(folder, other, optimizer, "mark")
    assert (found.epoch, found.best_rsum, found.best_epoch, found.history) == (3, 50.0, 2, [{"epoch": 3}])
    assert torch.equal(other.weight, model.weight)
    assert found.records == [{"epoch": 2, "auc": 0.875}]
    assert found.scheme["queue"].tolist() == [0, 1, 2, 3]
    assert found.scheme["network/step"] == 2.0
    assert torch.equal(found.best["bias"], model.bias)
    assert torch.equal(found.best_peer["bias"], model.bias + 1)
    assert optimizer.state[other.weight]["exp_avg"].shape == (64, 64)


@pytest.mark.parametrize("part", ["tensors", "epoch", "digest"])
def test_a_changed_bit_is_said_and_training_starts_again(
    saved: tuple[Path, torch.nn.Module], capsys: pytest.CaptureFixture, part: str
) -> None:
    folder, _ = saved
    path = folder / checkpoint.STATE
    content = bytearray(path.read_bytes())
    place = {"tensors": len(content) // 2, "epoch": content.index(b'epoch\\": 3') + 9, "digest": 0}[part]
    place = place or content.index(b"sha256")
    content[place] ^= 1
    path.write_bytes(content)
    model = torch.nn.Linear(64, 64)
    before = model.weight.detach().clone()
    assert checkpoint.fingerprint(folder) is None
    assert checkpoint.resume(folder, model, adam(model, 0.1), "mark") == Progress()
    assert "is damaged (its content does not match its digest)" in capsys.readouterr().err
    assert torch.equal(model.weight, before)


RUN = PARAMS["runs"]["sum"]
FRAGMENTS = {**RUN, "similarity": "sgr", "image": "regions"}
RUNS = {"plain": RUN, "l2rm": {**RUN, "scheme": "l2rm", "loss": "max"}, "sgr": FRAGMENTS}


@pytest.mark.parametrize("run", RUNS)
def test_the_digest_is_of_all_that_the_stage_and_the_members_of_the_run_import(tmp_path, run):
    params = load_params(tmp_path, runs=RUNS)
    declared = declarations()["train"]
    needed = code.needed(declared, declared.members(params, run))
    assert {"vse_pipe.ranking.recall", "vse_pipe.train.loop"} <= needed
    assert checkpoint.code_of(params.runs[run]) == code.digest(needed)


def test_a_run_does_not_depend_on_members_it_does_not_name(tmp_path):
    params = load_params(tmp_path, runs=RUNS)
    declared = declarations()["train"]
    needed = code.needed(declared, declared.members(params, "plain"))
    assert not [one for one in needed if one.startswith(("vse_pipe.train.losses.max", "vse_pipe.train.schemes.l2rm"))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "last").mkdir()
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "config.json").write_text("{}")
    checkpoint.record(tmp_path, "mark")
    return tmp_path


def test_it_is_known_by_its_fingerprint(folder):
    assert checkpoint.is_finished(folder, "mark")
    assert not checkpoint.is_finished(folder, "other")


CHANGES = {
    "changed": lambda folder: (folder / "config.json").write_text("{ }"),
    "gone": lambda folder: (folder / "model.safetensors").unlink(),
    "added": lambda folder: (folder / "last" / "more.safetensors").touch(),
    "damaged": lambda folder: (folder / checkpoint.FINISHED).write_text('{"finger'),
    "no record": lambda folder: (folder / checkpoint.FINISHED).unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_is_not_as_it_was_left(folder, change):
    CHANGES[change](folder)
    assert not checkpoint.is_finished(folder, "mark")


def test_a_state_counts_where_it_is_kept_and_only_there(folder):
    state = folder / checkpoint.STATE
    assert not checkpoint.is_finished(folder, "mark", keep_state=True), "it is to be made"
    state.write_bytes(b"moments")
    assert checkpoint.is_finished(folder, "mark"), "left by a call that was killed before it removed it"
    assert not checkpoint.is_finished(folder, "mark", keep_state=True)
    checkpoint.record(folder, "mark", keep_state=True)
    assert checkpoint.is_finished(folder, "mark", keep_state=True)
    assert not checkpoint.is_finished(folder, "mark")
    state.write_bytes(b"other")
    assert not checkpoint.is_finished(folder, "mark", keep_state=True)
