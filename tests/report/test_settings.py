"""The page shows what made the figures, what params.yaml has now, and what the figures leave out."""

import dataclasses
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
from vse_pipe.project.params.typed import Member
from vse_pipe.report import page, reading, settings
from vse_pipe.report.settings import collect
from vse_pipe.report.stage import report

MEMBERS = ("sampler", "loss", "scheme", "similarity", "text", "image")


def _describe(member: Member) -> dict:
    return {"name": member.name, "params": member.params.model_dump(mode="json")}


def _record(run: str, **changes: object) -> None:
    """config.json as training writes it for the run of ``artefacts.params``, with ``changes``."""
    params = artefacts.params()
    node, path = params.runs[run], paths.trained(run) / "config.json"
    inputs = {
        "features": _describe(params.features["small"].backbone),
        "texts": _describe(params.texts["words"].method),
        "pairs": _describe(params.noises["clean"].protocol),
    }
    config = {key: _describe(getattr(node, key)) for key in MEMBERS}
    config |= {"inputs": inputs, "train": node.train.model_dump(mode="json"), "seed": node.seed}
    write_json(path, read_json(path) | config | changes)


def _page(**changes: object) -> str:
    return report(artefacts.params(**{"runs": ["sum", "hal"], "inferences": ["nns", "is"], **changes})).read_text()


def _text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).replace("&#39;", "'").split())


def _top(page: str) -> str:
    return _text(page[page.index("<header>") : page.index("</header>")])


def _setup(page: str, run: str) -> str:
    section = page[page.index('id="setup"') :]
    return _text(
        section[section.index(f"<summary>{run} ") : section.index("</details>", section.index(f"<summary>{run} "))]
    )


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"train": {"lr": 0.5, "epochs": 30}}, "train epochs 30, lr 0.5 (params.yaml has 0.0002 now)"),
        ({"seed": 7}, "seed 7 (params.yaml has 1 now)"),
        ({"loss": {"name": "max", "params": {"margin": 0.2}}}, "loss max (params.yaml has hal now) margin 0.2"),
        ({"inputs": {"features": {"name": "vgg19", "params": {}}}}, "features vgg19 (params.yaml has torchvision now)"),
    ],
    ids=["rate", "seed", "member", "features"],
)
def test_whatever_made_a_model_is_compared(project, changes, shown):
    _record("hal", **changes)
    page = _page()
    assert shown in _setup(page, "hal")
    assert "Before you read the figures Run hal: trained with" in _top(page)


def test_settings_are_those_of_the_training_and_what_differs_is_marked(project):
    page = _page()
    assert "loss hal beta 80 (of params.yaml: config.json does not say)" in _setup(page, "hal")
    assert "Before you read" not in page
    _record("hal", loss={"name": "hal", "params": {"beta": 5.0}})
    _record("sum")
    page = _page()
    assert "loss hal beta 5 (params.yaml has 80 now)" in _setup(page, "hal")
    assert "params.yaml has" not in _setup(page, "sum")
    assert "Run hal: trained with loss beta 5 (params.yaml has 80 now); `vse-pipe train --run hal`" in _top(page)
    assert "run sum" not in _top(page)


def test_criteria_are_those_that_ranked_with_the_values_chosen_on_val(project):
    for run, beta in (("sum", 30.0), ("hal", 12.0)):
        path = paths.evaluated(run, "is") / evaluation.METRICS
        both = {direction: {"beta": beta} for direction in evaluation.DIRECTIONS}
        write_json(path, read_json(path) | {"parameters": both})
    page = _page()
    setup = _text(page[page.index('id="setup"') :])
    assert "is sum: beta 30 hal: beta 12 (params.yaml has 30 now)" in setup
    assert "Criterion is: ranked with beta 12 (params.yaml has 30 now)" in _top(page)
    path = paths.evaluated("hal", "is") / evaluation.METRICS
    both = {direction: {"beta": 7.0} for direction in evaluation.DIRECTIONS}
    write_json(path, read_json(path) | {"parameters": both, "tuned": both})
    page = _page(runs=["hal"])
    assert "(params.yaml has" not in page
    assert "Values of <code>is</code> were chosen on val." in page


def test_a_sweep_lies_at_the_values_of_the_trainings(project):
    _record("hal", loss={"name": "hal", "params": {"beta": 5.0}})
    results = reading.read(artefacts.params(sweeps={"steepness": artefacts.SWEEPS["steepness"]}))
    (sweep,) = collect(results)
    assert [(point.run, point.x) for point in sweep.points] == [("hal", 5.0), ("sum", 10.0), ("max", 10.0)]


def test_a_model_from_elsewhere_is_not_compared_with_inputs_of_this_project(project):
    _record("hal", inputs={"features": {"name": "vgg19", "params": {}}}, train={"lr": 0.5}, seed=9)
    results = reading.read(artefacts.params(runs=["hal"], inferences=["nns"]))
    run = results.groups[0].trained[0]
    copied = dataclasses.replace(run, params=dataclasses.replace(run.params, model=object()))
    assert not any(row.changed for row in settings.of_run(copied, results.params))
    assert any(row.changed for row in settings.of_run(run, results.params))


def _notes_top(**changes: object) -> str:
    page = report(artefacts.params(**{**artefacts.LITTLE, **changes})).read_text()
    return " ".join(re.sub(r"<[^>]*>", " ", page[page.index("<header>") : page.index("</header>")]).split())


def _edit(path: Path, **changes: object) -> None:
    write_json(path, read_json(path) | changes)


def test_runs_that_are_well_have_no_notes_and_pictures_that_cannot_be_shown_have_one(project):
    assert "Before you read" not in _notes_top()
    for path in Path("pictures").glob("*.png"):
        path.write_bytes(b"no picture")
    assert "pictures could not be read where this page was written; the caption stands in for each." in _notes_top()


def test_a_training_that_came_to_a_halt_and_pictures_left_out_are_said(project):
    _edit(paths.trained("hal") / "config.json", ended={"by": "epochs", "stuck": "the loss is 0; lower train.lr"})
    assert "Run hal: the loss is 0; lower train.lr." in _notes_top()
    for run in artefacts.LITTLE["runs"]:
        _edit(paths.evaluated(run, "nns") / evaluation.METRICS, left_out={"images": 2, "captions": 10})
    said = "Run sum, run hal: 2 images of the test split could not be read; they are left out of the figures with 10 captions."
    assert said in _notes_top()


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
    assert said in _notes_top()


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
