import dataclasses
import re

import pytest

from tests.report import project as artefacts
from vse_pipe.artifacts import evaluation
from vse_pipe.core.errors import UsageError
from vse_pipe.project import paths
from vse_pipe.report.stage import report

# Liu et al., AAAI 2020, Table 2: HAL with a memory bank, GRU and ResNet152, measured on five folds.
ROW, RSUM = "hal-aaai2020 2.12", 466.7
I2T, T2I = (64.0, 89.9, 95.7, 1.0, 2.8), (46.9, 80.4, 89.9, 2.0, 6.1)


def naming(row, inferences=("csls", "nns")):
    params = artefacts.params(runs=["sum", "hal"], inferences=list(inferences))
    runs = {**params.runs, "hal": dataclasses.replace(params.runs["hal"], row=row)}
    return dataclasses.replace(params, runs=runs)


def section(root):
    text = (root / "reports/index.html").read_text()
    found = re.search(r'<section id="published".*?</section>', text, re.DOTALL)
    return found and found.group()


def numbers(cells):
    return [float(cell.replace("\u2212", "-").replace("±", "")) for cell in cells]


def test_a_run_that_names_a_row_is_set_beside_it(project):
    report(naming(ROW))
    html = section(project)
    assert html.count("<table>") == 1, "the paper ranks this model with nns alone"
    assert "row 2.12, beside run hal ranked with nns" in html
    rows = re.findall(r'<th scope="row">(.*?)</th>' + 3 * r'<td class="number">(.*?)</td>', html)
    measured = evaluation.read_metrics(project / paths.evaluated("hal", "nns"))
    ours = [measured[way][key] for way in evaluation.DIRECTIONS for key in ("r@1", "r@5", "r@10", "med_r", "mean_r")]
    assert numbers(row[1] for row in rows) == [*I2T, *T2I, RSUM]
    assert numbers(row[2] for row in rows) == pytest.approx([*ours, measured["rsum"]], abs=0.051)
    differences = [here - there for here, there in zip([*ours, measured["rsum"]], [*I2T, *T2I, RSUM], strict=True)]
    assert numbers(row[3] for row in rows) == pytest.approx(differences, abs=0.051)


def test_another_protocol_is_said(project):
    report(naming(ROW))
    assert "Measured under protocol full, the row under folds (c2)." in section(project)


def test_a_row_without_figures_under_the_criteria_says_so(project):
    report(naming(ROW, ["csls"]))
    assert f"{ROW} has no figures under the criteria of this report" in section(project)


def test_nothing_where_no_run_names_a_row(project):
    report(naming(None))
    assert section(project) is None


def test_an_unknown_row_writes_nothing(project):
    with pytest.raises(UsageError, match=r"hal-aaai2020 has no row '2\.122'"):
        report(naming("hal-aaai2020 2.122"))
    assert not (project / "reports").exists()
