"""The files beside the page, and what made the figures, and what figures leave out."""

import json
import math
import re
from dataclasses import replace
from math import comb
from pathlib import Path

import pandas as pd
import pytest

from tests.report import project as base
from tests.rules.sources import ROOT
from vse_pipe.artifacts import evaluation, model_files
from vse_pipe.core.files import read_json, write_json
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EnsembleNode
from vse_pipe.project.params.typed import Member
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


def test_metrics_hold_what_evaluate_measured_in_finite_numbers_of_named_data(finished, metrics):
    names = sorted([*base.CRITERIA, "data"])
    assert {run: list(metrics[run]) for run in metrics} == dict.fromkeys(sorted(base.RUNS), names)
    for run in base.RUNS:
        for inference in base.CRITERIA:
            measured = evaluation.read_metrics(finished / paths.evaluated(run, inference))
            expected = {(name,): measured[name] for name in ("rsum", "hs_sum")}
            expected |= {(side, "r@1"): measured[side]["r@1"] for side in evaluation.DIRECTIONS}
            assert dict(leaves(metrics[run][inference])) == pytest.approx(expected, abs=5e-5)
    # A value that is changed changes every figure of its run: four a criterion.
    assert len(list(leaves(metrics["hal"]))) == 4 * len(base.CRITERIA) + 1
    found = [(address, value) for address, value in leaves(metrics) if address[1:] != ("data",)]
    assert len(found) == len(list(leaves(metrics))) - len(base.RUNS)
    assert all(isinstance(value, int | float) and math.isfinite(value) for _, value in found)
    assert not [address for address, _ in found if "seconds" in address[-1] or address[-1] in ("queries", "items")]
    assert {metrics[run]["data"] for run in base.RUNS} == {base.data(finished / paths.DATA)}
    text = (finished / "reports/metrics.json").read_text()
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"


def plot(finished, name):
    return pd.read_csv(finished / f"reports/plots/{name}.csv")


def test_plots_of_rsum_history_and_occurrence_count_everything_once(finished, metrics):
    table = plot(finished, "rsum")
    assert list(table.columns) == ["run", "inference", "rsum"]
    assert {(row.run, row.inference): row.rsum for row in table.itertuples()} == {
        (run, inference): metrics[run][inference]["rsum"] for run in metrics for inference in base.CRITERIA
    }
    table = plot(finished, "history")
    assert list(table.columns) == ["run", "epoch", "val_rsum", "loss"]
    epochs = table.groupby("run", sort=False)["epoch"].apply(list).to_dict()
    assert epochs == {run: [*range(1, 16)] for run in base.RUNS}
    table = plot(finished, "occurrence")
    assert list(table.columns) == ["run", "inference", "direction", "n_10", "items"]
    images, texts = base.IMAGES, base.IMAGES * base.CAPTIONS_EACH
    table["retrievals"] = table["n_10"] * table["items"]
    sums = table.groupby(["run", "inference", "direction"])[["items", "retrievals"]].sum()
    assert len(sums) == 2 * len(base.RUNS) * len(base.CRITERIA)
    for (_, _, direction), row in sums.iterrows():
        queries, items = (images, texts) if direction == "image_to_text" else (texts, images)
        assert (row["items"], row["retrievals"]) == (items, 10 * queries)


@pytest.mark.parametrize("template", ["curves", "rsum", "occurrence", "sweeps"])
def test_the_fields_of_a_dvc_template_are_columns(finished, template):
    content = json.loads((ROOT / f"pipeline/vse_pipe/report/plots/{template}.json").read_text())
    fields = {value for address, value in leaves(content) if address[-1] == "field"}
    made = {value for address, value in leaves(content) if address[-1] == "as"}
    # DVC adds `rev` and fills in the axes.
    columns = plot(finished, "history" if template == "curves" else template).columns
    assert {field for field in fields - made if not field.startswith("<DVC_")} <= {"rev", *columns}
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


