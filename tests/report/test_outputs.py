"""The files beside the page: metrics, plots, sweeps and timings."""

import csv
import dataclasses
import json
import math
import re
from pathlib import Path

import pandas as pd
import pytest
import vl_convert

from tests.report import project as artefacts
from tests.rules.sources import ROOT
from vse_pipe.artifacts import evaluation, model_files
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EnsembleNode
from vse_pipe.report import page as report_page
from vse_pipe.report import settings
from vse_pipe.report.reading import read
from vse_pipe.report.stage import report


def leaves(node, address=()):
    """(address, value) of every leaf; lists have no address."""
    if isinstance(node, list):
        for value in node:
            yield from leaves(value, address)
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from leaves(value, (*address, key))
    else:
        yield address, node


@pytest.fixture(scope="module")
def metrics(finished):
    return json.loads((finished / "reports/metrics.json").read_text())


def test_metrics_hold_what_evaluate_measured(finished, metrics):
    assert {run: list(metrics[run]) for run in metrics} == {
        run: sorted([*artefacts.CRITERIA, "data"]) for run in sorted(artefacts.RUNS)
    }
    for run in artefacts.RUNS:
        for inference in artefacts.CRITERIA:
            measured = evaluation.read_metrics(finished / paths.evaluated(run, inference))
            expected = {(name,): measured[name] for name in ("rsum", "hs_sum")}
            expected |= {(side, "r@1"): measured[side]["r@1"] for side in evaluation.DIRECTIONS}
            assert dict(leaves(metrics[run][inference])) == pytest.approx(expected, abs=5e-5)


def test_metrics_are_finite_numbers_of_named_data_in_the_order_of_their_keys(metrics, finished):
    """A value that is changed changes every figure of its run: four a criterion."""
    assert len(list(leaves(metrics["hal"]))) == 4 * len(artefacts.CRITERIA) + 1
    found = [(address, value) for address, value in leaves(metrics) if address[1:] != ("data",)]
    assert len(found) == len(list(leaves(metrics))) - len(artefacts.RUNS)
    assert all(isinstance(value, int | float) and math.isfinite(value) for _, value in found)
    assert not [address for address, _ in found if "seconds" in address[-1] or address[-1] in ("queries", "items")]
    assert {metrics[run]["data"] for run in artefacts.RUNS} == {artefacts.data(finished / paths.DATA)}
    text = (finished / "reports/metrics.json").read_text()
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"


def plot(finished, name):
    return pd.read_csv(finished / f"reports/plots/{name}.csv")


def test_plots_of_rsum_and_history(finished, metrics):
    table = plot(finished, "rsum")
    assert list(table.columns) == ["run", "inference", "rsum"]
    assert {(row.run, row.inference): row.rsum for row in table.itertuples()} == {
        (run, inference): metrics[run][inference]["rsum"] for run in metrics for inference in artefacts.CRITERIA
    }
    table = plot(finished, "history")
    assert list(table.columns) == ["run", "epoch", "val_rsum", "loss"]
    assert table.groupby("run", sort=False)["epoch"].apply(list).to_dict() == {
        run: list(range(1, 16)) for run in artefacts.RUNS
    }


def test_occurrence_counts_every_item_once(finished):
    table = plot(finished, "occurrence")
    assert list(table.columns) == ["run", "inference", "direction", "n_10", "items"]
    images, texts = artefacts.IMAGES, artefacts.IMAGES * artefacts.CAPTIONS_EACH
    table["retrievals"] = table["n_10"] * table["items"]
    sums = table.groupby(["run", "inference", "direction"])[["items", "retrievals"]].sum()
    assert len(sums) == 2 * len(artefacts.RUNS) * len(artefacts.CRITERIA)
    for (_, _, direction), row in sums.iterrows():
        queries, items = (images, texts) if direction == "image_to_text" else (texts, images)
        assert (row["items"], row["retrievals"]) == (items, 10 * queries)


