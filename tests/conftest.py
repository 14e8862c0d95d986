"""What every test starts from."""

import gc
import os
import shutil
import sys
from pathlib import Path

import pytest
from beartype import BeartypeConf, beartype
from hypothesis import settings
from jaxtyping import install_import_hook

ROOT = Path(__file__).parents[1]
# Processes that tests start import the code of this tree, whichever is installed.
os.environ["PYTHONPATH"] = f"{ROOT}/pipeline:{ROOT}:{os.environ.get('PYTHONPATH', '')}".removesuffix(":")

# How long an example takes depends on what else the machine does.
settings.register_profile("untimed", deadline=None, max_examples=30)
settings.load_profile("untimed")


def _with_shapes() -> list[str]:
    """Modules whose signatures are enforced: those with tensors. Not the shells of the
    stages, which tests call with what they need of params.yaml and no more."""
    rooms = [ROOT / "pipeline/vse_pipe" / room for room in ("extract", "pictures", "ranking", "train")]
    found = [path.relative_to(ROOT / "pipeline") for room in rooms for path in room.rglob("*.py")]
    names = [".".join(path.with_suffix("").parts) for path in found]
    left_out = ("__init__", "options", "stage")
    return [name for name in names if ".compiled." not in name and not name.endswith(left_out)]


# What enforces signatures: a whole number is a float too, as for Python.
checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
install_import_hook(_with_shapes(), f"{__name__}.checked")


# No test is about power cuts, and a disk takes 5 ms to promise that a file would outlast one.
os.fsync = lambda handle: None

# The garbage of importing everything is little, and looking for it again and again takes a tenth of the time.
gc.disable()


# Folders with modules that take one worker minutes. First, so that short ones are left for whoever is done with them.
_LONG = ("tests/acceptance/", "tests/docs/", "tests/train/", "tests/faults/")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not item.nodeid.startswith(_LONG))


def pytest_collection_finish():
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """`--dist loadscope`, with one scope for all modules of a folder where they share what takes seconds to make."""
    from xdist.scheduler import LoadScopeScheduling

    if config.getoption("dist") != "loadscope":
        return None

    class ByFolder(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            folder = nodeid.partition("::")[0].rpartition("/")[0]
            return folder if folder in ("tests/report", "tests/search") else super()._split_scope(nodeid)

    return ByFolder(config, log)


@pytest.fixture(autouse=True)
def _denormals_are_kept():
    """`vse-pipe train` flushes them for its whole process, and Hypothesis draws no floats then."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)


@pytest.fixture(scope="session")
def _made_once(tmp_path_factory):
    from tests.made import build

    root, here = tmp_path_factory.mktemp("made") / "project", Path.cwd()
    root.mkdir()
    try:
        build(root)
    finally:
        os.chdir(here)
    return root


@pytest.fixture
def made(_made_once, tmp_path, monkeypatch):
    """A copy of a project in which every stage up to evaluate has run; it is the working directory."""
    root = tmp_path / "project"
    shutil.copytree(_made_once, root)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, current folder of the test; no weights cache of the machine is visible."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VSE_PIPE_WEIGHTS", str(tmp_path / "weights"))
    return tmp_path
