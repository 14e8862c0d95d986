"""Sections of the page that few evaluations have, and ensembles, runs with seeds and transfers."""

import csv
import html
import json
import re
import shutil
import statistics
from dataclasses import replace

import pandas as pd
import pytest

from tests.naive import stages as naive
from tests.report import project as base
from vse_pipe.artifacts import captions, evaluation, identity
from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.core.files import read_json, write_json
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EnsembleNode, EvaluateParams, SweepNode, TransferNode
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.comparison import spreads
from vse_pipe.ranking.intervals import Figures
from vse_pipe.report.stage import report


def _ranks(root, run: str, inference: str) -> pd.DataFrame:
    table = evaluation.read_ranks(root / paths.evaluated(run, inference)).to_pandas()
    return table.set_index(["direction", "query_id"])


def _kinds(root, run: str, inference: str, direction: str, k: int) -> list[str]:
    before, after = (_ranks(root, run, name).loc[direction][f"hit_{k}"] for name in ("nns", inference))
    return [naive.kind(before[number], after[number]) for number in before.index]


def test_counts_charts_and_examples_of_changes_equal_the_loops(finished, page):
    table = re.search(r"<caption>Queries of run max that turn right.*?<tbody>(.*?)</tbody>", page, re.DOTALL).group(1)
    rows = dict(re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table))
    assert list(rows) == [name for name in base.CRITERIA if name != "nns"]
    for name, cells in rows.items():
        plain = cells.replace("\u2212", "-").replace("\u00b1", "")
        found = [int(text) for text in re.findall(r"<td[^>]*>(.*?)</td>", plain)]
        expected = []
        for direction in DIRECTIONS:
            for k in (1, 10):
                kinds = _kinds(finished, "max", name, direction, k)
                repaired, broken = kinds.count("repaired"), kinds.count("broken")
                expected += [repaired, -broken, repaired - broken]
        assert found == expected, name
    assert any("+1" in cells for cells in rows.values())
    section = base.section(page, "changes")
    label = html.unescape(re.search(r'aria-label="(Image to text, queries right at 1 [^"]*)"', section).group(1))
    kinds = _kinds(finished, "sum", "csls", "image_to_text", 1)
    assert f"csls repairs {kinds.count('repaired')} and breaks {kinds.count('broken')}" in label
    table = re.search(r"Queries that gm repaired and broke at R@10.*?</table>", section, re.DOTALL).group(0)
    assert "Set under gm" in table
    assert "correct item among its 10" in table
    # A query that is called repaired is wrong under the plain ranking and right under the criterion.
    found = re.search(r"Queries that csls repaired and broke at R@1.*?<tbody>(.*?)</tbody>", section, re.DOTALL)
    table = found.group(1)
    rows = table.split("</tr>")[:-1]
    assert 4 <= len(rows) <= 8
    for row in rows:
        kind = re.search(r'class="kind (\w+)"', row).group(1)
        verdicts = re.findall(r'class="verdict (\w+)"', row)
        assert verdicts == (["wrong", "right"] if kind == "repaired" else ["right", "wrong"])
        ranks = [int(number) for number in re.findall(r"correct at rank (\d+)", row)]
        assert [number == 1 for number in ranks] == [verdict == "right" for verdict in verdicts]
    assert {"repaired", "broken"} == set(re.findall(r'class="kind (\w+)"', table))


SIDE = {"queries": 1234, "r@1": 41.23, "map@r": 30.04, "r_precision": 33.3, "graded_ndcg@10": 70.0, "mrr": 50.0}
SIDE |= {"kendall": {"judgements": 99, "tau_b": 0.4567, "tau_c": -0.1}, "kendall_foreign": {"judgements": 9}}


def _judge(run: str, inference: str, **found: dict) -> None:
    path = paths.evaluated(run, inference) / evaluation.METRICS
    write_json(path, {**read_json(path), **found})