@pytest.mark.parametrize(
    ("template", "table"), [("curves", "history"), ("rsum", "rsum"), ("occurrence", "occurrence"), ("sweeps", "sweeps")]
)
def test_the_fields_of_a_dvc_template_are_columns(finished, template, table):
    content = json.loads(
        Path(artefacts.__file__).parents[2].joinpath("pipeline/vse_pipe/report/plots", f"{template}.json").read_text()
    )
    fields = {value for address, value in leaves(content) if address[-1] == "field"}
    made = {value for address, value in leaves(content) if address[-1] == "as"}
    # DVC adds `rev` and fills in the axes.
    assert {field for field in fields - made if not field.startswith("<DVC_")} <= {
        "rev",
        *plot(finished, table).columns,
    }
    assert content["data"]["values"] == "<DVC_METRIC_DATA>"


SMALL = {"inferences": ["nns", "csls"]}


@pytest.fixture(scope="module")
def table(finished):
    return pd.read_csv(finished / "reports/plots/sweeps.csv")


@pytest.fixture(scope="module")
def section(page):
    return re.search(r'<section id="sweeps".*?</section>', page, re.DOTALL).group()


def measured(root, run, inference):
    return evaluation.read_metrics(root / paths.evaluated(run, inference))["rsum"]


def kept(root, run):
    """(validation rsum, epoch) of the epoch with the highest, by a plain loop."""
    best = (-1.0, 0)
    for row in model_files.read_history(root / paths.trained(run)).itertuples():
        best = max(best, (row.val_rsum, row.epoch), key=lambda pair: pair[0])
    return best


def test_a_point_is_what_was_measured(finished, table):
    rows = table[table["sweep"] == "steepness"]
    # By value, and in the order of params.yaml where runs share one.
    assert list(zip(rows["run"], rows["x"], strict=True)) == [("sum", 10.0), ("max", 10.0), ("hal", 80.0)]
    assert set(rows["x_name"]) == {"loss.beta"}
    assert set(rows["inference"]) == {"nns"}
    for row in rows.itertuples():
        assert row.rsum == pytest.approx(measured(finished, row.run, "nns"), abs=5e-5)
        assert (row.val_rsum, row.val_epoch) == pytest.approx(kept(finished, row.run), abs=5e-5)
    lines = (finished / "reports/plots/sweeps.csv").read_text().splitlines()
    assert any(line.startswith("batch,train.batch_size,128,hal,csls,") for line in lines)
    assert any(line.startswith("convergence,epoch,1,sum,,,") for line in lines)


def test_a_baseline_has_no_value_and_is_never_the_best(finished, table, section):
    rows = table[table["sweep"] == "batch"]
    assert list(rows["run"]) == ["hal", "sum", "max"]
    assert list(rows["x"].isna()) == [False, True, True]
    assert set(rows["inference"]) == {"csls"}
    assert list(rows["rsum"]) == pytest.approx([measured(finished, run, "csls") for run in rows["run"]], abs=5e-5)
    rows = rows_of(section, "batch")
    assert [row[0] for row in rows] == ["128", "baseline", "baseline"]
    assert ["★" in row[2] for row in rows] == [True, False, False]


def test_learning_curves_have_a_row_an_epoch(finished, table):
    rows = table[table["sweep"] == "convergence"]
    for run in ("sum", "hal"):
        curve = model_files.read_history(finished / paths.trained(run))
        of_run = rows[rows["run"] == run]
        assert list(of_run["x"]) == list(of_run["val_epoch"]) == list(curve["epoch"])
        assert list(of_run["val_rsum"]) == pytest.approx(list(curve["val_rsum"]), abs=5e-5)
    assert rows[["inference", "rsum"]].isna().all(axis=None)
    assert set(rows["run"]) == {"sum", "hal"}


def test_runs_of_a_sweep_come_in_any_order_and_names_are_escaped(project):
    node = {"x": "loss.beta", "runs": ["hal", "max"]}
    found = settings.collect(read(artefacts.params(**SMALL, sweeps={"s": node})))
    assert [point.run for point in found[0].points] == ["max", "hal"]
    title = "<b>k & K</b>"
    node = {"x": "loss.beta", "runs": ["sum", "hal"], "title": title}
    report(artefacts.params(**SMALL, sweeps={"s": node}))
    text = (project / "reports/index.html").read_text()
    assert title not in text
    assert "&lt;b&gt;k &amp; K&lt;/b&gt;" in text


