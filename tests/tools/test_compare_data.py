"""`vse-pipe compare` with side A from a git revision, and with other ids of the same test split."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from dvc.repo import Repo

from tests.command_line import caller, failure, json_document
from tests.ranking import ranked
from tests.tools import compared
from tests.toy_project import PARAMS, write_params
from vse_pipe.artifacts import captions, images, joins
from vse_pipe.project import paths

# Two revisions of the project below a DVC repository below a git repository: the roots need not agree.
PLACE = Path("work") / "retrieval"
# From within DVC, about a dependency of its own.
pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")


def _git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=someone", "-c", "user.email=someone@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


def _commit(root: Path, message: str) -> None:
    with Repo(str(root / "work")) as repo:
        repo.add(str(root / PLACE / "data" / "evaluate"))
    _git(root, "add", "-A")
    _git(root, "commit", "-q", "-m", message)


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    """Revision one: sum ranks worse, under nns only. Revision two, checked out: sum under nns and csls, and
    hal."""
    root = tmp_path_factory.mktemp("repository")
    (root / PLACE).mkdir(parents=True)
    write_params(root / PLACE, runs={name: dict(PARAMS["runs"]["sum"]) for name in ("sum", "hal")})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root / PLACE)
        _git(root, "init", "-q")
        Repo.init(str(root / "work"), subdir=True).close()
        compared.write_run("sum", "nns", images=80, quality=0.3)
        _commit(root, "one")
        _git(root, "tag", "one")
        compared.write_run("sum", "nns", "csls", images=80, quality=0.9)
        compared.write_run("hal", "nns", images=80, quality=0.7)
        _commit(root, "two")
    return root


@pytest.fixture
def run(monkeypatch, tmp_path, capsys, repository):
    """Call the command in a copy of the project; returns (exit status, stdout, stderr)."""
    shutil.copytree(repository, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy" / PLACE)
    return caller(monkeypatch, capsys, "compare")


def test_a_run_against_what_it_was_another_run_or_a_folder(run):
    status, out, err = run("sum", "--base", "one", "--json", "--resamples", "60")
    assert (status, err) == (0, "")
    (found,) = json.loads(out)["comparisons"]
    assert (found["a"]["name"], found["b"]["name"]) == ("one:sum", "sum")
    assert found["a"]["inference"] == found["b"]["inference"] == "nns"
    here = json.loads((paths.evaluated("sum", "nns") / "metrics.json").read_text())
    assert found["rsum"]["b"] == here["rsum"]
    assert found["rsum"]["difference"] > 50
    both = run("sum", "hal", "--base", "HEAD", "--json", "--resamples", "60")
    folder = run("data/evaluate/sum/nns", "hal", "--base", "HEAD", "--json", "--resamples", "60")
    (first,), (second,) = (json.loads(out)["comparisons"] for _, out, _ in (both, folder))
    assert first["a"]["name"] == "HEAD:sum"
    assert second["a"]["name"] == "HEAD:data/evaluate/sum/nns"
    assert first["rsum"] == second["rsum"]
    itself = run("data/evaluate/sum/nns", "--base", "HEAD", "--json", "--resamples", "60")
    assert json.loads(itself[1])["comparisons"][0]["rsum"]["difference"] == 0


def test_a_drop_against_the_base_fails(run):
    compared.write_run("sum", "nns", images=80, quality=0.1)
    err = failure(run, 1, "sum", "--base", "HEAD~1", "--inference", "nns", "--max-drop", "1", "--resamples", "60")
    assert err.startswith("error: nns: image_to_text r@1 fell by ")


@pytest.mark.parametrize("only_files", [True, False])
def test_data_that_is_not_in_the_cache_is_status_4(run, tmp_path, only_files):
    cache = tmp_path / "copy" / "work" / ".dvc" / "cache" / "files" / "md5"
    if only_files:
        for file in [file for file in cache.glob("*/*") if file.suffix != ".dir"]:
            file.unlink()
    else:
        shutil.rmtree(cache)
    for run_a in ("sum", "data/evaluate/sum/nns"):
        status, out, err = run(run_a, "hal", "--base", "one", "--inference", "nns")
        assert (status, out) == (4, "")
        assert err.startswith("error: one:data/evaluate/sum"), err
        assert "is not in the DVC cache; get it with `dvc fetch` after `git checkout one`" in err
        assert "`dvc repro`" in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("rev", ["no-such-revision", "HEAD~9"])
def test_an_unknown_revision_is_status_2(run, rev):
    status, out, err = run("sum", "--base", rev)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: --base {rev}: unknown Git revision '{rev}'"), err
    assert err.count("\n") == 1


def test_what_the_revision_lacks_is_named(run):
    assert run("hal", "--base", "one")[::2] == (
        3,
        "error: one has no data/evaluate/hal; it was not evaluated in that revision\n",
    )
    status, _, err = run("sum", "--base", "one", "--inference", "csls")
    assert (status, err) == (2, "error: one:sum has no evaluation under 'csls'; it has: nns\n")
    err = failure(run, 2, "/elsewhere/nns", "sum", "--base", "one")
    assert err.startswith("error: /elsewhere/nns lies outside the project")


def test_a_bad_file_is_named_by_its_revision(run, tmp_path):
    file = paths.evaluated("sum", "nns") / "ranks.parquet"
    file.write_bytes(b"PAR1 no more")
    _commit(tmp_path / "copy", "three")
    compared.write_run("sum", "nns", "csls", images=80, quality=0.9)
    err = failure(run, 5, "sum", "--base", "HEAD")
    assert err.startswith("error: HEAD:data/evaluate/sum/nns/ranks.parquet: damaged Parquet file"), err


def test_outside_a_repository_or_a_project_it_is_status_2(run, tmp_path, monkeypatch):
    (tmp_path / "bare").mkdir()
    monkeypatch.chdir(tmp_path / "bare")
    status, _, err = run("sum", "--base", "one")
    assert (status, "run it inside a vse-pipe project" in err) == (2, True)
    write_params(tmp_path / "bare")
    compared.write_run("sum")
    status, _, err = run("sum", "--base", "one")
    assert (status, err.startswith("error: --base one: you are not inside of a DVC repository")) == (2, True), err


SHIFT = 3


def _prepare(dataset: str, ranks: pa.Table, shift: int = 0, text: str = "a picture", turned: bool = False) -> str:
    """A data set that holds the pictures and captions that ``ranks`` names, with other ids. Returns the digest of test."""
    rows = ranks.to_pandas()
    owners = rows[rows["direction"] == "text_to_image"].set_index("query_id")["image_id"].sort_index()
    known = sorted(set(owners))
    order = known[::-1] if turned else known
    zeros = np.zeros(len(order), np.int32)
    digests = [f"{number // 20:064x}" for number in order]  # two pictures are alike
    pictures = {"image_id": np.array(order) + shift, "file": [f"{number}.jpg" for number in order], "sha256": digests}
    folder = paths.prepared(dataset)
    table = pa.table({**pictures, "split": ["test"] * len(order), "width": zeros, "height": zeros})
    images.write(folder, table.select(images.SCHEMA.names), "photos")
    columns = {"caption_id": owners.index + 2 * shift, "image_id": owners.to_numpy() + shift}
    texts = [f"{text} {number % 3}" for number in owners.index]  # captions that read alike
    captions.write(folder, pa.table({**columns, "text": texts, "split": ["test"] * len(owners)}))
    return joins.by_split(images.read(folder), captions.read(folder))["test"]


def _shifted(ranks: pa.Table, occurrence: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The same tables with the ids of ``_prepare(shift=SHIFT)``, in plain loops."""
    by = {True: SHIFT, False: 2 * SHIFT}
    rows = ranks.to_pylist()
    for row in rows:
        of_images = row["direction"] == "image_to_text"
        row["query_id"] += by[of_images]
        row["image_id"] += SHIFT
        row["top"] = [item + by[not of_images] for item in row["top"]]
    items = occurrence.to_pylist()
    for item in items:
        item["item_id"] += by[item["direction"] == "text_to_image"]
    return pa.Table.from_pylist(rows, ranks.schema), pa.Table.from_pylist(items, occurrence.schema)


