"""Devices, seeds, work in parts, and weight files of networks: what they hold and where they come from."""

import hashlib
import http.client
import io
import os
import urllib.error
import urllib.request
import warnings
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from tests.hostile import Hostile
from vse_pipe.core import devices, memory
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, UsageError
from vse_pipe.core.weights import WeightsFile, cache, locate, source_of


@pytest.fixture
def two_gpus(monkeypatch):
    """As far as torch can tell; its settings are put back."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    yield
    torch.set_deterministic_debug_mode("default")
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic = True, False


def test_a_gpu_is_taken_when_there_is_one_and_named_by_number(two_gpus, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device("auto") == torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto") == torch.device("cpu")
    assert resolve_device("cuda:1") == torch.device("cuda:1")
    assert resolve_device("cuda") == torch.device("cuda")
    assert resolve_device("cpu") == torch.device("cpu")


def test_a_gpu_computes_the_same_bytes_again_and_rounds_to_tf32_only_where_asked(two_gpus, monkeypatch):
    def rounds() -> list[bool]:
        return [torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32]

    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    resolve_device("cpu")
    assert torch.get_deterministic_debug_mode() == 0
    resolve_device("cuda:1")
    assert torch.get_deterministic_debug_mode() == 1
    assert torch.backends.cudnn.deterministic
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert rounds() == [False, False]
    for precision, expected in (("tf32", [True, True]), ("bfloat16", [True, False]), ("float32", [False, False])):
        with devices.rounded(precision):
            assert rounds() == expected
        assert rounds() == [False, False]
    with devices.rounded("tf32"):
        with devices.rounded("float32"):
            assert rounds() == [False, False]
        assert rounds() == [True, True]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpu", "unknown device 'gpu'; known: auto, cpu, cuda or cuda:N"),
        ("cuda:x", "unknown device 'cuda:x'"),
        ("cuda:2", "device 'cuda:2' is not there: this machine has 2 cuda devices"),
    ],
)
def test_names_that_are_refused(name, message, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UsageError, match=message):
        resolve_device(name)


CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("capability", "expected"),
    [(None, "float32"), ("avx512_f", "float32"), ("amx_bf16", "bfloat16"), ("avx512_bf16", "bfloat16")],
)
def test_auto_on_a_cpu(monkeypatch: pytest.MonkeyPatch, capability: str | None, expected: str) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {capability: True} if capability else {})
    assert devices.resolve_precision("auto", CPU) == expected


def layers() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


STATE = {name: torch.randn(value.shape) if value.shape else value for name, value in layers().state_dict().items()}


STRIPPED = {f"module.{name}": value for name, value in STATE.items()}
CONTENTS = {"w.pth": STATE, "w.safetensors": STATE, "both.pth": {"state_dict": STRIPPED}}
CONTENTS |= {
    "part.safetensors": {name.replace(".", "._orig_mod.", 1): value for name, value in STATE.items()},
    "model.pth": {"model": STATE},
}


@pytest.mark.parametrize("name", CONTENTS)
def test_weights_are_those_that_were_saved(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    (save_file if path.suffix == ".safetensors" else torch.save)(CONTENTS[name], path)
    model, found = layers(), devices.read_weights(path)
    devices.load_weights(model, found, path)
    assert found.keys() == STATE.keys()
    assert all(torch.equal(value, STATE[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_a_pickle_with_code_is_refused_and_not_run(folder: Path, legacy: bool) -> None:
    content = {"a": torch.zeros(1), "b": Hostile(Path("pwned.txt"))}
    torch.save(content, "w.pth", _use_new_zipfile_serialization=not legacy)
    with pytest.raises(InputError, match=r"w.pth: holds more than tensors, refused"):
        devices.read_weights(Path("w.pth"))
    assert not Path("pwned.txt").exists()
    torch.load("w.pth", weights_only=False)
    assert Path("pwned.txt").exists(), "the pickle would not have shown an attack"


def scripted(path: Path) -> None:
    with warnings.catch_warnings(action="ignore"):
        torch.jit.script(layers()).save(path)


def cut(path: Path, save, bytes_off: int) -> None:
    save(STATE, path)
    path.write_bytes(path.read_bytes()[:-bytes_off])


@pytest.mark.parametrize(
    ("name", "write", "error", "message"),
    [
        ("w.pth", lambda path: cut(path, torch.save, 200), IntegrityError, "damaged weights file"),
        ("w.pt", lambda path: scripted(path), (InputError, IntegrityError), ""),
        ("w.safetensors", lambda path: cut(path, save_file, 4), IntegrityError, "damaged weights file"),
        ("w.pth", lambda path: torch.save(torch.zeros(2), path), InputError, "not a state dict"),
    ],
    ids=["zip", "torchscript", "safetensors", "tensor"],
)
def test_refuses(tmp_path: Path, name: str, write, error: type, message: str) -> None:
    write(tmp_path / name)
    with pytest.raises(error, match=f"{name}: .*{message}"):
        devices.read_weights(tmp_path / name)


def test_weights_that_pack_gigabytes_are_not_unpacked(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(2**22)}, tmp_path / "plain.pth")
    deflated = zipfile.ZipFile(tmp_path / "w.pth", "w", zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile(tmp_path / "plain.pth") as plain, deflated as packed:
        for name in plain.namelist():
            packed.writestr(name, plain.read(name))
    refused = pytest.raises(InputError, match=r"w\.pth: takes 17 MiB in memory, more than the 8")
    with memory.limit(8, "some.memory"), refused:
        devices.read_weights(tmp_path / "w.pth")


def test_every_key_must_fit() -> None:
    state = {**STATE, "0.bias": torch.zeros(9)}
    with pytest.raises(InputError, match=r"^w.pth does not fit Sequential: size mismatch for 0.bias: .*\[9\].*\[2\]"):
        devices.load_weights(layers(), state, Path("w.pth"))


def test_seeded_depends_on_seed_and_names_only() -> None:
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    first, again, other = (devices.seeded(layers, seed, name) for seed, name in [(1, "a"), (1, "a"), (1, "b")])
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first[0].weight, again[0].weight)
    assert not torch.equal(first[0].weight, other[0].weight)
    assert not torch.equal(first[0].weight, devices.seeded(layers, 2, "a")[0].weight)


CONTENT = b"weights"
DIGEST, TAMPERED = (hashlib.sha256(content).hexdigest() for content in (CONTENT, b"tampered"))
URL = f"https://example.org/models/net-{DIGEST[:8]}.pth"
SOURCE = source_of(URL)


class Response(io.BytesIO):
    def info(self) -> http.client.HTTPMessage:
        return http.client.HTTPMessage()


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> dict:
    """network["answer"] is what the opener gives, or raises."""
    said: dict = {"answer": urllib.error.URLError("Name or service not known"), "asked": []}

    def opener(request: urllib.request.Request):
        said["asked"].append(request.full_url)
        if isinstance(said["answer"], Exception):
            raise said["answer"]
        return said["answer"]

    monkeypatch.setattr("torch.hub.urlopen", opener)
    return said


def test_the_digest_is_read_from_the_name_and_the_cache_is_torchvisions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert source_of("https://x/mnasnet0.5_top1_67.823-3ffadce67e.pth").digest == "3ffadce67e"
    assert source_of("https://x/net-v2.pth").digest == ""
    monkeypatch.delenv("VSE_PIPE_WEIGHTS", raising=False)
    monkeypatch.setenv("TORCH_HOME", "/t")
    assert cache() == Path("/t/hub/checkpoints")


def test_downloads_once_and_checks_every_time(folder: Path, network: dict) -> None:
    network["answer"] = Response(CONTENT)
    found = locate("imagenet", None, SOURCE, seed=1)
    assert found.path == folder / "weights" / SOURCE.file
    assert found.about == {"origin": "published", "url": URL, "file": SOURCE.file, "sha256": DIGEST, "pinned": True}
    assert locate("imagenet", None, SOURCE, seed=1) == found
    assert network["asked"] == [URL]
    found.path.write_bytes(b"tampered")
    with pytest.raises(IntegrityError, match=rf"sha256 is {TAMPERED}, expected {DIGEST[:8]}"):
        locate("imagenet", None, SOURCE, seed=1)


def test_unreachable_says_how_to_get_it_by_hand(folder: Path, network: dict) -> None:
    with pytest.raises(MissingResource) as caught:
        locate("imagenet", None, SOURCE, seed=1)
    target = folder / "weights" / SOURCE.file
    for part in (URL, "Name or service not known", f"sha256 begins with {DIGEST[:8]}", f"put it at {target}"):
        assert part in str(caught.value)
    assert caught.value.exit_status == 4
    assert list((folder / "weights").iterdir()) == []


def test_without_a_published_digest_params_must_pin_it(folder: Path, network: dict) -> None:
    bare = WeightsFile("https://example.org/model.safetensors", "net.safetensors", "")
    with pytest.raises(UsageError, match=r"no digest is known for https://example.org/model.safetensors: set sha256"):
        locate("imagenet", None, bare, seed=1)
    network["answer"] = Response(CONTENT)
    found = locate("imagenet", DIGEST, bare, seed=1)
    assert found.path.name == f"net-{DIGEST[:8]}.safetensors"
    assert len(network["asked"]) == 1


def test_a_digest_in_params_may_not_contradict_the_published_one_and_is_compared_whole(folder: Path) -> None:
    with pytest.raises(UsageError, match="contradicts the published digest"):
        locate("imagenet", "0" * 64, SOURCE, seed=1)
    path = folder / "weights" / SOURCE.file
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    wrong = DIGEST[:8] + "0" * 56
    with pytest.raises(IntegrityError, match=f"expected {wrong}"):
        locate("imagenet", wrong, SOURCE, seed=1)


def test_random_never_looks_for_a_file_and_of_a_path_a_missing_pin_is_said(
    folder: Path, network: dict, capsys: pytest.CaptureFixture
) -> None:
    found = locate("random", None, SOURCE, seed=3)
    assert found.path is None
    assert found.about == {"origin": "random", "seed": 3}
    assert network["asked"] == []
    Path("own.pth").write_bytes(CONTENT)
    found = locate("own.pth", None, None, seed=1)
    assert found.about == {"origin": "file", "file": "own.pth", "sha256": DIGEST, "pinned": False}
    assert f"sha256: {DIGEST}" in capsys.readouterr().err
    assert locate("own.pth", DIGEST, None, seed=1).about["pinned"]
    assert capsys.readouterr().err == ""
