"""Ensembles, runs with seeds and transfers in the report."""

import csv
import dataclasses
import json
import shutil
import statistics
from dataclasses import replace

import pandas as pd
import pytest

from tests.report import project as artefacts
from vse_pipe.artifacts import captions, evaluation
from vse_pipe.core.errors import InputError
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EnsembleNode, EvaluateParams, SweepNode, TransferNode
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.comparison import spreads
from vse_pipe.ranking.intervals import Figures
from vse_pipe.report.reading import mean, present, read
from vse_pipe.report.stage import report


def _rows(path) -> list[dict]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_an_ensemble_is_ranked_and_has_no_curve(project):
    artefacts.write_evaluation(project / paths.evaluated("both", "nns"), "both", "nns", 1.6)
    params = dataclasses.replace(
        artefacts.params(runs=["sum", "hal"], inferences=["nns"]),
        ensembles={"both": EnsembleNode(first="sum", second="hal")},
    )
    page = report(params).read_text(encoding="utf-8")
    assert "both is the mean of the scores of sum and hal." in page
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


@pytest.fixture
def params(project) -> Params:
    """``max`` with three seeds beside ``sum`` without any."""
    found = artefacts.params(runs=["sum", "max"], inferences=CRITERIA, sweeps={"beta": _sweep()})
    for seed, strength in SEEDS.items():
        run = f"max/{seed}"
        shutil.copytree(paths.trained("hal"), paths.trained(run))
        for inference in CRITERIA:
            artefacts.write_evaluation(paths.evaluated(run, inference), run, inference, strength)
    models = {f"max/{seed}": replace(found.runs["max"], seed=seed) for seed in SEEDS}
    runs = {"sum": found.runs["sum"], **models}
    return replace(found, runs=runs, groups={"max": tuple(models)}, evaluate=EvaluateParams(resamples=50))


def _sweep() -> SweepNode:
    return SweepNode(x="loss.beta", runs=["max"], baselines=["sum"])


def _rsums(criterion: str) -> list[float]:
    return [evaluation.read_metrics(paths.evaluated(f"max/{seed}", criterion))["rsum"] for seed in SEEDS]


def test_a_run_with_seeds_has_the_means_under_the_keys_of_a_run(params):
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


def test_a_seed_that_is_not_there_is_named_and_one_of_other_data_is_refused(params, capsys):
    shutil.rmtree(paths.evaluations("max/2"))
    report(params)
    assert "not in the report: run max/2: not evaluated" in capsys.readouterr().err
    assert json.loads((paths.REPORTS / "metrics.json").read_text())["max"]["seeds"] == [1, 5]
    path = paths.evaluated("max/5", "csls") / evaluation.METRICS
    path.write_text(json.dumps(json.loads(path.read_text()) | {"data": None}))
    with pytest.raises(InputError, match="run max: its seeds were evaluated on different data"):
        read(params)


def test_one_seed_has_no_deviation(params):
    report(
        replace(
            params,
            runs={"max/1": params.runs["max/1"]},
            groups={"max": ("max/1",)},
            report=params.report.model_copy(update={"sweeps": {}}),
        )
    )
    found = json.loads((paths.REPORTS / "metrics.json").read_text())["max"]["nns"]
    assert "sd" not in found
    assert found["interval"]["rsum"]


def test_a_mean_keeps_counts_and_words_and_needs_a_figure_of_every_seed():
    documents = [
        {"n": 5, "name": "a", "in": {"x": 1, "y": 2.5}, "flag": True},
        {"n": 5, "name": "b", "in": {"x": 2}, "flag": True},
    ]
    found = mean(documents)
    assert found == {"n": 5, "name": "a", "in": {"x": 1.5, "y": 2.5}, "flag": True}
    assert isinstance(found["n"], int)
    documents = [{"hs_sum": 1.0, "a": {"skew@1": 2.0}}, {"hs_sum": None, "a": {"skew@1": None}}]
    for both in (documents, documents[::-1]):
        assert mean(both) == {"hs_sum": None, "a": {"skew@1": None}}


TOLD = {"run": "sum", "trained_on": "shapes", "dataset": "mine", "unknown_words": 0.125}


@pytest.fixture
def transfers_params(project):
    """``sum`` and ``hal``, and both models of a run with seeds on a data set of its own, which no run was trained on."""
    shutil.copytree(paths.prepared("shapes"), paths.prepared("mine"))
    loaded = artefacts.params(runs=["sum", "hal"], inferences=["nns"])
    nodes = {f"moved/{seed}": TransferNode(run=run, dataset="mine") for seed, run in ((1, "sum"), (2, "hal"))}
    for (name, node), strength in zip(nodes.items(), (1.0, 1.2), strict=True):
        folder = project / paths.evaluated(name, "nns")
        artefacts.write_evaluation(folder, name, "nns", strength)
        path = folder / "metrics.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "transfer": {**TOLD, "run": node.run}}))
    return dataclasses.replace(loaded, transfers=nodes, groups={"moved": tuple(nodes)})