def test_a_row_for_each_evaluation_that_has_them(project):
    directions = {"image_to_text": SIDE, "text_to_image": {**SIDE, "kendall": {"judgements": 99}}}
    _judge("hal", "csls", judged={"file": "j.csv", "correct_above": 1.5, **directions})
    report(base.params(runs=["sum", "hal"], inferences=["nns", "csls"], examples=0))
    section = base.section((project / "reports/index.html").read_text(), "judged")
    assert "with a mean grade above 1.5" in " ".join(section.split())
    rows = [base.words(row) for row in re.findall(r"<tr><th scope=\"row\">.*?</tr>", section)]
    side = ["1,234", "41.2", "30.0", "33.3", "70.0"]
    assert rows == [["hal", "csls", *side, "0.457", "−0.100", *side, "–", "–"]]
    figures = json.loads((project / "reports/metrics.json").read_text())
    assert figures["hal"]["csls"]["judged"]["image_to_text"]["kendall"] == {"tau_b": 0.4567, "tau_c": -0.1}
    assert "queries" not in figures["hal"]["csls"]["judged"]["text_to_image"]
    assert "judged" not in figures["hal"]["nns"]


def test_figures_of_the_curve(page):
    section = base.section(page, "relaxation")
    specs = [json.loads(text) for text in re.findall(r'data-chart="[^"]*">(.*?)</script>', section, re.DOTALL)]
    assert len(specs) == len(base.RUNS) * 2 * 3
    assert all({row["criterion"] for row in spec["data"]["values"]} == {"rgm", "is+rgm", "csls+rgm"} for spec in specs)
    row = re.search(r'<tr><th scope="row">rgm</th>(.*?)</tr>', section).group(1)
    # At lambda 1, at the chosen 2.5 and at 4.
    assert base.words(row) == ["1", "2.5", "40.0", "43.0", "41.0"]
    label = html.unescape(re.search(r'aria-label="(R@1, image to text[^"]*)"', section).group(1))
    assert "rgm has 40.0 on validation at 1, 43.0 at the chosen 2.5 and 41.0 at 4" in label
    table = re.search(r"<caption>R@K on validation, image to text</caption>.*?</table>", page, re.DOTALL).group(0)
    assert re.findall(r'<th scope="row" class="number">(.*?)</th>', table) == ["1", "2.5", "4"]
    assert re.findall(r"<td[^>]*>(.*?)</td>", table)[:3] == ["40.0"] * 3


# Liu et al., AAAI 2020, Table 2: HAL with a memory bank, GRU and ResNet152, measured on five folds.
ROW, RSUM = "hal-aaai2020 2.12", 466.7
I2T, T2I = (64.0, 89.9, 95.7, 1.0, 2.8), (46.9, 80.4, 89.9, 2.0, 6.1)


def published(row, inferences=("csls", "nns")):
    params = base.params(runs=["sum", "hal"], inferences=list(inferences))
    runs = {**params.runs, "hal": replace(params.runs["hal"], row=row)}
    page = report(replace(params, runs=runs)).read_text(encoding="utf-8")
    return base.section(page, "published")


def numbers(cells):
    return [float(cell.replace("\u2212", "-").replace("±", "")) for cell in cells]


def test_a_run_that_names_a_row_is_set_beside_it_and_an_unknown_row_writes_nothing(project):
    with pytest.raises(UsageError, match=r"hal-aaai2020 has no row '2\.122'"):
        published("hal-aaai2020 2.122")
    assert not (project / "reports").exists()
    html = published(ROW)
    assert html.count("<table>") == 1, "the paper ranks this model with nns alone"
    assert "row 2.12, beside run hal ranked with nns" in html
    reasons = ["data set shapes here, coco in the row", "backbone torchvision here, resnet152 in the row"]
    reasons += ["protocol full here, folds (c2) in the row", "test images 60 here, 5,000 in the row"]
    assert f"No difference, for the row is of another setting: {'; '.join(reasons)}." in html
    rows = re.findall(r'<th scope="row">(.*?)</th>' + 2 * r'<td class="number">(.*?)</td>' + "</tr>", html)
    measured = evaluation.read_metrics(project / paths.evaluated("hal", "nns"))
    ours = [measured[way][key] for way in evaluation.DIRECTIONS for key in ("r@1", "r@5", "r@10", "med_r", "mean_r")]
    ours, theirs = [*ours, measured["rsum"]], [*I2T, *T2I, RSUM]
    assert numbers(row[1] for row in rows) == theirs
    assert numbers(row[2] for row in rows) == pytest.approx(ours, abs=0.051)
    assert f"{ROW} has no figures under the criteria of this report" in published(ROW, ["csls"])


