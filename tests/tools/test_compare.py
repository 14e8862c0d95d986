"""`vse-pipe compare`: tables, --max-drop, which fails on significant falls alone, and the command itself."""

import contextlib
import functools
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.command_line import caller, failure, output
from tests.tools import compared
from tests.tools.compared import evaluation
from tests.toy_project import PARAMS, write_params
from vse_pipe.artifacts import features
from vse_pipe.core.errors import Regression
from vse_pipe.core.files import write_json
from vse_pipe.project import paths
from vse_pipe.ranking.comparison import Comparison, FigureRow, Method
from vse_pipe.ranking.intervals import holm
from vse_pipe.tools import compare


def _comparison(*rows: FigureRow) -> Comparison:
    one = Method.single(evaluation())
    return Comparison(one, one, 40, list(rows))


def _row(address, b, p=0.01, a=50.0):
    return FigureRow(address, a, b, [b - a - 1, b - a + 1], p)


WATCHED = [("image_to_text", name) for name in ("r@1", "r@5", "r@10", "mrr", "map")] + [
    ("text_to_image", "r@1"),
    ("rsum",),
]


@pytest.mark.parametrize("address", WATCHED)
def test_a_significant_fall_fails(address):
    with pytest.raises(
        Regression, match=f"nns: {' '.join(address)} fell by 1.50 .50.00 to 48.50, p = 0.010.; allowed is 1$"
    ):
        compare.check([_comparison(_row(address, 48.5))], 1.0)


@pytest.mark.parametrize(
    "row",
    [
        _row(("rsum",), 49.0),
        _row(("rsum",), 60.0),
        _row(("rsum",), 30.0, p=0.05),
        _row(("text_to_image", "skew@10"), 1.0),
        _row(("text_to_image", "largest_hub@10"), 1.0),
        _row(("text_to_image", "med_r"), 1.0),
        _row(("hs_sum",), 1.0),
        FigureRow(("text_to_image", "r@1"), 50.0, 1.0, None, None),
    ],
)
def test_anything_else_passes(row):
    compare.check([_comparison(row)], 1.0)


def test_every_significant_fall_is_named_and_the_corrected_p_value_decides():
    rows = [_row(("image_to_text", "r@1"), 40.0), _row(("rsum",), 45.0), _row(("image_to_text", "r@5"), 50.0)]
    with pytest.raises(Regression) as failure:
        compare.check([_comparison(*rows), _comparison(rows[0])], 0.0)
    assert [line.split(" fell")[0] for line in str(failure.value).splitlines()] == [
        "nns: image_to_text r@1",
        "nns: rsum",
        "nns: image_to_text r@1",
    ]
    row = replace(_row(("rsum",), 40.0, p=0.01), holm=0.03)
    with pytest.raises(Regression, match=r"p = 0\.030"):
        compare.check([_comparison(row)], 1.0)
    compare.check([_comparison(replace(row, holm=0.06))], 1.0)


ROWS = [
    FigureRow(("image_to_text", "r@1"), 41.254, 39.75, [-2.5, -0.254], 0.01249),
    FigureRow(("text_to_image", "gini@10"), 0.51249, 0.51251, [-0.0004, 0.1], 0.5),
    FigureRow(("hs_sum",), 12.0, 11.9999999, None, None),
]


@pytest.fixture
def comparison():
    return Comparison(
        Method.single(evaluation("a|b", {"bank": "val"})),
        Method.single(evaluation("[b]", {"bank": "test"})),
        1000,
        ROWS,
    )


def test_markdown(comparison):
    lines = compare.markdown([comparison], 500, 3).splitlines()
    assert lines[0] == "### A: a|b (nns), B: [b] (nns)"
    assert lines[2] == "| metric | A | B | B - A | 95% interval | p |"
    assert lines[4:7] == [
        "| i2t r@1 | 41.25 | 39.75 | -1.50 | -2.50 to -0.25 | 0.012 |",
        "| t2i gini@10 | 0.512 | 0.513 | +0.000 | +0.000 to +0.100 | 0.500 |",
        "| hs-sum | 12.00 | 12.00 | +0.00 | - | - |",
    ]
    assert lines[8] == (
        "test split, protocol full, ties pessimistic, query bank val in A, test in B; "
        "500 draws of 1000 images with their captions, seed 3; p of each figure by itself, two-sided"
    )