def test_points_of_sweeps_are_what_was_measured_baselines_without_value_and_epochs(finished, table, section):
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
    rows = table[table["sweep"] == "batch"]
    assert list(rows["run"]) == ["hal", "sum", "max"]
    assert list(rows["x"].isna()) == [False, True, True]
    assert set(rows["inference"]) == {"csls"}
    assert list(rows["rsum"]) == pytest.approx([measured(finished, run, "csls") for run in rows["run"]], abs=5e-5)
    rows = rows_of(section, "batch")
    assert [row[0] for row in rows] == ["128", "baseline", "baseline"]
    assert ["★" in row[2] for row in rows] == [True, False, False]
    rows = table[table["sweep"] == "convergence"]
    for run in ("sum", "hal"):
        curve = model_files.read_history(finished / paths.trained(run))
        of_run = rows[rows["run"] == run]
        assert list(of_run["x"]) == list(of_run["val_epoch"]) == list(curve["epoch"])
        assert list(of_run["val_rsum"]) == pytest.approx(list(curve["val_rsum"]), abs=5e-5)
    assert rows[["inference", "rsum"]].isna().all(axis=None)
    assert set(rows["run"]) == {"sum", "hal"}


def test_runs_of_a_sweep_come_in_any_order_with_names_escaped(project):
    node = {"x": "loss.beta", "runs": ["hal", "max"]}
    found = settings.collect(read(base.params(**SMALL, sweeps={"s": node})))
    assert [point.run for point in found[0].points] == ["max", "hal"]
    title = "<b>k & K</b>"
    node = {"x": "loss.beta", "runs": ["sum", "hal"], "title": title}
    report(base.params(**SMALL, sweeps={"s": node}))
    text = (project / "reports/index.html").read_text()
    assert title not in text
    assert "&lt;b&gt;k &amp; K&lt;/b&gt;" in text


def rows_of(section, name):
    body = re.search(rf"Runs of sweep {name}</caption>.*?<tbody>(.*?)</tbody>", section, re.DOTALL).group(1)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in body.split("</tr>")[:-1]]
    return [[re.sub(r"<[^>]+>", "", cell).strip() for cell in row] for row in cells]


def test_the_table_and_the_template_of_dvc_plots_draw_them(finished, section):
    rows = rows_of(section, "steepness")
    assert [row[:2] for row in rows] == [["10", "sum"], ["10", "max"], ["80", "hal"]]
    rsum = {run: measured(finished, run, "nns") for run in base.RUNS}
    best = max(rsum, key=rsum.get)
    for _, run, shown, interval, *_ in rows:
        assert interval == "300.2\u2013433.8"
        assert shown == ("★ best: " if run == best else "") + f"{rsum[run]:.1f}"
    mean = (rsum["sum"] + rsum["max"]) / 2
    assert [row[4] for row in rows] == [f"{mean:.1f}", "", f"{rsum['hal']:.1f}"]
    wanted = {run: kept(finished, run) for run in ("sum", "hal")}
    shown = {run: (rsum.removeprefix("★ best: "), epoch) for run, rsum, epoch in rows_of(section, "convergence")}
    assert shown == {run: (f"{rsum:.1f}", str(epoch)) for run, (rsum, epoch) in wanted.items()}


MEMBERS = ("sampler", "loss", "scheme", "similarity", "text", "image")


def _describe(member: Member) -> dict:
    return {"name": member.name, "params": member.params.model_dump(mode="json")}


def _record(run: str, **changes: object) -> None:
    """config.json as training writes it for the run of ``base.params``, with ``changes``."""
    params = base.params()
    node, path = params.runs[run], paths.trained(run) / "config.json"
    config = {key: _describe(getattr(node, key)) for key in MEMBERS}
    config |= {"train": node.train.model_dump(mode="json"), "seed": node.seed}
    write_json(path, read_json(path) | config | changes)


def _page(**changes: object) -> str:
    return report(base.params(**{"runs": ["sum", "hal"], "inferences": ["nns", "is"], **changes})).read_text()


def _text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).replace("&#39;", "'").split())


def _top(page: str) -> str:
    return _text(page[page.index("<header>") : page.index("</header>")])


def _setup(page: str, run: str) -> str:
    section = page[page.index('id="setup"') :]
    return _text(section[section.index(f"<summary>{run} ") :].partition("</details>")[0])


def test_settings_are_those_of_the_training(project):
    _record("hal", loss={"name": "hal", "params": {"beta": 5.0}})
    setup = _setup(_page(), "hal")
    assert "loss hal beta 5" in setup
    assert "train" in setup
    assert "lr 0.0002" in setup