def _rows(path) -> list[dict]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_an_ensemble_is_ranked_and_has_no_curve(project):
    base.write_evaluation(
        project / paths.evaluated("both", "nns"), "both", "nns", 1.6, ensemble=EnsembleNode(runs=["sum", "hal"]).entry
    )
    both = {"both": EnsembleNode(runs=["sum", "hal"])}
    params = replace(base.params(runs=["sum", "hal"], inferences=["nns"]), ensembles=both)
    page = report(params).read_text(encoding="utf-8")
    assert "both is the mean of the scores, weighted: sum 0.5, hal 0.5." in page
    assert "Ensemble <strong>both</strong> has rsum" in page
    assert "Ensemble both" in page
    assert "run both" not in page.lower()
    plots = project / "reports/plots"
    ranked = {row["run"]: float(row["rsum"]) for row in _rows(plots / "rsum.csv")}
    assert list(ranked) == ["sum", "hal", "both"]
    assert ranked["both"] > ranked["hal"]
    assert {row["run"] for row in _rows(plots / "history.csv")} == {"sum", "hal"}


SEEDS = {1: 1.1, 2: 1.2, 5: 1.3}
CRITERIA = ["nns", "csls"]
SWEEP = SweepNode(x="loss.beta", runs=["max"], baselines=["sum"])


@pytest.fixture
def params(project) -> Params:
    """``max`` with three seeds beside ``sum`` without any."""
    found = base.params(runs=["sum", "max"], inferences=CRITERIA, sweeps={"beta": SWEEP})
    for seed, strength in SEEDS.items():
        run = f"max/{seed}"
        shutil.copytree(paths.trained("hal"), paths.trained(run))
        for inference in CRITERIA:
            base.write_evaluation(paths.evaluated(run, inference), run, inference, strength)
    models = {f"max/{seed}": replace(found.runs["max"], seed=seed) for seed in SEEDS}
    runs = {"sum": found.runs["sum"], **models}
    return replace(found, runs=runs, groups={"max": tuple(models)}, evaluate=EvaluateParams(resamples=50))


def _rsums(criterion: str) -> list[float]:
    return [evaluation.read_metrics(paths.evaluated(f"max/{seed}", criterion))["rsum"] for seed in SEEDS]


def test_a_run_with_seeds_has_the_means_under_the_keys_of_a_run_and_one_seed_no_deviation(params):
    report(params)
    found = json.loads((paths.REPORTS / "metrics.json").read_text())
    assert set(found) == {"sum", "max"}
    assert found["max"]["seeds"] == [1, 2, 5]
    for name in CRITERIA:
        one, values = found["max"][name], _rsums(name)
        assert one["rsum"] == pytest.approx(statistics.fmean(values), abs=1e-4)
        assert one["sd"]["rsum"] == pytest.approx(statistics.stdev(values), abs=1e-4)
        assert set(one) == {*found["sum"][name], "sd", "interval"}
        assert set(one["image_to_text"]) == set(found["sum"][name]["image_to_text"])
        both = [paths.evaluated(f"max/{seed}", name) for seed in SEEDS]
        figures = [Figures.from_tables(evaluation.read_ranks(one), evaluation.read_occurrence(one)) for one in both]
        low, high = spreads(figures, 50, params.seed)[("rsum",)].interval()
        assert one["interval"]["rsum"] == pytest.approx([max(low, 0.0), min(high, 600.0)], abs=1e-4)
    rsum, history, sweeps = (pd.read_csv(paths.REPORTS / f"plots/{one}.csv") for one in ("rsum", "history", "sweeps"))
    assert sorted(set(rsum["run"])) == ["max", "sum"]
    assert sorted(set(history["run"])) == ["max/1", "max/2", "max/5", "sum"]
    assert list(sweeps["run"]) == ["max", "sum"]
    assert sweeps["rsum"][0] == pytest.approx(statistics.fmean(_rsums("nns")), abs=1e-4)
    page = (paths.REPORTS / "index.html").read_text(encoding="utf-8")
    assert "max: the mean of 3 seeds" in page
    assert "of 600, the mean of 3 seeds" in page
    for seed, value in zip(SEEDS, _rsums("csls"), strict=True):
        assert f">Seed {seed}</th>" in page
        assert f"{value:.1f}" in page
    without = params.report.model_copy(update={"sweeps": {}})
    report(replace(params, runs={"max/1": params.runs["max/1"]}, groups={"max": ("max/1",)}, report=without))
    found = json.loads((paths.REPORTS / "metrics.json").read_text())["max"]["nns"]
    assert "sd" not in found
    assert found["interval"]["rsum"]


