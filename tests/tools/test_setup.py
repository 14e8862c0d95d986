"""`vse-pipe doctor`, and the loops that set-up compiles."""

import importlib
import json
import platform

import pytest
from numba.core.dispatcher import Dispatcher

from tests.command_line import caller, output
from tests.rules.sources import PACKAGE, modules
from vse_pipe.tools import doctor, kernels
from vse_pipe.tools.doctor import FAIL, OK, WARN, Line

REPORT = {"torch": "2.15.0", "vision": "0.29.2", "built_for": "", "cpu": "AVX512", "threads": 2, "devices": []}
REPORT |= {"native": ["amx_bf16", "avx512_bf16"]}


@pytest.fixture(autouse=True)
def report(monkeypatch, tmp_path):
    """Outside a project, with the report of a machine that is well; what a test changes in it."""
    monkeypatch.chdir(tmp_path)

    def change(**changes: object) -> dict[str, Line]:
        monkeypatch.setattr(doctor, "probe", lambda: REPORT | changes)
        return {line.subject: line for line in doctor.devices()}

    change()
    return change


def test_a_machine_that_is_well():
    lines = doctor.examine()
    assert {line.state for line in lines} == {OK}, lines
    subjects = ["python", "packages", "torch", "torchvision", "device", "instructions", "threads"]
    assert [line.subject for line in lines][: len(subjects)] == subjects


def test_a_subject_that_raises_is_a_line_and_not_the_end(monkeypatch):
    def broken() -> list:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(doctor, "devices", broken)
    lines = doctor.examine()
    assert Line(FAIL, "broken", "cannot be examined: RuntimeError: no such thing", "see the lines above") in lines
    assert "extra faiss" in {line.subject for line in lines}


@pytest.mark.acceptance
def test_the_pair_is_really_imported(monkeypatch):
    monkeypatch.undo()
    report = doctor.probe()
    assert report["vision"], report
    assert set(report) == set(REPORT)


def test_devices_instructions_and_a_pair_of_two_builds(report, monkeypatch):
    error = "RuntimeError: operator torchvision::nms does not exist"
    assert report(vision=None, error=error)["torchvision"].state == FAIL
    assert error in report(vision=None, error=error)["torchvision"].text
    assert "from one index" in report(vision=None, error=error)["torchvision"].remedy
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    gpus = [{"name": "H200", "memory": 141 * 2**30, "bf16": True}, {"name": "T4", "memory": 16 * 2**30, "bf16": False}]
    lines = report(devices=gpus, built_for="13.2", native=[])
    assert lines["torch"].text == "2.15.0, built for CUDA 13.2"
    assert (lines["device cuda:0"].text, lines["device cuda:1"].state) == ("H200, 141 GiB, bfloat16 native", WARN)
    assert "no native bfloat16" in lines["instructions"].text
    assert lines["threads"].text.endswith("OMP_NUM_THREADS is 3")
    assert "amx_bf16, avx512_bf16" in report()["instructions"].text


@pytest.mark.parametrize(
    ("probe", "said"),
    [("raise ImportError('libtorch.so')", "ImportError: libtorch.so"), ("import sys; sys.exit(3)", "status 3")],
)
def test_torch_that_does_not_import_fails_with_its_last_line(monkeypatch, probe, said):
    monkeypatch.undo()
    monkeypatch.setattr(doctor, "_PROBE", probe)
    assert next(doctor.devices()).text == f"does not import: {said}"


RANGES = [
    ("2.15.0+cu132", ">=2.12", True),
    ("2.9.1", ">=2.12", False),
    ("4.0", "<4,>=3.67", False),
    ("1.9.0rc1", ">=1.8", True),
    ("1.1", "~=1.0", True),
    ("1.1", "==2.*", False),
]


@pytest.mark.parametrize(("current", "ranges", "good"), RANGES)
def test_versions_against_ranges(monkeypatch, current, ranges, good):
    monkeypatch.setattr(doctor, "requirements", lambda: {"": [f"torch{ranges}"]})
    monkeypatch.setattr(doctor, "version", lambda name: current)
    line = list(doctor.packages())[1]
    assert (line.state, line.text) == ((OK, f"torch {current}") if good else (FAIL, f"{current}, outside {ranges}"))


def test_packages_missing_and_outside_their_range(monkeypatch):
    needed = ["torch>=99", "no-such-package>=1", "numpy>=2", "pytest~=1.0"]
    monkeypatch.setattr(doctor, "requirements", lambda: {"": needed})
    lines = {line.subject: line for line in doctor.packages()}
    states = {"python": OK, "torch": FAIL, "no-such-package": FAIL, "pytest": FAIL, "packages": OK}
    assert {subject: line.state for subject, line in lines.items()} == states
    assert "pip install 'torch>=99'" in lines["torch"].remedy
    assert lines["packages"].text.startswith("numpy 2")


def test_extras_that_are_there_and_how_to_install_others(monkeypatch):
    needed = {"": [], "test": ["pytest"], "good": ["numpy>=2", "pytest"], "old": ["numpy>=99"], "no": ["no-such>=1"]}
    monkeypatch.setattr(doctor, "requirements", lambda: needed)
    good, old, absent = doctor.extras()
    assert (good.subject, good.remedy) == ("extra good", "")
    assert good.text.startswith("numpy 2")
    assert (old.text.partition(", ")[2], old.remedy) == ("outside >=99", "pip install 'vse-pipe[old]'")
    assert (absent.text, absent.remedy) == ("no-such is not installed", "pip install 'vse-pipe[no]'")


def test_the_ranges_are_those_of_pyproject_and_an_old_python_fails(monkeypatch):
    needed = doctor.requirements()
    assert any(text.startswith("torch>=") for text in needed[""])
    assert (needed["faiss"], next(doctor.packages()).state) == (["faiss-cpu>=1.12"], OK)
    monkeypatch.setattr(platform, "python_version", lambda: "3.9.1")
    assert next(doctor.packages()).state == FAIL


def test_the_command_ends_with_1_when_something_fails(monkeypatch, capsys):
    call = caller(monkeypatch, capsys)
    out, err = output(call, "doctor", "--json")
    found = json.loads(out)
    assert (found["ok"], found["status"], set(found["lines"][0])) == (True, 0, {"state", "what", "said", "remedy"})
    assert err == ""
    monkeypatch.setattr(doctor, "probe", lambda: "ImportError: libtorch.so")
    status, out, err = call("doctor")
    assert (status, "1 failed" in err) == (1, True)
    assert "fail torch: does not import: ImportError: libtorch.so; install torch again" in out


def _loops() -> dict[str, Dispatcher]:
    """Every compiled function of the package by its place."""
    paths = [path for path in modules() if "@njit" in path.read_text(encoding="utf-8")]
    names = [".".join(("vse_pipe", *path.relative_to(PACKAGE).with_suffix("").parts)) for path in paths]
    return {
        f"{name}.{key}": value
        for name in names
        for key, value in vars(importlib.import_module(name)).items()
        if isinstance(value, Dispatcher) and value.py_func.__module__ == name
    }


def test_every_loop_is_compiled():
    """But for those inside another one, which are compiled with it. What other tests called is forgotten before."""
    found = _loops()
    assert len(found) > 10
    for loop in found.values():
        loop._reset_overloads()
    kernels.compile_all()
    inside = {name for loop in found.values() for name in loop.py_func.__code__.co_names}
    assert [place for place, one in found.items() if not one.signatures and one.py_func.__name__ not in inside] == []
