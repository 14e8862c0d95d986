"""A run whose model is given: what is taken over, and what is refused with nothing lost."""

import json
import shutil
from pathlib import Path

import pytest

from tests.toy_project import PARAMS, load_params, write_params
from tests.train.some import ready
from vse_pipe.artifacts import model_files
from vse_pipe.core.errors import InputError, IntegrityError, ParamsError, UsageError
from vse_pipe.core.files import sha256
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.train import restore
from vse_pipe.train.stage import train

GIVEN = Path("given")
CONFIG = GIVEN / model_files.CONFIG


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory):
    """A project whose run ``sum`` is trained, with its model in ``GIVEN``."""
    root = tmp_path_factory.mktemp("given") / "project"
    root.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        params = ready(load_params(root))
        train(params, "sum", "cpu")
        shutil.copytree(paths.trained("sum"), GIVEN, ignore=shutil.ignore_patterns("last"))
    return root


@pytest.fixture
def trained(trained_once, tmp_path, monkeypatch):
    """A copy of it, the working directory."""
    shutil.copytree(trained_once, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")


def taking(**changes: object):
    """params.yaml whose run ``other`` takes the model in ``GIVEN``, with ``changes`` of its entry."""
    entry = {**PARAMS["runs"]["sum"], "model": str(GIVEN), "sha256": sha256(CONFIG), **changes}
    return load_params(Path(), runs={"other": entry})


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_it_is_the_model_under_the_names_of_the_run_and_is_taken_once(trained, capsys):
    train(taking(), "other", "cpu")
    out = paths.trained("other")
    assert (out / model_files.MODEL).read_bytes() == (GIVEN / model_files.MODEL).read_bytes()
    config = model_files.read_config(out, "other")
    assert config["run"] == "other"
    assert config["origin"] == {
        "run": "sum", "sha256": sha256(CONFIG), "dataset": "toy", "features": "plain", "texts": "words", "noise": "clean"
    }  # fmt: skip
    assert restore.load(out)[1].digest == config["sha256"][model_files.MODEL]
    written = (out / model_files.CONFIG).stat().st_mtime_ns
    train(taking(), "other", "cpu")
    assert (out / model_files.CONFIG).stat().st_mtime_ns == written
    assert "is up to date" in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"runs\.other\.loss is .*, the model in given has .*; write what it has"):
        train(taking(loss="max"), "other", "cpu")


@pytest.mark.acceptance
def test_a_second_network_comes_with_the_first(project):
    entry = {**PARAMS["runs"]["sum"], "loss": "max", "scheme": "ncr"}
    options = {"train": {**PARAMS["train"], "epochs": 2}, "scheme": {"ncr": {"warm_up": 1}}}
    train(load_params(project, runs={"two": entry}, **options), "two", "cpu")
    shutil.copytree(paths.trained("two"), GIVEN, ignore=shutil.ignore_patterns("last"))
    entry |= {"model": str(GIVEN), "sha256": sha256(CONFIG)}
    params = load_params(project, runs={"other": entry}, **options)
    train(params, "other", "cpu")
    theirs, mine = (restore.load_all(paths.trained(run)) for run in ("two", "other"))
    assert [files.digest for _, files in mine] == [files.digest for _, files in theirs]
    assert len({files.digest for _, files in mine}) == 2
    shutil.copyfile(GIVEN / model_files.MODEL, GIVEN / model_files.PEER / model_files.MODEL)
    digests = json.loads((GIVEN / model_files.PEER / model_files.CONFIG).read_text())["sha256"]
    digests[model_files.MODEL] = sha256(GIVEN / model_files.MODEL)
    edit(GIVEN / model_files.PEER / model_files.CONFIG, sha256=digests)
    shutil.rmtree(paths.trained("other"))
    with pytest.raises(IntegrityError, match=r"holds another network than config\.json names"):
        train(params, "other", "cpu")


def outside(name: str):
    def link() -> None:
        (GIVEN / name).rename(name)
        (GIVEN / name).symlink_to(Path(name).resolve())

    return link


WRONG = {
    "other digest": (
        lambda: edit(CONFIG, run="x"),
        IntegrityError,
        r"sha256 is [0-9a-f]{64}, runs\.other\.sha256 says",
    ),
    "no weights": (
        lambda: (GIVEN / model_files.MODEL).unlink(),
        InputError,
        r"given/model\.safetensors does not exist",
    ),
    "no folder": (lambda: shutil.rmtree(GIVEN), InputError, r"given/config\.json does not exist"),
    "no curve": (lambda: (GIVEN / "history.csv").unlink(), InputError, r"given/history\.csv does not exist"),
    "damaged": (
        lambda: (GIVEN / model_files.VOCABULARY).write_text("{}"),
        IntegrityError,
        r"given/vocabulary\.json: content does not match the digest",
    ),
    "link": (outside(model_files.MODEL), InputError, "'model.safetensors' lies outside its root given"),
    "linked configuration": (outside(model_files.CONFIG), InputError, "'config.json' lies outside its root given"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_the_model_is_refused_and_an_earlier_one_stays(trained, wrong):
    params = taking()
    shutil.copytree(paths.trained("sum"), paths.trained("other"))
    before = {path: path.read_bytes() for path in paths.trained("other").rglob("*") if path.is_file()}
    damage, error, message = WRONG[wrong]
    damage()
    with pytest.raises(error, match=message):
        train(params, "other", "cpu")
    assert {path: path.read_bytes() for path in paths.trained("other").rglob("*") if path.is_file()} == before


def test_a_model_that_this_version_cannot_build_is_refused(trained):
    edit(CONFIG, embed_size=13)
    with pytest.raises(IntegrityError, match=r"config\.json: does not fit model\.safetensors or this version"):
        train(taking(), "other", "cpu")
    edit(CONFIG, embed_size=12, loss={"name": "gone", "params": {}})
    with pytest.raises(IntegrityError, match="names no loss of this version"):
        train(taking(), "other", "cpu")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "given"}, "runs.sum.sha256: is missing"),
        ({"sha256": "0" * 64}, "runs.sum.model: is missing"),
        ({"model": "given", "sha256": "0" * 64, "seeds": [1, 2]}, "runs.sum.seeds: the run takes one model"),
        ({"model": "given", "sha256": "f00"}, r"runs.sum.sha256: "),
    ],
)
def test_an_entry_that_says_half_of_it_is_refused(tmp_path, changes, message):
    with pytest.raises(ParamsError, match=message):
        load(write_params(tmp_path, runs={"sum": {**PARAMS["runs"]["sum"], **changes}}))
