"""What doctor sees: each subject well, and each as it is when something is wrong with it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import caller
from tests.toy_project import PARAMS, write_params
from vse_pipe.tools.doctor import stage
from vse_pipe.tools.doctor.checks import disk, dvc, git, machine, packages, python, torch, weights
from vse_pipe.tools.doctor.line import FAIL, OK, WARN, Line

FOUND = {
    "torch": "2.15.0",
    "vision": "0.29.2",
    "error": "",
    "built_for": "",
    "cpu": "AVX512",
    "devices": [],
    "capabilities": {"amx_bf16": True, "avx512_bf16": True, "avx2": True},
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A git repository with a commit, a .dvc and params.yaml."""
    monkeypatch.chdir(tmp_path)
    write_params(tmp_path)
    (tmp_path / ".dvc").mkdir()
    settings = "[core]\n    analytics = false\n[cache]\n    type = reflink,hardlink,copy\n"
    (tmp_path / ".dvc" / "config").write_text(settings, encoding="utf-8")
    for command in (["init", "-q"], ["add", "params.yaml"], ["commit", "-qm", "x"]):
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *who, *command], check=True, cwd=tmp_path)
    return tmp_path


def _states(lines: list[Line]) -> dict[str, str]:
    return {line.what: line.state for line in lines}


def test_every_check_is_in_the_order_and_says_what_to_do(project, monkeypatch):
    assert set(stage.ORDER) == set(stage.CHECKS.names())
    monkeypatch.setattr(torch, "probe", lambda: FOUND)
    found = stage.examine()
    assert not [line for line in found if line.state == FAIL], found
    assert all(line.remedy for line in found if line.state != OK)
    assert {"python", "packages", "torch", "torchvision", "device", "instructions", "cores", "memory"} <= set(
        _states(found)
    )


def test_a_look_that_fails_is_a_line_and_not_the_end(monkeypatch, project):
    def broken() -> list:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(torch, "probe", lambda: FOUND)
    monkeypatch.setattr(machine, "look", broken)
    found = stage.examine()
    assert Line(FAIL, "machine", "cannot be told: RuntimeError: no such thing", "see the lines above") in found
    assert "git" in _states(found)


@pytest.mark.acceptance
def test_the_pair_is_really_imported():
    found = torch.probe()
    assert found["vision"], found
    assert found["cpu"]


def test_a_pair_of_two_builds_fails_with_the_remedy(monkeypatch):
    error = "RuntimeError: operator torchvision::nms does not exist"
    monkeypatch.setattr(torch, "probe", lambda: {**FOUND, "vision": None, "error": error})
    line = next(line for line in torch.look() if line.what == "torchvision")
    assert line.state == FAIL
    assert error in line.said
    assert "from one index" in line.remedy


def test_torch_that_does_not_import_fails_with_its_last_line(monkeypatch):
    monkeypatch.setattr(torch, "_PROBE", "raise ImportError('libtorch.so')")
    assert torch.look()[0].said == "does not import: ImportError: libtorch.so"
    monkeypatch.setattr(torch, "_PROBE", "import sys; sys.exit(3)")
    assert torch.look()[0].said == "does not import: status 3"


def test_devices_and_instructions(monkeypatch):
    gpus = [{"name": "H200", "memory": 141 * 2**30, "bf16": True}, {"name": "T4", "memory": 16 * 2**30, "bf16": False}]
    found = {**FOUND, "devices": gpus, "built_for": "13.2", "capabilities": {}}
    monkeypatch.setattr(torch, "probe", lambda: found)
    lines = {line.what: line for line in torch.look()}
    assert lines["torch"].said == "2.15.0, built for CUDA 13.2"
    assert lines["device cuda:0"].said == "H200, 141 GiB, bfloat16 native"
    assert lines["device cuda:1"].state == WARN
    assert "no native bfloat16" in lines["instructions"].said
    monkeypatch.setattr(torch, "probe", lambda: FOUND)
    assert "amx_bf16, avx512_bf16" in {line.what: line for line in torch.look()}["instructions"].said