TOLD = {"run": "sum", "trained_on": "shapes", "dataset": "mine", "unknown_words": 0.125}


@pytest.fixture
def transfers_params(project):
    """``sum`` and ``hal``, and both models of a run with seeds on a data set of its own, which no run was trained on."""
    shutil.copytree(paths.prepared("shapes"), paths.prepared("mine"))
    loaded = base.params(runs=["sum", "hal"], inferences=["nns"])
    nodes = {
        f"moved/{seed}": TransferNode(run=run, dataset="mine", features="mine")
        for seed, run in ((1, "sum"), (2, "hal"))
    }
    for (name, node), strength in zip(nodes.items(), (1.0, 1.2), strict=True):
        folder = project / paths.evaluated(name, "nns")
        base.write_evaluation(folder, name, "nns", strength)
        read = identity.parts_of(paths.prepared("mine"), "test") | identity.parts_of(paths.trained(node.run))
        identity.write(folder.parent, read, {})
        path = folder / "metrics.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "transfer": {**TOLD, "run": node.run}}))
    return replace(loaded, transfers=nodes, groups={"moved": tuple(nodes)})


def test_a_transfer_stands_with_its_data_set_and_the_means_of_its_seeds(project, transfers_params):
    page = report(transfers_params).read_text(encoding="utf-8")
    assert "moved/1 is sum, trained on shapes, on mine; 12.5% of the words of its captions are unknown to it." in page
    assert "Transfer <strong>moved</strong>" in page
    top = page[: page.index("<nav")]
    assert "Transfer moved/1: 12.5% of the words of its captions are unknown to sum." in top
    plots = project / "reports/plots"
    assert {row["run"] for row in _rows(plots / "history.csv")} == {"sum", "hal"}
    report(transfers_params)
    found = json.loads((project / "reports/metrics.json").read_text())
    assert set(found) == {"sum", "hal", "moved"}
    assert found["moved"]["transfer"] == TOLD
    assert "transfer" not in found["sum"]
    sums = [evaluation.read_metrics(paths.evaluated(name, "nns"))["rsum"] for name in transfers_params.transfers]
    assert found["moved"]["nns"]["rsum"] == pytest.approx(sum(sums) / 2, abs=1e-4)


@pytest.fixture
def bare(transfers_params):
    """``sum`` is of pictures without captions, and so it is with no transfer of it."""
    shutil.copytree(paths.prepared("shapes"), paths.prepared("bare"))
    captions.write(paths.prepared("bare"), captions.read(paths.prepared("shapes")).slice(0, 0))
    run = replace(transfers_params.runs["sum"], dataset="bare")
    nodes = {"moved": transfers_params.transfers["moved/1"]}
    shutil.copytree(paths.evaluated("moved/1", "nns"), paths.evaluated("moved", "nns"))
    untitled = transfers_params.report.model_copy(update={"title": ""})
    return replace(transfers_params, runs={"sum": run}, transfers=nodes, groups={}, report=untitled)


def test_a_transfer_is_shown_on_pictures_without_captions_and_nothing_without_one(project, bare):
    page = report(bare).read_text(encoding="utf-8")
    assert "<title>vse-pipe on the mine data set</title>" in page
    figures = json.loads((project / "reports/metrics.json").read_text())
    assert {name: one["transfer"] for name, one in figures.items()} == {"moved": TOLD}
    config = paths.trained("sum") / "config.json"
    kept = config.read_bytes()
    config.unlink()
    with pytest.raises(InputError, match=r"^transfer moved: not made; make it with `vse-pipe train --run sum`"):
        report(bare)
    config.write_bytes(kept)
    nothing = replace(bare, transfers={})
    page = report(nothing).read_text(encoding="utf-8")
    assert '<p class="note">Nothing is measured: no data set that params.yaml names has captions.</p>' in page
    assert "<section" not in page
    assert "not there when" not in page
    assert json.loads((project / "reports/metrics.json").read_text()) == {}
    shutil.rmtree(paths.evaluations("moved"))
    with pytest.raises(InputError, match=r"^transfer moved: not made"):
        report(bare)
