"""A run with seeds in the report: one row, the mean of its models, with spread and interval."""

import json
import shutil
import statistics
from dataclasses import replace

import pandas as pd
import pytest

from tests.report import project as artefacts
from vse_pipe.artifacts import evaluation
from vse_pipe.core.errors import InputError
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EvaluateParams, SweepNode
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.comparison import spreads
from vse_pipe.ranking.intervals import Figures
from vse_pipe.report.reading import mean, read
from vse_pipe.report.stage import report

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


def test_metrics_have_the_means_under_the_keys_of_a_run(params):
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


def test_the_plots_have_the_run_once_and_a_curve_a_seed(params):
    report(params)
    rsum, history, sweeps = (pd.read_csv(paths.REPORTS / f"plots/{one}.csv") for one in ("rsum", "history", "sweeps"))
    assert sorted(set(rsum["run"])) == ["max", "sum"]
    assert sorted(set(history["run"])) == ["max/1", "max/2", "max/5", "sum"]
    assert list(sweeps["run"]) == ["max", "sum"]
    assert sweeps["rsum"][0] == pytest.approx(statistics.fmean(_rsums("nns")), abs=1e-4)


def test_the_page_shows_the_mean_and_folds_the_seeds(params):
    page = report(params).read_text(encoding="utf-8")
    assert "max: the mean of 3 seeds" in page
    assert "of 600, the mean of 3 seeds" in page
    for seed, value in zip(SEEDS, _rsums("csls"), strict=True):
        assert f">Seed {seed}</th>" in page
        assert f"{value:.1f}" in page


def test_a_seed_that_is_not_there_is_named_and_the_others_are_shown(params, capsys):
    shutil.rmtree(paths.evaluations("max/2"))
    report(params)
    assert "not in the report: run max/2: not evaluated" in capsys.readouterr().err
    assert json.loads((paths.REPORTS / "metrics.json").read_text())["max"]["seeds"] == [1, 5]


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


def test_seeds_of_different_data_have_no_mean(params):
    path = paths.evaluated("max/5", "csls") / evaluation.METRICS
    path.write_text(json.dumps(json.loads(path.read_text()) | {"data": None}))
    with pytest.raises(InputError, match="run max: its seeds were evaluated on different data"):
        read(params)


def test_a_mean_keeps_counts_and_words():
    documents = [
        {"n": 5, "name": "a", "in": {"x": 1, "y": 2.5}, "flag": True},
        {"n": 5, "name": "b", "in": {"x": 2}, "flag": True},
    ]
    found = mean(documents)
    assert found == {"n": 5, "name": "a", "in": {"x": 1.5, "y": 2.5}, "flag": True}
    assert isinstance(found["n"], int)


def test_a_figure_that_one_seed_leaves_undefined_has_no_mean():
    documents = [{"hs_sum": 1.0, "a": {"skew@1": 2.0}}, {"hs_sum": None, "a": {"skew@1": None}}]
    for both in (documents, documents[::-1]):
        assert mean(both) == {"hs_sum": None, "a": {"skew@1": None}}
