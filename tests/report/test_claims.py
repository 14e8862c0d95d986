"""Claims beside what was measured, on the page."""

import re
from pathlib import Path

import pytest

from tests.report import project as artefacts
from tests.report.claims.test_converged import write_ended
from vse_pipe.artifacts import evaluation
from vse_pipe.core.errors import MissingResource
from vse_pipe.project import paths
from vse_pipe.report.stage import report

FILE = """\
title: <Two> papers
seeds: 1
claims:
  - {text: HAL beats SUM, source: Table 1, left: hal, right: sum}
  - {text: HAL has a <future>, source: Table 2, left: hal_2040, right: sum}
"""


def test_each_claim_is_a_row_with_its_verdict(project):
    Path("claims.yaml").write_text(FILE)
    for run in ("hal", "sum"):
        write_ended(run, converged=True)
    report(artefacts.params(runs=["sum", "hal"], inferences=["nns"], claims="claims.yaml"))
    text = Path("reports/index.html").read_text(encoding="utf-8")
    html = re.search(r'<section id="claims".*?</section>', text, re.DOTALL).group()
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)]
    assert rows[1][:2] == ["HAL beats SUM", "Table 1"]
    rsums = [evaluation.read_metrics(paths.evaluated(run, "nns"))["rsum"] for run in ("hal", "sum")]
    assert rows[1][3:6] == [f"hal (nns) {rsums[0]:.2f}", f"sum (nns) {rsums[1]:.2f}", f"{rsums[0] - rsums[1]:+.2f}"]
    assert rows[1][-1] == "holds"
    assert (rows[2][0], rows[2][-1]) == ("HAL has a &lt;future&gt;", "no verdict: there is no run &#39;hal_2040&#39;")
    assert "&lt;Two&gt; papers: 1 hold, 0 do not hold, 0 cannot be told from these data, 1 without a verdict." in html


def test_without_a_file_there_is_no_section(page):
    assert 'id="claims"' not in page


def test_a_file_that_is_not_there_is_named(project):
    with pytest.raises(MissingResource, match=r"claims\.yaml: no such file"):
        report(artefacts.params(runs=["sum", "hal"], inferences=["nns"], claims="claims.yaml"))
    assert not Path("reports").exists()
