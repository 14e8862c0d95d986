"""The reliability diagram on the page, and its figures in metrics.json."""

import json
import re

import pytest
import vl_convert

from tests.report import project as artefacts
from vse_pipe.artifacts import evaluation
from vse_pipe.core.files import read_json, write_json
from vse_pipe.project import paths
from vse_pipe.report import charts
from vse_pipe.report.stage import report

BINS = [
    {"from": place / 10, "to": (place + 1) / 10, "pairs": 0 if place in (3, 7) else 40 - place}
    | ({} if place in (3, 7) else {"probability": place / 10 + 0.04, "matched": place / 10})
    for place in range(10)
]
FOUND = {
    "method": "platt",
    "candidates": 10,
    "fitted": {"queries": 30, "pairs": 300, "base_rate": 0.121},
    "measured": {"queries": 40, "pairs": 1400, "base_rate": 0.256},
    "ece": 0.04321,
    "ece_interval": [0.031, 0.0654],
    "brier": 0.1765,
    "bins": BINS,
}


def test_a_line_a_criterion_a_point_a_bin_with_pairs_and_the_diagonal():
    spec = charts.reliability({"nns": FOUND, "csls": FOUND})
    rows = spec["data"]["values"]
    assert len(rows) == 2 * 8
    assert [(row["told"], row["matched"]) for row in rows[:2]] == [(0.04, 0.0), (0.14, 0.1)]
    drawn = vl_convert.vegalite_to_svg(spec)
    assert drawn.count('aria-roledescription="line mark"') == 3
    assert drawn.count('aria-roledescription="point"') == 16


@pytest.mark.acceptance
def test_page_and_metrics_have_it_where_it_was_measured(project, page):
    assert 'id="calibration"' not in page
    path = paths.evaluated("max", "csls") / evaluation.METRICS
    write_json(path, read_json(path) | {"calibration": dict.fromkeys(evaluation.DIRECTIONS, FOUND)})
    report(artefacts.params())
    html = (project / "reports/index.html").read_text(encoding="utf-8")
    section = re.search(r'<section[^>]*id="calibration".*?</section>', html, re.DOTALL).group(0)
    row = re.search(r'<tr><th scope="row">csls</th>(.*?)</tr>', section).group(1)
    assert re.sub(r"<[^>]+>", " ", row).split() == [
        "platt",
        "1,400",
        "25.6%",
        "12.1%",
        "0.043",
        "0.031\u20130.065",
        "0.176",
    ]
    assert "text to image: csls is off by 0.043 on average" in section
    told = json.loads((project / "reports/metrics.json").read_text())
    assert told["max"]["csls"]["calibration"]["image_to_text"] == {
        "ece": 0.0432,
        "brier": 0.1765,
    }