def test_document(comparison):
    text = compare.document([comparison], 500, 3)
    (found,) = json.loads(text)["comparisons"]
    assert found["image_to_text"]["r@1"] == {
        "a": 41.254,
        "b": 39.75,
        "difference": -1.504,
        "interval": [-2.5, -0.254],
        "p": 0.01249,
    }
    assert found["hs_sum"] == {"a": 12.0, "b": 12.0, "difference": 0.0}
    assert "-0.0," not in text
    assert "-0.0\n" not in text
    assert (found["a"]["name"], found["a"]["bank"], found["b"]["bank"]) == ("a|b", "val", "test")


def test_terminal_shows_names_as_they_are(comparison, capsys, monkeypatch):
    monkeypatch.setattr("vse_pipe.core.console.stdout.width", 120)
    compare.terminal([comparison], 500, 3)
    out = capsys.readouterr().out
    assert "A: a|b (nns), B: [b] (nns)" in out
    assert "-2.50 to -0.25" in out


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


def _document(run, *arguments):
    status, out, err = run("compare", *arguments, "--json", "--resamples", "60")
    assert (status, err) == (0, "")
    return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} in the document"))


def test_json_has_every_criterion_of_both_in_the_order_of_the_grid(run):
    found = _document(run, "sum", "hal")
    assert [(one["a"]["inference"], one["b"]["inference"]) for one in found["comparisons"]] == [
        ("nns",) * 2,
        ("csls",) * 2,
    ]
    assert (found["resamples"], found["seed"]) == (60, 1)
    one = found["comparisons"][1]
    assert one["a"] == {"name": "sum", "inference": "csls", "bank": "test"}
    assert (one["split"], one["protocol"], one["ties"], one["images"]) == ("test", "full", "pessimistic", 120)
    row = one["image_to_text"]["r@1"]
    assert row["difference"] == pytest.approx(row["b"] - row["a"], abs=2e-6)
    assert row["interval"][0] < row["difference"] < row["interval"][1]
    assert row["p"] == pytest.approx(2 / 61, abs=1e-6)
    assert set(one["rsum"]) == set(one["hs_sum"]) == {"a", "b", "difference", "interval", "p"}


def test_the_same_call_gives_the_same_bytes_and_another_seed_others(run):
    first, again, other = (run("compare", "sum", "hal", "--json", "--seed", seed)[1] for seed in "112")
    assert first == again != other
    assert first == json.dumps(json.loads(first), indent=2, sort_keys=True) + "\n"


def test_table_names_sides_protocol_and_draws(run):
    out, _ = output(run, "compare", "sum", "hal", "--inference", "csls", "--resamples", "50")
    assert "A: sum (csls), B: hal (csls)" in out
    text = " ".join(out.split())
    figures = ("B - A", "95% interval", "i2t r@1", "t2i largest_hub@10", "hs-sum")
    assert [words for words in (*figures, "query bank test;", "50 draws of 120 images") if words not in text] == []
    assert "nns" not in out


def test_two_folders_may_differ_in_criterion_and_need_no_project(run, tmp_path, monkeypatch):
    (tmp_path / "params.yaml").write_text("not: valid")
    (found,) = _document(run, "data/evaluate/sum/is", str(tmp_path / "data/evaluate/sum/nns"))["comparisons"]
    assert (found["a"]["inference"], found["b"]["inference"]) == ("is", "nns")
    assert (found["a"]["bank"], found["b"]["bank"]) == ("test", "none")
    (tmp_path / "params.yaml").unlink()
    again = run("compare", "data/evaluate/sum/is", "data/evaluate/sum/nns", "--md", "--resamples", "50")
    assert again[0] == 0
    assert "query bank test in A, none in B" in again[1]
    outside = tmp_path / "data" / "evaluate" / "sum"
    monkeypatch.chdir(outside)
    (found,) = _document(run, "nns", "is")["comparisons"]
    assert found["b"]["name"] == "is"