RANGES = [
    ("2.15.0+cu132", ">=2.12", True),
    ("2.9.1", ">=2.12", False),
    ("4.0", ">=3.67,<4", False),
    ("1.9.0rc1", ">=1.8", True),
    ("1.1", "~=1.0", True),
    ("1.1", "==2.*", False),
]


@pytest.mark.parametrize(("found", "ranges", "good"), RANGES)
def test_versions_against_ranges(monkeypatch, found, ranges, good):
    monkeypatch.setattr(packages, "requirements", lambda: [f"torch{ranges}", "faiss-cpu>=99; extra == 'faiss'"])
    monkeypatch.setattr(packages, "version", lambda name: found)
    (line,) = packages.look()
    assert line.state == (OK if good else FAIL)
    assert line.said == (f"torch {found}" if good else f"{found}, outside {ranges}")


def test_packages_missing_and_outside_their_range(monkeypatch):
    needed = ["torch>=99", "no-such-package>=1", "numpy>=2", "pytest~=1.0"]
    monkeypatch.setattr(packages, "requirements", lambda: needed)
    lines = {line.what: line for line in packages.look()}
    assert {name: line.state for name, line in lines.items()} == {
        "torch": FAIL,
        "no-such-package": FAIL,
        "pytest": FAIL,
        "packages": OK,
    }
    assert "pip install 'torch>=99'" in lines["torch"].remedy
    assert lines["packages"].said.startswith("numpy 2")


def test_the_ranges_are_those_of_pyproject():
    assert any(text.startswith("torch>=") for text in packages.requirements())


def test_an_old_python_fails(monkeypatch):
    assert python.look()[0].state == OK
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    assert python.look()[0].state == FAIL


def test_memory_and_disk_that_are_short(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "memory", lambda: 1.5)
    assert _states(machine.look())["memory"] == WARN
    monkeypatch.setattr(machine, "memory", lambda: None)
    assert _states(machine.look())["memory"] == OK
    usage = shutil.disk_usage(tmp_path)
    for free, state in [(5e8, FAIL), (5e9, WARN), (5e10, OK)]:
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: usage._replace(free=int(free)))
        assert disk._line("disk", tmp_path / "not" / "there").state == state


def test_places_follow_the_environment(project, monkeypatch):
    monkeypatch.setenv("VSE_PIPE_WEIGHTS", "/w")
    assert disk.places() == {
        "disk, project": project,
        "disk, DVC cache": project / ".dvc" / "cache",
        "disk, weights": Path("/w"),
    }
    from vse_pipe.core import weights as real

    for name, value in [
        ("VSE_PIPE_WEIGHTS", None),
        ("TORCH_HOME", "/t"),
        ("TORCH_HOME", None),
        ("XDG_CACHE_HOME", "/x"),
    ]:
        monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value)
        assert disk.weights_folder() == real.cache()


def test_git_in_every_state(project, monkeypatch):
    assert _states(git.look()) == {"git": OK}
    shutil.rmtree(project / ".git")
    subprocess.run(["git", "init", "-q"], check=True, cwd=project)
    assert "no commit" in git.look()[0].said
    shutil.rmtree(project / ".git")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent))
    assert _states(git.look()) == {"git": FAIL}
    (project / "params.yaml").unlink()
    assert _states(git.look()) == {"project": WARN}
    monkeypatch.setenv("PATH", "/nowhere")
    assert _states(git.look()) == {"git": FAIL}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_dvc_settings(project, monkeypatch):
    monkeypatch.setenv("HOME", str(project))
    lines = {line.what: line for line in dvc.look()}
    assert lines["dvc analytics"].state == lines["dvc cache.type"].state == OK
    assert lines["dvc plots"].state == WARN
    config = project / ".dvc" / "config"
    config.write_text("[core]\n    analytics = true\n[plots]\n    html_template = page.html\n", encoding="utf-8")
    lines = {line.what: line for line in dvc.look()}
    assert (lines["dvc analytics"].state, lines["dvc cache.type"].state) == (WARN, WARN)
    assert lines["dvc plots"].said == "plots.html_template page.html does not exist"
    (project / ".dvc" / "page.html").write_text("x", encoding="utf-8")
    assert {line.what: line for line in dvc.look()}["dvc plots"].state == OK
    shutil.rmtree(project / ".dvc")
    assert _states(dvc.look()) == {"dvc": FAIL}