def test_criteria_are_those_that_ranked_with_the_values_chosen_on_val(project):
    for run, beta in (("sum", 30.0), ("hal", 12.0)):
        path = paths.evaluated(run, "is") / evaluation.METRICS
        both = {direction: {"beta": beta} for direction in evaluation.DIRECTIONS}
        write_json(path, read_json(path) | {"parameters": both})
    page = _page()
    setup = _text(page[page.index('id="setup"') :])
    assert "is sum: beta 30 hal: beta 12" in setup
    path = paths.evaluated("hal", "is") / evaluation.METRICS
    both = {direction: {"beta": 7.0} for direction in evaluation.DIRECTIONS}
    write_json(path, read_json(path) | {"parameters": both, "tuned": both})
    page = _page(runs=["hal"])
    assert "Values of <code>is</code> were chosen on val." in page


def _notes_top() -> str:
    return _top(report(base.params(**base.LITTLE)).read_text())


def _edit(path: Path, **changes: object) -> None:
    write_json(path, read_json(path) | changes)


def test_what_has_not_converged_is_marked_in_the_summary_and_in_every_table_of_runs(project):
    base.write_evaluation(
        project / paths.evaluated("both", "nns"), "both", "nns", 1.6, ensemble=EnsembleNode(runs=["sum", "hal"]).entry
    )
    params = base.params(**base.LITTLE, sweeps={"convergence": {"x": "epoch", "runs": ["sum", "hal"]}})
    params = replace(params, ensembles={"both": EnsembleNode(runs=["sum", "hal"])})
    assert "‡" not in report(params).read_text(encoding="utf-8")
    _edit(paths.trained("hal") / "config.json", ended={"by": "epochs", "epoch": 20, "converged": False})
    _edit(paths.trained("sum") / "config.json", ended={"by": "patience", "epoch": 9, "converged": True})
    page = report(params).read_text(encoding="utf-8")
    rising = "rsum on val was still rising when train.epochs (20) ended; raise it."
    assert f"Run hal, ensemble both: not converged: {rising}" in page
    for name in ("summary", "rankings", "curves", "sweeps"):
        section = base.section(page, name)
        heads = re.findall(r'<th scope="(?:row|col)"[^>]*>(.*?)</th>', section)
        marked = {base.words(head)[0] for head in heads if "‡" in head}
        assert marked == ({"hal", "both"} if name in ("summary", "rankings") else {"hal"})
        assert "‡ not converged: the notes at the top of the page say why." in section


def test_notes_stand_on_top_of_runs_and_pictures_that_are_not_well_and_of_runs_at_chance(project):
    assert "Before you read" not in _notes_top()
    for path in Path("pictures").glob("*.png"):
        path.write_bytes(b"no picture")
    assert "pictures could not be read where this page was written; the caption stands in for each." in _notes_top()
    _edit(
        paths.trained("hal") / "config.json",
        ended={"by": "epochs", "converged": False, "stuck": "the loss is 0; lower train.lr"},
    )
    assert "Run hal: not converged: the loss is 0; lower train.lr." in _notes_top()
    for run in base.LITTLE["runs"]:
        _edit(paths.evaluated(run, "nns") / evaluation.METRICS, left_out={"images": 2, "captions": 10})
    said = "Run sum, run hal: 2 images of the test split could not be read; they are left out of the figures with 10 captions."
    assert said in _notes_top()
    # Every correct item lies at random: the expected rsum, in plain loops.
    intervals = {"rsum": [40.0, 75.0], "image_to_text": {"r@1": [0.0, 9.0]}}
    _edit(paths.evaluated("hal", "nns") / evaluation.METRICS, rsum=62.0, intervals=intervals)
    expected = 0.0
    for n, r in ((base.IMAGES * base.CAPTIONS_EACH, base.CAPTIONS_EACH), (base.IMAGES, 1)):
        for k in (1, 5, 10):
            expected += 100 * (1 - comb(n - r, k) / comb(n, k))
    said = "Run hal: rsum 62.0 under nns, 95% interval 40.0–75.0, cannot be told from chance, which gives"
    assert f"{said} {expected:.1f}." in _notes_top()