def test_a_folder_beside_a_run_takes_the_criterion_of_the_folder_or_the_one_asked_for(run, tmp_path, monkeypatch):
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    (found,) = _document(run, "../data/evaluate/sum/csls", "hal")["comparisons"]
    assert (found["a"]["inference"], found["b"]["inference"]) == ("csls", "csls")
    monkeypatch.chdir(tmp_path / "deep")
    (found,) = _document(run, "hal", "../data/evaluate/sum/csls", "--inference", "nns")["comparisons"]
    assert (found["a"]["inference"], found["b"]["inference"]) == ("nns", "csls")


def test_max_drop(run):
    assert run("compare", "sum", "hal", "--max-drop", "0", "--resamples", "60")[0] == 0
    status, out, err = run("compare", "hal", "sum", "--max-drop", "1.5", "--resamples", "60")
    assert status == 1
    assert "A: hal (nns), B: sum (nns)" in out, "the figures are shown all the same"
    lines = err.splitlines()
    assert any(
        re.match(r"error: nns: rsum fell by \d+\.\d\d \(.*, p = 0\.033\); allowed is 1.5$", line) for line in lines
    )
    assert any(line.startswith("error: csls: image_to_text r@1 fell") for line in lines)
    assert not any("skew" in line or "hub" in line for line in lines)
    assert run("compare", "hal", "sum", "--max-drop", "600", "--resamples", "60")[0] == 0


WRONG = [
    (("sum",), 2, "compare needs RUN_B, or --base REV"),
    (("summ", "hal"), 2, "unknown run 'summ'; did you mean 'sum'? known: hal, max, sum"),
    (("sum", "max"), 3, "data/evaluate/max does not exist; make it with `vse-pipe evaluate --run max` or `dvc repro`"),
    (
        ("sum", "hal", "--inference", "cls"),
        2,
        "sum has no evaluation under 'cls'; did you mean 'csls'? it has: csls, is, nns",
    ),
    (("sum", "hal", "--inference", "is"), 2, "hal has no evaluation under 'is'; it has: csls, nns"),
    (("./no", "hal"), 2, "{here}/no has no metrics.json: RUN is a folder"),
    (
        ("data/evaluate/sum/nns", "data/evaluate/hal/nns", "--inference", "nns"),
        2,
        "--inference chooses a criterion of a run; both sides are folders",
    ),
    (("sum", "hal", "--md", "--json"), 2, "--md and --json exclude each other"),
    (("sum", "hal", "--max-drop", "nan"), 2, "--max-drop nan: expected a number of points, 0 or more"),
    (("sum", "hal", "--max-drop", "-1"), 2, "--max-drop -1.0: expected a number of points, 0 or more"),
    (("sum", "hal", "--max-drop", "1", "--resamples", "39"), 2, "--max-drop needs --resamples 40 or more"),
]


@pytest.mark.parametrize(("arguments", "status", "message"), WRONG, ids=[" ".join(one[0]) for one in WRONG])
def test_what_cannot_be_done_is_one_line(run, tmp_path, arguments, status, message):
    got, out, err = run("compare", *arguments)
    assert (got, out) == (status, "")
    assert err.startswith(f"error: {message.format(here=tmp_path)}"), err
    assert err.count("\n") == 1


def test_nothing_in_common_is_an_error(run):
    compared.write_run("max", "gm", images=120)
    err = failure(run, 3, "compare", "max", "hal")
    assert err == "error: no criterion in common: max has gm; hal has csls, nns\n"


def test_ranks_of_an_older_version_are_refused(run):
    older = compared.evaluation("hal", images=120)
    folder = paths.evaluated("hal", "nns")
    columns = [name for name in older.ranks.column_names if name != "image_id"]
    pq.write_table(older.ranks.select(columns), folder / "ranks.parquet")
    err = failure(run, 3, "compare", "sum", "hal")
    assert "data/evaluate/hal/nns/ranks.parquet: column 'image_id' (int64) is missing" in err


def test_a_damaged_table_is_status_5(run):
    file = paths.evaluated("hal", "nns") / "ranks.parquet"
    file.write_bytes(file.read_bytes()[:-40])
    assert run("compare", "sum", "hal")[0] == 5


