import dataclasses
import re

import pytest

from pipeline.report import published
from pipeline.report.stage import report
from tests.report import project as artefacts

ROW = "hal-aaai2020 2.12"


@pytest.fixture
def asked(monkeypatch):
    """Calls of the comparison, which answers with two figures of a row."""
    calls = []

    def beside(row, one):
        calls.append((row, one.run, one.inference))
        return [("R@1, image to text", 64.0, 47.5, -16.5), ("rsum", 466.7, 470.25, 3.55)]

    monkeypatch.setattr(published, "_beside", beside)
    return calls


def naming(row):
    params = artefacts.params(runs=["sum", "hal"], inferences=["csls", "nns"])
    runs = {**params.runs, "hal": dataclasses.replace(params.runs["hal"], row=row)}
    return dataclasses.replace(params, runs=runs)


def test_a_run_that_names_a_row_is_set_beside_it(project, asked):
    report(naming(ROW))
    assert asked == [(ROW, "hal", "nns")]
    text = (project / "reports/index.html").read_text()
    section = re.search(r'<section id="published".*?</section>', text, re.DOTALL).group()
    cells = re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", section)
    assert cells[4:] == ["R@1, image to text", "64.0", "47.5", "\u221216.5", "rsum", "466.7", "470.2", "+3.5"]
    assert f"{ROW}, beside run hal ranked with nns" in section


def test_nothing_where_no_run_names_a_row(project, asked):
    report(naming(None))
    assert not asked
    assert 'id="published"' not in (project / "reports/index.html").read_text()
