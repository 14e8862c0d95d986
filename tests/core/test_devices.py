"""Devices, seeds, weight files of networks, and work in parts."""

import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torchvision import models

from tests.hostile import Hostile
from tests.mutants import mutants, refusals
from tests.pools import Elsewhere
from vse_pipe.core import devices, memory, workers
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, IntegrityError, UsageError
from vse_pipe.extract.backbones.options import FeatureParams
from vse_pipe.extract.compute import Forward
from vse_pipe.extract.networks import Extractor, without_classifier
from vse_pipe.pictures.images import Transform

_FAULTS = """
import resource
import torch
from vse_pipe.core import devices
{call}
for turn in range(24):
    if turn == 12:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(2**24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_the_next_block_takes_the_pages_of_the_last() -> None:
    """64 MiB are written twelve times, once blocks have found their places: pages that the system clears, 4 KiB each or, where they are
    huge, 2 MiB."""
    kept, given_back = (
        int(subprocess.run([sys.executable, "-c", _FAULTS.format(call=call)], capture_output=True, text=True, check=True).stdout)
        for call in ("devices.keep_freed()", "")
    )  # fmt: skip
    assert kept < 16 < given_back


def test_auto_takes_a_gpu_when_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device("auto") == torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto") == torch.device("cpu")


def test_a_gpu_is_named_by_number(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert resolve_device("cuda:1") == torch.device("cuda:1")
    assert resolve_device("cuda") == torch.device("cuda")
    assert resolve_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpu", "unknown device 'gpu'; known: auto, cpu, cuda, cuda:N"),
        ("cuda:", "unknown device 'cuda:'"),
        ("cuda:x", "unknown device 'cuda:x'"),
        ("", "unknown device ''"),
        ("cuda:2", "device 'cuda:2' is not there: this machine offers 2 CUDA devices"),
    ],
)
def test_names_that_are_refused(name, message, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UsageError, match=message):
        resolve_device(name)


CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({}, "float32"),
        ({"avx512_f": True}, "float32"),
        ({"amx_bf16": True}, "bfloat16"),
        ({"avx512_bf16": True}, "bfloat16"),
    ],
)
def test_auto_on_a_cpu(monkeypatch: pytest.MonkeyPatch, capabilities: dict, expected: str) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert devices.resolve_precision("auto", CPU) == expected


@pytest.mark.parametrize("native", [True, False])
def test_auto_on_a_gpu(monkeypatch: pytest.MonkeyPatch, native: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: native or including_emulation)
    assert devices.resolve_precision("auto", GPU) == ("bfloat16" if native else "float32")


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_what_is_asked_for_is_done(name: str) -> None:
    assert devices.resolve_precision(name, CPU) == name


def test_bfloat16_features_point_where_float32_ones_do() -> None:
    torch.manual_seed(0)
    transform = Transform(64, 64, "exact", "bilinear", "center", (0.5,) * 3, (0.25,) * 3)
    module = Extractor(without_classifier(models.resnet18(), 1000), transform).eval()
    batch = np.random.default_rng(0).integers(0, 256, (8, 1, 64, 64, 3), dtype=np.uint8)
    found = {}
    for name in ("float32", "bfloat16"):
        with devices.inference(CPU, name):
            found[name] = Forward(module, FeatureParams(), CPU)(batch).features
    assert found["bfloat16"].dtype == np.float32
    assert not np.array_equal(found["bfloat16"], found["float32"])
    assert (found["bfloat16"] * found["float32"]).sum(1).min() >= 0.999


def test_nothing_of_it_stays() -> None:
    with devices.inference(CPU, "bfloat16"):
        assert torch.is_autocast_enabled("cpu")
    assert not torch.is_autocast_enabled("cpu")
    assert not torch.is_inference_mode_enabled()


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


def test_without_a_pool_the_work_is_done_here_part_by_part() -> None:
    asked = iter(range(3))
    found = workers.run_parts(lambda parts: (part + 1 for part in parts), asked)
    assert (next(found), list(asked)) == (1, [1, 2])
    assert (workers.worker_count(), workers.has_pool()) == (1, False)


def test_a_pool_is_asked_while_it_is_open() -> None:
    pool = Elsewhere(count=4, block=3)
    with pytest.raises(KeyError), workers.using(pool):
        assert (workers.worker_count(), workers.has_pool()) == (4, True)
        assert list(workers.run_parts(lambda parts: [part * part for part in parts], range(10))) == [
            n * n for n in range(10)
        ]
        raise KeyError
    assert (pool.asked, workers.has_pool()) == ([10], False)
