"""A run on a data set it was not trained on, on the page and in metrics.json."""

import csv
import dataclasses
import json
import shutil

import pytest

from tests.report import project as artefacts
from vse_pipe.artifacts import captions, evaluation
from vse_pipe.core.errors import InputError
from vse_pipe.project import paths
from vse_pipe.project.params.schema import TransferNode
from vse_pipe.report.reading import present
from vse_pipe.report.stage import report

TOLD = {"run": "sum", "trained_on": "shapes", "dataset": "mine", "unknown_words": 0.125}


@pytest.fixture
def params(project):
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


def test_it_stands_with_its_data_set_and_has_no_curve(project, params):
    page = report(params).read_text(encoding="utf-8")
    assert "moved/1 is sum, trained on shapes, on mine; 12.5% of the words of its captions are unknown to it." in page
    assert "Transfer <strong>moved</strong>" in page
    top = page[: page.index("<nav")]
    assert "Transfer moved/1: 12.5% of the words of its captions are unknown to sum." in top
    plots = project / "reports/plots"
    with (plots / "history.csv").open(newline="", encoding="utf-8") as file:
        assert {row["run"] for row in csv.DictReader(file)} == {"sum", "hal"}


def test_metrics_json_has_the_mean_of_the_seeds_and_what_was_measured_where(project, params):
    report(params)
    found = json.loads((project / "reports/metrics.json").read_text())
    assert set(found) == {"sum", "hal", "moved"}
    assert found["moved"]["transfer"] == TOLD
    assert "transfer" not in found["sum"]
    sums = [
        json.loads((project / paths.evaluated(name, "nns") / "metrics.json").read_text())["rsum"]
        for name in params.transfers
    ]
    assert found["moved"]["nns"]["rsum"] == pytest.approx(sum(sums) / 2, abs=1e-4)


def test_figures_of_another_data_set_are_refused(project, params):
    nodes = {name: node.model_copy(update={"dataset": "other"}) for name, node in params.transfers.items()}
    with pytest.raises(InputError, match=r"transfer is .*'mine'.*, not what params\.yaml transfers\.moved/1 says"):
        report(dataclasses.replace(params, transfers=nodes))


def test_what_is_not_evaluated_is_left_out_and_named(project, params, capsys):
    shutil.rmtree(project / paths.evaluations("moved"))
    report(params)
    assert "not in the report: transfer moved/1: not evaluated" in " ".join(capsys.readouterr().err.split())
    assert set(json.loads((project / "reports/metrics.json").read_text())) == {"sum", "hal"}


def test_a_criterion_that_nothing_could_tune_is_named_with_the_reason(project, params, capsys):
    grid = params.grid.model_copy(update={"inferences": ["nns", "rgm"]})
    folder = project / paths.evaluations("moved/1")
    (folder / evaluation.UNMEASURED).write_text(
        json.dumps({"criteria": {"rgm": "data/embed/moved/1 holds no split val"}})
    )
    page = report(dataclasses.replace(params, grid=grid)).read_text(encoding="utf-8")
    assert "transfer moved/1 under rgm" in page
    expected = "transfer moved/1 under rgm: cannot be computed: data/embed/moved/1 holds no split val"
    assert expected in " ".join(capsys.readouterr().err.split())


def test_values_that_other_data_chose_name_it(project, params):
    path = project / paths.evaluated("moved/1", "nns") / "metrics.json"
    chosen = {"tuned": {"image_to_text": {"beta": 5.0}, "text_to_image": {"beta": 7.0}}, "tuned_on": "val of shapes"}
    path.write_text(json.dumps({**json.loads(path.read_text()), **chosen}))
    page = report(dataclasses.replace(params, groups={})).read_text(encoding="utf-8")
    assert "image_to_text.beta 5, text_to_image.beta 7 (chosen on val of shapes)" in page


@pytest.fixture
def bare(params):
    """``sum`` is of pictures without captions, and so it is with no transfer of it."""
    shutil.copytree(paths.prepared("shapes"), paths.prepared("bare"))
    captions.write(paths.prepared("bare"), captions.read(paths.prepared("shapes")).slice(0, 0))
    run = dataclasses.replace(params.runs["sum"], dataset="bare")
    nodes = {"moved": params.transfers["moved/1"]}
    shutil.copytree(paths.evaluated("moved/1", "nns"), paths.evaluated("moved", "nns"))
    return dataclasses.replace(
        params,
        runs={"sum": run},
        transfers=nodes,
        groups={},
        report=params.report.model_copy(update={"title": ""}),
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