def _features(project: Path, **node: object) -> Line:
    write_params(project, features={"plain": PARAMS["features"]["plain"], "x": {"dataset": "toy", **node}})
    found = [line for line in weights.look() if "features.x" in line.what]
    assert len(found) == 1
    return found[0]


def test_weights_by_name_by_path_and_damaged(project, monkeypatch):
    monkeypatch.setenv("VSE_PIPE_WEIGHTS", str(project / "cache"))
    named = {"backbone": "torchvision", "model": "mobilenet_v2"}
    line = _features(project, **named)
    assert line.state == WARN
    assert "not downloaded yet" in line.said
    assert "https://" in line.remedy
    (project / "cache").mkdir()
    path = Path(line.said.rpartition(" ")[2])
    path.write_bytes(b"not these")
    line = _features(project, **named)
    assert (line.state, str(path) in line.said) == (FAIL, True)
    assert _features(project, **named, weights="random").said == "torchvision needs none"
    assert _features(project, **named, weights="mine.pth").state == FAIL
    (project / "mine.pth").write_bytes(b"mine")
    line = _features(project, **named, weights="mine.pth")
    assert (line.state, "not pinned" in line.said) == (WARN, True)
    digest = line.remedy.rpartition(" ")[2]
    assert _features(project, **named, weights="mine.pth", sha256=digest).state == OK
    assert _features(project, **named, weights="mine.pth", sha256="0" * 64).state == FAIL
    assert _features(project, backbone="torchvision", model="no_such_model").state == FAIL


@pytest.mark.parametrize(
    ("node", "file"),
    [
        ({"backbone": "resnet152"}, "resnet152-f82ba261.pth"),
        ({"backbone": "resnet152", "weights": "IMAGENET1K_V1"}, "resnet152-394f9c45.pth"),
        ({"backbone": "inception_resnet_v2"}, "inception_resnet_v2.tf_in1k-dbea26b1.safetensors"),
        ({"backbone": "grid", "model": "resnet50"}, "resnet50-"),
    ],
)
def test_published_weights_of_each_kind(project, monkeypatch, node, file):
    monkeypatch.setenv("VSE_PIPE_WEIGHTS", str(project / "cache"))
    line = _features(project, **node)
    assert (line.state, file in line.said) == (WARN, True)


def test_a_detector_has_two_files(project, monkeypatch):
    monkeypatch.setenv("VSE_PIPE_WEIGHTS", str(project / "cache"))
    write_params(
        project, features={"plain": PARAMS["features"]["plain"], "x": {"dataset": "toy", "backbone": "faster_rcnn"}}
    )
    found = [line.what for line in weights.look() if "features.x" in line.what]
    assert found == ["weights of features.x", "weights of features.x, detector"]


def test_word_vectors_and_params_that_do_not_validate(project):
    texts = {"words": PARAMS["texts"]["words"], "v": {"dataset": "toy", "method": "mean_vectors", "vectors": "v.txt"}}
    write_params(project, texts=texts)
    line = next(line for line in weights.look() if "texts.v" in line.what)
    assert (line.state, "v.txt does not exist" in line.said) == (FAIL, True)
    write_params(project, seed="x")
    (line,) = weights.look()
    assert (line.what, line.state) == ("params.yaml", FAIL)


def test_the_command_ends_with_1_when_something_fails(project, monkeypatch, capsys):
    call = caller(monkeypatch, capsys)
    monkeypatch.setattr(torch, "probe", lambda: FOUND)
    status, out, err = call("doctor", "--json")
    found = json.loads(out)
    assert (status, found["ok"], found["status"]) == (0, True, 0)
    assert {"state", "what", "said", "remedy"} == set(found["lines"][0])
    assert err == ""
    monkeypatch.setattr(torch, "probe", lambda: "ImportError: libtorch.so")
    status, out, err = call("doctor")
    assert status == 1
    assert "fail torch: does not import: ImportError: libtorch.so; install torch again" in out
    assert "1 failed" in err


def test_outside_a_project_it_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch, "probe", lambda: FOUND)
    found = _states(stage.examine())
    assert found["project"] == WARN
    assert FAIL not in found.values()