@pytest.fixture
def revisions_run(monkeypatch, tmp_path, capsys):
    """``first`` on the data set whole, ``second`` on the data set cleaned; both have the same test split."""
    monkeypatch.chdir(tmp_path)
    nodes = {name: {"dataset": name, **PARAMS["features"]["plain"]} for name in ("whole", "cleaned")}
    sections = {
        "datasets": dict.fromkeys(nodes, PARAMS["datasets"]["toy"]),
        "features": {name: node | {"dataset": name} for name, node in nodes.items()},
        "texts": {f"words_{name}": PARAMS["texts"]["words"] | {"dataset": name} for name in nodes},
        "noises": {f"clean_{name}": PARAMS["noises"]["clean"] | {"dataset": name} for name in nodes},
        "runs": {
            revisions_run: PARAMS["runs"]["sum"]
            | {"dataset": name, "features": name, "texts": f"words_{name}", "noise": f"clean_{name}"}
            for revisions_run, name in (("first", "whole"), ("second", "cleaned"))
        },
    }
    write_params(tmp_path, **sections)
    return caller(monkeypatch, capsys)


def _write(name: str, tables: tuple[pa.Table, pa.Table], data: str) -> None:
    compared.write(compared.of_tables(name, *tables, data=data), paths.evaluated(name, "nns"))