def test_features_of_different_precision_are_not_compared_silently(run, tmp_path):
    runs = {name: PARAMS["runs"]["sum"] | {"features": name} for name in ("sum", "hal")}
    write_params(tmp_path, runs=runs, features=dict.fromkeys(runs, PARAMS["features"]["plain"]))
    of_sum, of_hal = (paths.extracted("toy", name) / features.META for name in runs)
    write_json(of_sum, {"precision": "float32"})
    write_json(of_hal, {"precision": "float32"})
    assert run("compare", "sum", "hal", "--inference", "nns")[2] == ""
    write_json(of_hal, {"precision": "bfloat16"})
    status, _, err = run("compare", "sum", "hal", "--inference", "nns")
    told = f"{of_sum.parent} in float32, {of_hal.parent} in bfloat16"
    assert (status, err) == (
        0,
        f"warning: the features were not computed alike: {told}; set precision in params.yaml and extract them again\n",
    )


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
    found = _document(repeated, "sum", "max", "--inference", "csls")["comparisons"][0]
    assert (found["a"]["seeds"], found["b"]["seeds"], found["paired"]) == ([1, 2, 3], [3, 1, 2], True)
    of_sum = [_document(repeated, f"sum/{seed}", "hal", "--inference", "csls")["comparisons"][0] for seed in (1, 2, 3)]
    values = [one["rsum"]["a"] for one in of_sum]
    assert found["rsum"]["a"] == pytest.approx(sum(values) / 3, abs=2e-6)
    assert found["rsum"]["a_sd"] == pytest.approx(np.std(values, ddof=1), abs=2e-6)
    assert "seeds" not in of_sum[0]["a"]
    lone = _document(repeated, "sum", "hal", "--inference", "csls")["comparisons"][0]
    assert (lone["paired"], "seeds" in lone["b"], "b_sd" in lone["rsum"]) == (False, False, False)
    status, out, _ = repeated("compare", "sum", "max", "--md", "--resamples", "60", "--inference", "csls")
    assert (status, "mean ± standard deviation over seeds 1, 2, 3, paired; p of each" in out) == (0, True)
    assert f"| rsum | {found['rsum']['a']:.2f} ± {found['rsum']['a_sd']:.2f} |" in out
    text = repeated("compare", "sum", "hal", "--md", "--resamples", "60", "--inference", "csls")[1]
    assert (
        "over trainings, 3 in A, 1 in B, not paired; of B one model, whose chance in training is in no interval" in text
    )


def test_a_narrow_terminal_cuts_no_figure_and_a_seed_that_is_not_evaluated_is_named(repeated, monkeypatch, tmp_path):
    monkeypatch.setattr("vse_pipe.core.console.stdout.width", 80)
    status, out, _ = repeated("compare", "sum", "max", "hal", "--inference", "nns", "--resamples", "60")
    assert (status, "±" in out, "…" in out) == (0, True, False)
    shutil.rmtree(paths.evaluations("max/2"))
    status, _, err = repeated("compare", "sum", "max")
    assert (status, "data/evaluate/max/2 does not exist" in err, "--run max/2" in err) == (3, True, True)


def test_p_values_of_several_comparisons_are_corrected(repeated):
    found = _document(repeated, "sum", "max", "hal")["comparisons"]
    assert [(one["b"]["name"], one["b"]["inference"]) for one in found] == [
        (name, criterion) for name in ("max", "hal") for criterion in ("nns", "csls")
    ]
    for address in (("rsum",), ("text_to_image", "r@5"), ("hs_sum",)):
        cells = [functools.reduce(dict.__getitem__, address, one) for one in found]
        for pair in (cells[0::2], cells[1::2]):
            assert [one["p_holm"] for one in pair] == pytest.approx(holm([one["p"] for one in pair]), abs=1e-5)
    text = repeated("compare", "sum", "max", "hal", "--md", "--resamples", "60")[1]
    assert "| p (Holm) |" in text
    assert "two-sided, corrected for the 2 comparisons with A (Holm)" in text
    status, _, err = repeated("compare", "sum", "hal", "max", "hal")
    assert (status, err) == (2, "error: RUN_B hal is given twice\n")