def rows_of(section, name):
    body = re.search(rf"Runs of sweep {name}</caption>.*?<tbody>(.*?)</tbody>", section, re.DOTALL).group(1)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in body.split("</tr>")[:-1]]
    return [[re.sub(r"<[^>]+>", "", cell).strip() for cell in row] for row in cells]


def test_the_table_and_the_learning_curves_on_the_page(finished, section):
    rows = rows_of(section, "steepness")
    assert [row[:2] for row in rows] == [["10", "sum"], ["10", "max"], ["80", "hal"]]
    rsum = {run: measured(finished, run, "nns") for run in artefacts.RUNS}
    best = max(rsum, key=rsum.get)
    for _, run, shown, interval, *_ in rows:
        assert interval == "300.2\u2013433.8"
        assert shown == ("★ best: " if run == best else "") + f"{rsum[run]:.1f}"
    mean = (rsum["sum"] + rsum["max"]) / 2
    assert [row[4] for row in rows] == [f"{mean:.1f}", "", f"{rsum['hal']:.1f}"]
    wanted = {run: kept(finished, run) for run in ("sum", "hal")}
    shown = {run: (rsum.removeprefix("★ best: "), epoch) for run, rsum, epoch in rows_of(section, "convergence")}
    assert shown == {run: (f"{rsum:.1f}", str(epoch)) for run, (rsum, epoch) in wanted.items()}


def test_the_template_of_dvc_plots_draws_them(finished):
    """As DVC fills it in: rows as strings, axes by name."""
    path = ROOT / "pipeline/vse_pipe/report/plots/sweeps.json"
    with (finished / "reports/plots/sweeps.csv").open(newline="") as file:
        rows = [{**row, "rev": "workspace"} for row in csv.DictReader(file)]
    text = path.read_text().replace('"<DVC_METRIC_DATA>"', json.dumps(rows))
    for anchor, name in (("X_LABEL", "value"), ("Y_LABEL", "rsum"), ("TITLE", "sweeps"), ("X", "x"), ("Y", "rsum")):
        text = text.replace(f"<DVC_METRIC_{anchor}>", name)
    svg = vl_convert.vegalite_to_svg(json.loads(text))
    curves = sum(len(model_files.read_history(finished / paths.trained(run))) for run in ("sum", "hal"))
    assert svg.count('aria-roledescription="point"') == 3 + 1 + curves
    assert svg.count('aria-roledescription="rule mark"') == 2
    assert "NaN" not in svg


def test_a_row_for_each_stage_that_params_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    both = EnsembleNode(first="sum", second="hal")
    params = dataclasses.replace(artefacts.params(runs=["sum", "hal"], audits=["hal"]), ensembles={"both": both})
    for run in ("sum", "hal"):
        paths.record_seconds(paths.trained(run), 2.0)
    entries = {"prepare": ["shapes"], "extract": ["small", "words"], "inject": ["clean"], "train": ["sum", "hal"]}
    entries |= {"embed": ["sum", "hal"], "evaluate": ["sum", "hal", "both"], "audit": ["hal"]}
    seconds = {"train": 2.0}
    rows = [(stage, entry, seconds.get(stage)) for stage, names in entries.items() for entry in names]
    assert report_page.rows(params) == rows


def test_the_page_of_timings():
    page = report_page.render_timings([("train", "a<b", 30.0), ("embed", "a<b", 7.5), ("audit", "a<b", None)], "x & y")
    assert "37.5 s in all" in page
    assert "a&lt;b" in page
    assert "a<b" not in page
    assert re.findall(r'style="width: ([\d.]+)%', page) == ["100.0", "25.0", "0.0"]
    assert "where it never was" in page
    assert "x &amp; y" in page
    page = report_page.render_timings([("train", "a", None)], "x")
    assert "0.0 s in all" in page
    assert re.findall(r'style="width: ([\d.]+)%', page) == ["0.0"]
    assert "never was" not in report_page.render_timings([("train", "a", 1.0)], "x")