def _compared(revisions_run, *more: str) -> dict:
    given = ("compare", "first", "second", "--json", "--resamples", "60")
    return json_document(revisions_run, *given, *more)["comparisons"][0]


@pytest.mark.parametrize("turned", [False, True], ids=["the same order", "another order"])
def test_the_same_pictures_under_other_ids_are_paired(revisions_run, turned):
    before, after = (ranked.tables(images=60, quality=quality, seed=1) for quality in (0.3, 0.9))
    data = _prepare("whole", before[0])
    _write("first", before, data)
    _write("second", after, data)
    wanted = _compared(revisions_run)
    other = _prepare("cleaned", before[0], SHIFT, turned=turned)
    assert other != data
    _write("second", _shifted(*after), other)
    if not turned:  # which of two alike pictures is which follows from their order
        assert _compared(revisions_run) == wanted
    assert _compared(revisions_run)["rsum"]["difference"] == wanted["rsum"]["difference"]
    assert revisions_run("compare", "first", "second")[2] == (
        "compare: first and second ranked the same pictures and captions under other ids\n"
    )


@pytest.mark.parametrize(
    ("text", "data", "sides", "status", "message"),
    [
        ("a photograph", None, "{}", 3, "60 and 60 images with their captions, of which 120 are on one side only"),
        ("a picture", "0" * 16, "{}", 5, "other images or captions of split test than data/prepare/cleaned now holds"),
        ("a picture", None, "data/evaluate/{}/nns", 3, "are paired where both are named as runs of a project"),
    ],
    ids=["other captions", "prepared anew", "folders"],
)
def test_other_data_is_refused(revisions_run, text, data, sides, status, message):
    tables = ranked.tables(images=60)
    _write("first", tables, _prepare("whole", tables[0]))
    cleaned = _prepare("cleaned", tables[0], SHIFT, text=text)
    _write("second", _shifted(*tables), data or cleaned)
    found, _, err = revisions_run("compare", sides.format("first"), sides.format("second"))
    assert (found, message in err) == (status, True), err
