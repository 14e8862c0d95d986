"""Recall against lambda on the page."""

import html
import json
import re

import pandas as pd
import pytest
import vl_convert

from tests.report import project as artefacts
from vse_pipe.project import paths
from vse_pipe.report import charts
from vse_pipe.report.stage import report

NAMES = {"validation": "validation", "ranked": "test"}


def _section(page: str) -> str:
    found = re.search(r'<section[^>]*id="relaxation".*?</section>', page, re.DOTALL)
    return found.group(0) if found else ""


def test_a_line_a_criterion_and_split_and_a_point_at_the_chosen():
    table = pd.DataFrame(
        {
            "lambda": [1.0, 1.5, 2.0],
            "validation": [40.0, 42.0, 41.0],
            "ranked": [38.0, None, 39.0],
            "chosen": [False, True, False],
        }
    )
    spec = charts.curves({"rgm": table, "is+rgm": table}, NAMES)
    rows = spec["data"]["values"]
    own = [row for row in rows if row["criterion"] == "rgm"]
    assert [(row["lambda"], row["recall"]) for row in own if row["split"] == "validation"] == [
        (1.0, 40.0),
        (1.5, 42.0),
        (2.0, 41.0),
    ]
    assert [(row["lambda"], row["recall"]) for row in own if row["split"] == "test"] == [(1.0, 38.0), (2.0, 39.0)]
    assert [row["lambda"] for row in rows if row["chosen"]] == [1.5, 1.5]
    drawn = vl_convert.vegalite_to_svg(spec)
    assert drawn.count('aria-roledescription="line mark"') == 4
    assert drawn.count('aria-roledescription="point"') == 2


def test_figures_of_the_curve(page):
    section = _section(page)
    specs = [json.loads(text) for text in re.findall(r'data-chart="[^"]*">(.*?)</script>', section, re.DOTALL)]
    assert len(specs) == len(artefacts.RUNS) * 2 * 3
    assert all({row["criterion"] for row in spec["data"]["values"]} == {"rgm", "is+rgm", "csls+rgm"} for spec in specs)
    row = re.search(r'<tr><th scope="row">rgm</th>(.*?)</tr>', section).group(1)
    # At lambda 1, at the chosen 2.5 and at 4, of validation and of test.
    assert re.sub(r"<[^>]+>", " ", row).split() == ["1", "2.5", *["40.0", "43.0", "41.0"], *["39.0", "41.5", "40.0"]]
    label = html.unescape(re.search(r'aria-label="(R@1, image to text[^"]*)"', section).group(1))
    assert "rgm has 40.0 on validation at 1, 43.0 at the chosen 2.5 and 41.0 at 4" in label


def test_every_lambda_stands_in_a_table(page):
    table = re.search(r"<caption>R@K on validation, image to text</caption>.*?</table>", page, re.DOTALL).group(0)
    assert re.findall(r'<th scope="row" class="number">(.*?)</th>', table) == ["1", "2.5", "4"]
    assert re.findall(r"<td[^>]*>(.*?)</td>", table)[:3] == ["40.0"] * 3


def test_left_out_where_no_lambda_was_chosen(project):
    for folder in (paths.DATA / "evaluate").rglob("relaxation.parquet"):
        folder.unlink()
    text = report(artefacts.params(runs=["hal"])).read_text(encoding="utf-8")
    assert _section(text) == ""


@pytest.mark.parametrize("inferences", [["nns"], ["nns", "csls"]])
def test_left_out_where_no_criterion_has_a_lambda(project, inferences):
    assert _section(report(artefacts.params(runs=["hal"], inferences=inferences)).read_text()) == ""
