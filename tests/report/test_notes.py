"""What stands at the top of the page: trainings that gave nothing, and what the figures leave out."""

import re
from dataclasses import replace
from math import comb
from pathlib import Path

import numpy as np
import pytest

from tests.report import project as artefacts
from vse_pipe.artifacts import evaluation
from vse_pipe.core.files import read_json, write_json
from vse_pipe.project import paths
from vse_pipe.report import page, reading
from vse_pipe.report.stage import report


def _top(**changes: object) -> str:
    page = report(artefacts.params(**{**artefacts.LITTLE, **changes})).read_text()
    return " ".join(re.sub(r"<[^>]*>", " ", page[page.index("<header>") : page.index("</header>")]).split())


def _edit(path: Path, **changes: object) -> None:
    write_json(path, read_json(path) | changes)


def test_nothing_to_say_of_runs_that_are_well(project):
    assert "Before you read" not in _top()


def test_a_training_that_came_to_a_halt(project):
    _edit(paths.trained("hal") / "config.json", ended={"by": "epochs", "stuck": "the loss is 0; lower train.lr"})
    assert "Run hal: the loss is 0; lower train.lr." in _top()


def test_a_run_at_chance_says_so_with_the_rsum_of_chance(project):
    """Every correct item lies at random: the expected rsum, in plain loops."""
    _edit(
        paths.evaluated("hal", "nns") / evaluation.METRICS,
        rsum=62.0,
        intervals={"rsum": [40.0, 75.0], "image_to_text": {"r@1": [0.0, 9.0]}},
    )
    expected = 0.0
    for n, r in ((artefacts.IMAGES * artefacts.CAPTIONS_EACH, artefacts.CAPTIONS_EACH), (artefacts.IMAGES, 1)):
        for k in (1, 5, 10):
            expected += 100 * (1 - comb(n - r, k) / comb(n, k))
    said = (
        f"Run hal: rsum 62.0 under nns, 95% interval 40.0–75.0, cannot be told from chance, which gives {expected:.1f}."
    )
    assert said in _top()


@pytest.mark.parametrize("captions", [1, 2, 7])
def test_the_rsum_of_chance_is_that_of_random_rankings(project, captions):
    results = reading.read(artefacts.params(runs=["hal"], inferences=["nns"]))
    (group,) = results.groups
    table = group.catalogue.captions
    kept = table[table.groupby("image_id").cumcount() < captions]
    group = replace(group, catalogue=replace(group.catalogue, captions=kept))
    each, n = min(captions, artefacts.CAPTIONS_EACH), artefacts.IMAGES * artefacts.CAPTIONS_EACH
    rng = np.random.default_rng(0)
    best = np.array([rng.permutation(n)[:each].min() for _ in range(20_000)])
    drawn = sum(100 * (best < k).mean() for k in (1, 5, 10))
    of_texts = sum(100 * k / artefacts.IMAGES for k in (1, 5, 10))
    assert page.chance_rsum(group.runs[0], group) == pytest.approx(drawn + of_texts, abs=1.0)


def test_pictures_that_could_not_be_read_are_left_out_of_the_figures(project):
    for run in artefacts.LITTLE["runs"]:
        _edit(paths.evaluated(run, "nns") / evaluation.METRICS, left_out={"images": 2, "captions": 10})
    said = "Run sum, run hal: 2 images of the test split could not be read; they are left out of the figures with 10 captions."
    assert said in _top()


def test_pictures_that_cannot_be_shown(project):
    for path in Path("pictures").glob("*.png"):
        path.write_bytes(b"no picture")
    assert "pictures could not be read where this page was written; the caption stands in for each." in _top()


def test_a_figure_that_is_not_defined_is_a_dash(project):
    path = paths.evaluated("hal", "nns") / evaluation.METRICS
    content = read_json(path)
    content["text_to_image"]["skew@1"] = None
    write_json(path, content | {"hs_sum": None})
    report(artefacts.params(**artefacts.LITTLE))
    assert "hs_sum" not in read_json(paths.REPORTS / "metrics.json")["hal"]["nns"]
    assert "hs_sum" in read_json(paths.REPORTS / "metrics.json")["sum"]["nns"]
