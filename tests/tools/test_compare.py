"""`vse-pipe compare`: tables, --max-drop, the command, side A from a git revision, other ids of the same split."""

import contextlib
import functools
import json
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from dvc.repo import Repo

from tests.command_line import caller, failure, json_document, output
from tests.tools import compared
from tests.tools.compared import evaluation
from tests.toy_project import PARAMS, write_params
from vse_pipe.core.errors import PipelineError
from vse_pipe.core.files import write_json
from vse_pipe.project import paths
from vse_pipe.ranking.comparison import Comparison, Difference, Method, Spread
from vse_pipe.ranking.intervals import holm
from vse_pipe.tools import compare


@dataclass(frozen=True)
class Doubt(Spread):
    """An interval and a p-value as they are given."""

    ends: list[float]
    p: float

    def interval(self, level: float = 0.95) -> list[float]:
        return self.ends

    def p_value(self, null: float = 0.0) -> float:
        return self.p


def _figure(address, a: float, b: float, interval=None, p=None) -> Difference:
    doubt = None if interval is None else Doubt(b - a, 1.0, np.inf, interval, p)
    return Difference(address, np.array([a]), np.array([b]), doubt)


def _comparison(*rows: Difference) -> Comparison:
    one = Method("one", {"": evaluation()})
    return Comparison(one, one, 40, list(rows))


def _row(address, b, p=0.01, a=50.0):
    return _figure(address, a, b, [b - a - 1, b - a + 1], p)


def test_a_significant_fall_of_a_watched_figure_fails_and_nothing_else():
    for address in ("image_to_text r@1", "text_to_image map", "rsum"):
        with pytest.raises(
            PipelineError, match=f"nns: {address} fell by 1.50 .50.00 to 48.50, p = 0.010.; allowed is 1$"
        ):
            compare.check([_comparison(_row(tuple(address.split()), 48.5))], 1.0)
    rows = [_row(("rsum",), 49.0), _row(("rsum",), 60.0), _row(("rsum",), 30.0, p=0.05), _row(("hs_sum",), 1.0)]
    rows += [_row(("text_to_image", "med_r"), 1.0), _figure(("text_to_image", "r@1"), 50.0, 1.0)]
    rows += [replace(_row(("rsum",), 40.0), holm=0.06)]
    compare.check([_comparison(*rows)], 1.0)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("evaluated")
    with contextlib.chdir(root):
        compared.write_run("sum", "nns", "csls", "is", images=120, quality=0.3)
        compared.write_run("hal", "csls", "nns", images=120, quality=0.9)
    return root / "data"


