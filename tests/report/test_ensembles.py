"""An ensemble on the page: ranked like a run, without a learning curve of its own."""

import csv
import dataclasses

from tests.report import project as artefacts
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EnsembleNode
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