def test_it_stands_with_its_data_set_and_has_no_curve(project, transfers_params):
    page = report(transfers_params).read_text(encoding="utf-8")
    assert "moved/1 is sum, trained on shapes, on mine; 12.5% of the words of its captions are unknown to it." in page
    assert "Transfer <strong>moved</strong>" in page
    top = page[: page.index("<nav")]
    assert "Transfer moved/1: 12.5% of the words of its captions are unknown to sum." in top
    plots = project / "reports/plots"
    with (plots / "history.csv").open(newline="", encoding="utf-8") as file:
        assert {row["run"] for row in csv.DictReader(file)} == {"sum", "hal"}


def test_metrics_json_has_the_mean_of_the_seeds_and_what_was_measured_where(project, transfers_params):
    report(transfers_params)
    found = json.loads((project / "reports/metrics.json").read_text())
    assert set(found) == {"sum", "hal", "moved"}
    assert found["moved"]["transfer"] == TOLD
    assert "transfer" not in found["sum"]
    sums = [
        json.loads((project / paths.evaluated(name, "nns") / "metrics.json").read_text())["rsum"]
        for name in transfers_params.transfers
    ]
    assert found["moved"]["nns"]["rsum"] == pytest.approx(sum(sums) / 2, abs=1e-4)


def test_transfers_of_other_data_are_refused_and_those_not_evaluated_are_named(project, transfers_params, capsys):
    nodes = {name: node.model_copy(update={"dataset": "other"}) for name, node in transfers_params.transfers.items()}
    with pytest.raises(InputError, match=r"transfer is .*'mine'.*, not what params\.yaml transfers\.moved/1 says"):
        report(dataclasses.replace(transfers_params, transfers=nodes))
    shutil.rmtree(project / paths.evaluations("moved"))
    report(transfers_params)
    assert "not in the report: transfer moved/1: not evaluated" in " ".join(capsys.readouterr().err.split())
    assert set(json.loads((project / "reports/metrics.json").read_text())) == {"sum", "hal"}


def test_a_criterion_that_nothing_could_tune_is_named_with_the_reason(project, transfers_params, capsys):
    grid = transfers_params.grid.model_copy(update={"inferences": ["nns", "rgm"]})
    folder = project / paths.evaluations("moved/1")
    (folder / evaluation.UNMEASURED).write_text(
        json.dumps({"criteria": {"rgm": "data/embed/moved/1 holds no split val"}})
    )
    page = report(dataclasses.replace(transfers_params, grid=grid)).read_text(encoding="utf-8")
    assert "transfer moved/1 under rgm" in page
    expected = "transfer moved/1 under rgm: cannot be computed: data/embed/moved/1 holds no split val"
    assert expected in " ".join(capsys.readouterr().err.split())


def test_values_that_other_data_chose_name_it(project, transfers_params):
    path = project / paths.evaluated("moved/1", "nns") / "metrics.json"
    chosen = {"tuned": {"image_to_text": {"beta": 5.0}, "text_to_image": {"beta": 7.0}}, "tuned_on": "val of shapes"}
    path.write_text(json.dumps({**json.loads(path.read_text()), **chosen}))
    page = report(dataclasses.replace(transfers_params, groups={})).read_text(encoding="utf-8")
    assert "image_to_text.beta 5, text_to_image.beta 7 (chosen on val of shapes)" in page


@pytest.fixture
def bare(transfers_params):
    """``sum`` is of pictures without captions, and so it is with no transfer of it."""
    shutil.copytree(paths.prepared("shapes"), paths.prepared("bare"))
    captions.write(paths.prepared("bare"), captions.read(paths.prepared("shapes")).slice(0, 0))
    run = dataclasses.replace(transfers_params.runs["sum"], dataset="bare")
    nodes = {"moved": transfers_params.transfers["moved/1"]}
    shutil.copytree(paths.evaluated("moved/1", "nns"), paths.evaluated("moved", "nns"))
    return dataclasses.replace(
        transfers_params,
        runs={"sum": run},
        transfers=nodes,
        groups={},
        report=transfers_params.report.model_copy(update={"title": ""}),
    )


def test_that_of_a_run_on_pictures_without_captions_is_shown(project, bare):
    page = report(bare).read_text(encoding="utf-8")
    assert "<title>vse-pipe on the mine data set</title>" in page
    figures = json.loads((project / "reports/metrics.json").read_text())
    assert {name: one["transfer"] for name, one in figures.items()} == {"moved": TOLD}
    (paths.trained("sum") / "history.csv").unlink()
    assert present(bare).missing == [("transfer moved", "run sum is not there")]


def test_where_no_data_set_has_captions_the_page_says_so(project, bare, capsys):
    nothing = dataclasses.replace(bare, transfers={})
    page = report(nothing).read_text(encoding="utf-8")
    assert '<p class="note">Nothing is measured: no data set that params.yaml names has captions.</p>' in page
    assert "<section" not in page
    assert "not there when" not in page
    assert json.loads((project / "reports/metrics.json").read_text()) == {}
    plots = {path.stem: path.read_text().splitlines() for path in (project / "reports/plots").iterdir()}
    assert {name: lines[0].split(",")[0] for name, lines in plots.items() if len(lines) == 1} == {
        "rsum": "run",
        "history": "run",
        "occurrence": "run",
        "sweeps": "sweep",
    }
    assert "report: nothing to measure, for no data set has captions, reports/index.html" in capsys.readouterr().err
    shutil.rmtree(paths.evaluations("moved"))
    with pytest.raises(InputError, match=r"^transfer moved: not evaluated"):
        report(bare)