@pytest.fixture
def run(evaluated, monkeypatch, tmp_path, capsys):
    """Call the command in a project with the runs sum and hal; returns (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("vse_pipe.core.console.stdout.width", 120)
    runs = {name: dict(PARAMS["runs"]["sum"]) for name in ("sum", "hal", "max")}
    write_params(tmp_path, runs=runs, grid={"inferences": ["nns", "is", "csls"]})
    shutil.copytree(evaluated, tmp_path / "data")
    return caller(monkeypatch, capsys)


def _document(run, *arguments, inference: str | None = "csls"):
    """inference: None for all."""
    given = () if inference is None else ("--inference", inference)
    out, err = output(run, "compare", *arguments, *given, "--json", "--resamples", "60")
    assert err == ""
    return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} in the document"))


def test_json_has_every_criterion_of_both_in_the_order_of_the_grid(run):
    found = _document(run, "sum", "hal", inference=None)
    asked = [(one["a"]["inference"], one["b"]["inference"]) for one in found["comparisons"]]
    assert (asked, found["resamples"], found["seed"]) == ([("nns", "nns"), ("csls", "csls")], 60, 1)
    one = found["comparisons"][1]
    assert one["a"] == {"name": "sum", "inference": "csls", "bank": "test"}
    assert (one["split"], one["protocol"], one["ties"], one["images"]) == ("test", "full", "pessimistic", 120)
    row = one["image_to_text"]["r@1"]
    assert row["difference"] == pytest.approx(row["b"] - row["a"], abs=2e-6)
    assert row["interval"][0] < row["difference"] < row["interval"][1]
    assert 0 <= row["p"] < 2 / 61
    assert set(one["rsum"]) == {"a", "b", "difference", "interval", "p"}
    assert set(one["hs_sum"]) == set(one["rsum"])
    # The same call gives the same bytes, another seed others.
    same = ("compare", "sum", "hal", "--json", "--inference", "nns", "--resamples", "60", "--seed")
    first, again, other = (run(*same, seed)[1] for seed in "112")
    assert first == again != other
    assert first == json.dumps(json.loads(first), indent=2, sort_keys=True) + "\n"


def _sides(run, *arguments, **options) -> list[tuple[str, str, str]]:
    (found,) = _document(run, *arguments, **options)["comparisons"]
    return [(found[side]["name"], found[side]["inference"], found[side]["bank"]) for side in "ab"]


def test_trainings_that_have_not_converged_are_named_for_runs_and_folders_alike(run, tmp_path):
    rising = "rsum on val was still rising when train.epochs (20) ended; raise it"
    for name, ended in (("sum", {"epoch": 20, "converged": False}), ("hal", {"epoch": 9, "converged": True})):
        folder = tmp_path / paths.trained(name)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "config.json", {"sha256": {}, "ended": ended})
    folders = [str(tmp_path / paths.evaluated(name, "nns")) for name in ("sum", "hal")]
    for sides in (["sum", "hal", "--inference", "nns"], folders):
        document = json_document(run, "compare", *sides, "--json")
        one = document["comparisons"][0]
        assert one["a"]["unconverged"] == {"sum": rising}
        assert "unconverged" not in one["b"]
        out, _ = output(run, "compare", *sides, "--md")
        assert f"in A sum has not converged: {rising}" in out
    out, _ = output(run, "compare", "hal", "sum", "--inference", "nns")
    assert "in B sum has not converged" in " ".join(out.split())


def test_two_folders_may_differ_in_criterion_and_need_no_project(run, tmp_path, monkeypatch):
    first, second = "data/evaluate/sum/is", str(tmp_path / "data/evaluate/sum/nns")
    (tmp_path / "params.yaml").write_text("not: valid")
    assert _sides(run, first, second, inference=None) == [(first, "is", "test"), (second, "nns", "none")]
    (tmp_path / "params.yaml").unlink()
    out, _ = output(run, "compare", first, "data/evaluate/sum/nns", "--md", "--resamples", "50")
    assert "query bank test in A, none in B" in out
    monkeypatch.chdir(tmp_path / "data" / "evaluate" / "sum")
    assert _sides(run, "nns", "is", inference=None)[1][0] == "is"


def test_max_drop(run):
    assert run("compare", "sum", "hal", "--max-drop", "0", "--resamples", "60")[0] == 0
    status, out, err = run("compare", "hal", "sum", "--max-drop", "1.5", "--resamples", "60")
    assert status == 1
    assert "A: hal (nns), B: sum (nns)" in out, "the figures are shown all the same"
    assert re.search(r"error: nns: rsum fell by \d+\.\d\d \(.*, p = 0\.0\d\d\); allowed is 1.5$", err, re.M)
    assert re.search("^error: csls: image_to_text r@1 fell", err, re.M)
    assert not re.search("skew|hub", err)
    assert run("compare", "hal", "sum", "--max-drop", "600", "--resamples", "60")[0] == 0


FOLDERS = ("data/evaluate/sum/nns", "data/evaluate/hal/nns")
CLS = "sum has no evaluation under 'cls'; it has: csls, is, nns"


WRONG = [
    (("sum",), 2, "compare needs RUN_B, or --base REV"),
    (("summ", "hal"), 2, "unknown run 'summ'; did you mean 'sum'? known: hal, max, sum"),
    (("sum", "max"), 3, "data/evaluate/max does not exist; make it with `vse-pipe evaluate --run max` or `dvc repro`"),
    (("sum", "hal", "--inference", "cls"), 2, CLS),
    ((*FOLDERS, "--inference", "nns"), 2, "--inference chooses a criterion of a run; both sides are folders"),
    (("sum", "hal", "--md", "--json"), 2, "--md and --json exclude each other"),
    (
        ("sum", "hal", "--max-drop", "1", "--resamples", "39"),
        2,
        "--max-drop 1.0: expected 0 or more points, and --resamples 40 or more",
    ),
]


@pytest.mark.parametrize(("arguments", "status", "message"), WRONG, ids=[" ".join(one[0]) for one in WRONG])
def test_what_cannot_be_done_is_one_line(run, tmp_path, arguments, status, message):
    got, out, err = run("compare", *arguments)
    assert (got, out, err.count("\n")) == (status, "", 1)
    assert err.startswith(f"error: {message.format(here=tmp_path)}"), err


def test_nothing_in_common_ranks_of_an_older_version_and_a_damaged_table_are_refused(run):
    compared.write_run("max", "gm", images=120)
    assert failure(run, 3, "compare", "max", "hal") == "error: no criterion in common: max has gm; hal has csls, nns\n"
    file = paths.evaluated("hal", "nns") / "ranks.parquet"
    pq.write_table(pq.read_table(file).drop_columns("image_id"), file)
    assert f"{file}: column 'image_id' (int64) is missing" in failure(run, 3, "compare", "sum", "hal")
    file.write_bytes(file.read_bytes()[:-40])
    assert run("compare", "sum", "hal")[0] == 5


@pytest.fixture
def repeated(run, tmp_path):
    """sum and max with seeds 1 to 3, hal as one model."""
    node = dict(PARAMS["runs"]["sum"])
    runs = {"sum": {**node, "seeds": [1, 2, 3]}, "max": {**node, "seeds": [3, 1, 2]}, "hal": node}
    write_params(tmp_path, runs=runs, grid={"inferences": ["nns", "csls"]})
    for name, quality, first in (("sum", 0.3, 0), ("max", 0.35, 10)):
        for seed in (1, 2, 3):
            compared.write_run(f"{name}/{seed}", "nns", "csls", images=120, quality=quality, seed=first + seed)
    return run


def test_runs_with_seeds_are_compared_by_seed_and_image(repeated):
    (found,) = _document(repeated, "sum", "max")["comparisons"]
    assert (found["a"]["seeds"], found["b"]["seeds"], found["paired"]) == ([1, 2, 3], [3, 1, 2], True)
    of_sum = [_document(repeated, f"sum/{seed}", "hal")["comparisons"][0] for seed in (1, 2, 3)]
    values = [one["rsum"]["a"] for one in of_sum]
    assert found["rsum"]["a"] == pytest.approx(sum(values) / 3, abs=2e-6)
    assert found["rsum"]["a_sd"] == pytest.approx(np.std(values, ddof=1), abs=2e-6)
    (lone,) = _document(repeated, "sum", "hal")["comparisons"]
    assert (lone["paired"], "seeds" in lone["b"], "b_sd" in lone["rsum"]) == (False, False, False)
    assert "seeds" not in of_sum[0]["a"]
    paired, text = (
        output(repeated, "compare", "sum", other, "--md", "--resamples", "60", "--inference", "csls")[0]
        for other in ("max", "hal")
    )
    assert "mean ± standard deviation over seeds 1, 2, 3, paired; p of each" in paired
    assert f"| rsum | {found['rsum']['a']:.2f} ± {found['rsum']['a_sd']:.2f} |" in paired
    told = "over trainings, 3 in A, 1 in B, not paired; of B one model, whose chance in training is in no interval"
    assert told in text


def test_p_values_of_several_comparisons_are_corrected_and_a_narrow_terminal_cuts_no_figure(repeated, monkeypatch):
    found = _document(repeated, "sum", "max", "hal", inference=None)["comparisons"]
    wanted = [(name, criterion) for name in ("max", "hal") for criterion in ("nns", "csls")]
    assert [(one["b"]["name"], one["b"]["inference"]) for one in found] == wanted
    for address in (("rsum",), ("text_to_image", "r@5"), ("hs_sum",)):
        cells = [functools.reduce(dict.__getitem__, address, one) for one in found]
        for pair in (cells[0::2], cells[1::2]):
            assert [one["p_holm"] for one in pair] == pytest.approx(holm([one["p"] for one in pair]), abs=1e-5)
    text = repeated("compare", "sum", "max", "hal", "--md", "--resamples", "60")[1]
    assert "| p (Holm) |" in text
    assert "two-sided, corrected for the 2 comparisons with A (Holm)" in text
    monkeypatch.setattr("vse_pipe.core.console.stdout.width", 80)
    out, _ = output(repeated, "compare", "sum", "max", "hal", "--inference", "nns", "--resamples", "60")
    assert ("±" in out, "…" in out) == (True, False)
    shutil.rmtree(paths.evaluations("max/2"))
    err = failure(repeated, 3, "compare", "sum", "max")
    assert ("data/evaluate/max/2 does not exist" in err, "--run max/2" in err) == (True, True)


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
    """Revision one: sum ranks worse, under nns only. Revision two, checked out: sum under nns and csls, and hal."""
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
def since(monkeypatch, tmp_path, capsys, repository):
    """Call the command in a copy of the project; returns (exit status, stdout, stderr)."""
    shutil.copytree(repository, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy" / PLACE)
    return caller(monkeypatch, capsys, "compare")


def _found(since, *arguments: str) -> dict:
    """The one comparison."""
    (found,) = json_document(since, *arguments, "--json", "--resamples", "60")["comparisons"]
    return found


def test_a_run_against_what_it_was_another_run_or_a_folder(since):
    found = _found(since, "sum", "--base", "one")
    assert (found["a"]["name"], found["b"]["name"]) == ("one:sum", "sum")
    assert found["a"]["inference"] == found["b"]["inference"] == "nns"
    assert found["rsum"]["b"] == json.loads((paths.evaluated("sum", "nns") / "metrics.json").read_text())["rsum"]
    assert found["rsum"]["difference"] > 50
    first, second = (_found(since, one, "hal", "--base", "HEAD") for one in ("sum", FOLDER))
    assert (first["a"]["name"], second["a"]["name"], first["rsum"]) == ("HEAD:sum", f"HEAD:{FOLDER}", second["rsum"])
    assert _found(since, FOLDER, "--base", "HEAD")["rsum"]["difference"] == 0


FOLDER = "data/evaluate/sum/nns"


def test_a_drop_against_the_base_fails(since):
    compared.write_run("sum", "nns", images=80, quality=0.1)
    err = failure(since, 1, "sum", "--base", "HEAD~1", "--inference", "nns", "--max-drop", "1", "--resamples", "60")
    assert err.startswith("error: nns: image_to_text r@1 fell by ")


@pytest.mark.parametrize("only_files", [True, False])
def test_data_that_is_not_in_the_cache_is_status_4(since, tmp_path, only_files):
    cache = tmp_path / "copy" / "work" / ".dvc" / "cache" / "files" / "md5"
    if only_files:
        for file in [file for file in cache.glob("*/*") if file.suffix != ".dir"]:
            file.unlink()
    else:
        shutil.rmtree(cache)
    for run_a in ("sum", FOLDER):
        status, out, err = since(run_a, "hal", "--base", "one", "--inference", "nns")
        assert (status, out, err.count("\n")) == (4, "", 1), err
        assert err.startswith("error: one:data/evaluate/sum"), err
        assert "is not in the DVC cache; get it with `dvc fetch` after `git checkout one`" in err
        assert "`dvc repro`" in err


@pytest.mark.parametrize(
    ("status", "given", "message"),
    [
        (2, ("sum", "--base", "no-such"), "--base no-such: unknown Git revision 'no-such'"),
        (3, ("hal", "--base", "one"), "one has no data/evaluate/hal; it was not evaluated in that revision\n"),
        (2, ("sum", "--base", "one", "--inference", "csls"), "one:sum has no evaluation under 'csls'; it has: nns\n"),
        (2, ("/elsewhere/nns", "sum", "--base", "one"), "/elsewhere/nns lies outside the project"),
    ],
)
def test_what_the_revision_lacks_is_one_line(since, status, given, message):
    found, out, err = since(*given)
    assert (found, out, err.count("\n")) == (status, "", 1)
    assert err.startswith(f"error: {message}"), err
