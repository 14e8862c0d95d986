"""Weight files: what loads, and what is refused without running anything."""

import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from tests.hostile import Hostile
from tests.mutants import mutants, refusals
from vse_pipe.core import devices, memory
from vse_pipe.core.errors import InputError, IntegrityError


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


STATE = {name: torch.randn(value.shape) if value.shape else value for name, value in network().state_dict().items()}


@pytest.mark.parametrize(
    "content",
    [
        STATE,
        {"state_dict": STATE},
        {"model": STATE},
        {"model_state_dict": STATE},
        {f"module.{name}": value for name, value in STATE.items()},
        {"state_dict": {f"module.{name}": value for name, value in STATE.items()}},
    ],
    ids=["plain", "state_dict", "model", "model_state_dict", "module", "both"],
)
def test_pth(tmp_path: Path, content: dict) -> None:
    torch.save(content, tmp_path / "w.pth")
    model = network()
    devices.load_weights(model, devices.read_weights(tmp_path / "w.pth"), tmp_path / "w.pth")
    assert all(torch.equal(value, STATE[name]) for name, value in model.state_dict().items())


def test_safetensors(tmp_path: Path) -> None:
    save_file(STATE, tmp_path / "w.safetensors")
    found = devices.read_weights(tmp_path / "w.safetensors")
    assert found.keys() == STATE.keys()
    assert all(torch.equal(found[name], STATE[name]) for name in STATE)


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_a_pickle_with_code_is_refused_and_not_run(folder: Path, legacy: bool) -> None:
    torch.save(
        {"a": torch.zeros(1), "b": Hostile(Path("pwned.txt"))}, "w.pth", _use_new_zipfile_serialization=not legacy
    )
    with pytest.raises(InputError, match=r"w.pth: holds more than tensors, refused"):
        devices.read_weights(Path("w.pth"))
    assert not Path("pwned.txt").exists()
    torch.load("w.pth", weights_only=False)
    assert Path("pwned.txt").exists(), "the pickle would not have shown an attack"


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_a_class_with_an_endless_name_is_refused_at_once(tmp_path: Path, legacy: bool) -> None:
    path = tmp_path / "w.pth"
    torch.save({"a": torch.zeros(1)}, path, _use_new_zipfile_serialization=not legacy)
    name = b"ctorch._utils\n_rebuild_tensor_v2\n"
    endless = name.replace(b"_utils", b"_utils" * 20_000)
    if legacy:
        path.write_bytes(path.read_bytes().replace(name, endless))
    else:
        with zipfile.ZipFile(path) as whole:
            members = {member: whole.read(member).replace(name, endless) for member in whole.namelist()}
        with zipfile.ZipFile(path, "w") as changed:
            for member, content in members.items():
                changed.writestr(member, content)
    with pytest.raises(InputError, match=r"w\.pth: names a class of 1200\d\d characters, refused"):
        devices.read_weights(path)


def damaged_zip(path: Path) -> None:
    torch.save(STATE, path)
    path.write_bytes(path.read_bytes()[:-200])


def damaged_safetensors(path: Path) -> None:
    save_file(STATE, path)
    path.write_bytes(path.read_bytes()[:-4])


@pytest.mark.parametrize(
    ("name", "write", "error", "message"),
    [
        ("w.pth", damaged_zip, IntegrityError, "damaged weights file"),
        ("w.pth", lambda path: path.write_bytes(b""), IntegrityError, "damaged weights file"),
        ("w.pth", lambda path: path.write_bytes(b"<html>"), InputError, "refused"),
        ("w.safetensors", damaged_safetensors, IntegrityError, "damaged safetensors file"),
        ("w.pth", lambda path: torch.save(torch.zeros(2), path), InputError, "expected names with tensors, got Tensor"),
        ("w.pth", lambda path: torch.save({}, path), InputError, "got an empty dictionary"),
        ("w.pth", lambda path: torch.save({"a": 1}, path), InputError, "got a dictionary with 'a': int"),
    ],
    ids=["zip", "empty", "html", "safetensors", "tensor", "no keys", "number"],
)
def test_refuses(tmp_path: Path, name: str, write, error: type, message: str) -> None:
    write(tmp_path / name)
    with pytest.raises(error, match=f"{name}: .*{message}"):
        devices.read_weights(tmp_path / name)


@pytest.mark.parametrize("kind", ["zip", "legacy", "safetensors"])
def test_mutants_end_in_one_line(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("w.safetensors" if kind == "safetensors" else "w.pth")
    if kind == "safetensors":
        save_file(STATE, path)
    else:
        torch.save(STATE, path, _use_new_zipfile_serialization=kind == "zip")
    assert len(refusals(path, mutants(path.read_bytes(), 250), lambda: devices.read_weights(path))) > 60


def test_weights_that_pack_gigabytes_are_not_unpacked(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(2**22)}, tmp_path / "plain.pth")
    deflated = zipfile.ZipFile(tmp_path / "w.pth", "w", zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile(tmp_path / "plain.pth") as plain, deflated as packed:
        for name in plain.namelist():
            packed.writestr(name, plain.read(name))
    with (
        memory.limit(8, "some.memory"),
        pytest.raises(InputError, match=r"w\.pth: takes 17 MiB in memory, more than the 8"),
    ):
        devices.read_weights(tmp_path / "w.pth")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("0.weight"), "w.pth does not fit Sequential: missing: 0.weight$"),
        (lambda state: state.update(extra=torch.zeros(1)), "unexpected: extra$"),
        (lambda state: state.update({"0.bias": torch.zeros(9)}), "shapes: 0.bias is 9, expected 2$"),
        (lambda state: state.clear(), "missing: 0.weight, 0.bias, 1.weight, 1.bias and 3 more$"),
    ],
)
def test_every_key_must_fit(change, message: str) -> None:
    state, model = dict(STATE), network()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    change(state)
    with pytest.raises(InputError, match=message):
        devices.load_weights(model, state, Path("w.pth"))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_seeded_depends_on_seed_and_names_only() -> None:
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    first, again, other = (devices.seeded(network, seed, name) for seed, name in [(1, "a"), (1, "a"), (1, "b")])
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first[0].weight, again[0].weight)
    assert not torch.equal(first[0].weight, other[0].weight)
    assert not torch.equal(first[0].weight, devices.seeded(network, 2, "a")[0].weight)
