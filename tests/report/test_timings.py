"""The page of seconds."""

import dataclasses
import re

from tests.report import project as artefacts
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EnsembleNode
from vse_pipe.report import page as report_page


def test_a_row_for_each_stage_that_params_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params = dataclasses.replace(
        artefacts.params(runs=["sum", "hal"], audits=["hal"]),
        ensembles={"both": EnsembleNode(first="sum", second="hal")},
    )
    for run in ("sum", "hal"):
        paths.record_seconds(paths.trained(run), 2.0)
    assert report_page.rows(params) == [
        ("prepare", "shapes", None),
        ("extract", "small", None),
        ("extract", "words", None),
        ("inject", "clean", None),
        ("train", "sum", 2.0),
        ("train", "hal", 2.0),
        ("embed", "sum", None),
        ("embed", "hal", None),
        ("evaluate", "sum", None),
        ("evaluate", "hal", None),
        ("evaluate", "both", None),
        ("audit", "hal", None),
    ]


def test_what_the_page_says():
    page = report_page.render_timings([("train", "a<b", 30.0), ("embed", "a<b", 7.5), ("audit", "a<b", None)], "x & y")
    assert "37.5 s in all" in page
    assert "a&lt;b" in page
    assert "a<b" not in page
    assert re.findall(r'style="width: ([\d.]+)%', page) == ["100.0", "25.0", "0.0"]
    assert "where it never was" in page
    assert "x &amp; y" in page


def test_nothing_was_done_here():
    page = report_page.render_timings([("train", "a", None)], "x")
    assert "0.0 s in all" in page
    assert re.findall(r'style="width: ([\d.]+)%', page) == ["0.0"]


def test_all_seconds_are_known():
    assert "never was" not in report_page.render_timings([("train", "a", 1.0)], "x")
