"""The sections of audited runs, of audited pairs and of located phrases, and the artefacts that they refuse."""

import html
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import vl_convert

from tests.report import project as base
from tests.report.conftest import HOSTILE
from tests.report.project import write_audit
from tests.sealed import made_anew
from vse_pipe.artifacts import audit, identity, localisation
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.project import paths
from vse_pipe.project.params.schema import LocalizeParams
from vse_pipe.report.stage import report


def _page(runs: list[str]) -> str:
    return report(base.params(**base.LITTLE, audits=runs)).read_text(encoding="utf-8")


def _section() -> str:
    return base.section(_page(["hal"]), "audit")


def _charts(section: str) -> list[dict]:
    return [json.loads(text) for text in re.findall(r'data-chart="[^"]*">(.*?)</script>', section, re.DOTALL)]


def test_an_audit_is_shown_where_params_names_it_with_figures_and_gallery(project):
    write_audit(project, "hal")
    assert "Suspect pairs" not in _page([])
    page = _page(["hal"])
    assert "Suspect pairs of run hal" in page
    assert "Suspect pairs of run sum" not in page
    section = base.section(page, "audit")
    row = re.search(r'<tr><th scope="row">hal</th>(.*?)</tr>', section).group(1)
    assert base.words(row) == ["300", "61", "60", "0.987", "0.900", "–"]
    assert "of the first 100 about 50% are mismatched, 60% in truth." in section
    rows = re.findall(r"<tr><th scope=\"row\"><svg.*?</tr>", section, re.DOTALL)
    assert len(rows) == 3
    assert all("mismatched" in row for row in rows)
    # The first pair of the gallery has no partner; the others have both.
    assert [row.count("similarity") for row in rows] == [1, 3, 3]
    assert rows[1].count("<svg") == 2
    write_audit(project, "hal", gallery=[base.caption_ids(3)[0]])
    page = _page(["hal"])
    assert HOSTILE not in page
    assert html.escape(HOSTILE, quote=False) in base.section(page, "audit").replace("&#34;", '"')


def test_charts_of_losses_and_costs_or_without_truth_of_losses_alone(project):
    write_audit(project, "hal", known=False)
    section = _section()
    assert "unknown" in section
    assert "Truth" not in section
    assert "of the first 100 about 50% are mismatched." in section
    assert len(_charts(section)) == 1
    write_audit(project, "hal")
    losses, costs = _charts(_section())
    drawn = vl_convert.vegalite_to_svg(losses)
    assert [drawn.count(f'aria-roledescription="{mark}"') for mark in ("bar", "line mark")] == [20, 2]
    assert sum(map(int, re.findall(r"; count: (\d+)", drawn))) == 300
    values = costs["data"]["values"]
    medians = {(row["epoch"], row["kind"]): row["median"] for row in values}
    assert medians[6, "matched"] == pytest.approx(0.25)
    assert medians[6, "mismatched"] == pytest.approx(0.75)
    assert medians[7, "mismatched"] == pytest.approx(0.5 + 0.5 / 3)


def test_a_transport_plan_is_shown_with_its_weights_or_is_not_and_doubts_are_said(project):
    parts = {"untransported": {"rows": 90, "mean": [0.3, 0.3, 0.2, 0.2]}}
    parts["transported"] = {"rows": 6, "mean": [0.7, 0.2, 0.1, 0.0]}
    write_audit(project, "hal", refined={"epoch": 9, "alignment": parts})
    section = _section()
    *_, moved, still = _charts(section)
    for chart, part in ((moved, parts["transported"]), (still, parts["untransported"])):
        bars, level = chart["layer"]
        assert bars["data"]["values"] == part["mean"]
        assert level["encoding"]["y"]["datum"] == 0.25
    assert "mean of 90 images" in section
    batch = "Partners were sought among the pairs of the same batch"
    write_audit(project, "hal", refined={"epoch": 9, "alignment": None})
    section = _section()
    assert (batch in section, len(_charts(section))) == (False, 2)
    write_audit(project, "hal", mixture={"doubts": ["all losses are equal"]}, partners_from="batch")
    section = _section()
    assert batch in section
    assert "Do not trust the probabilities: all losses are equal." in section


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: made_anew(paths.trained("hal"), weights="b"),
            r"made from other weights than data/train/hal now holds; run `vse-pipe audit --run hal` again"),
        (lambda folder: (folder / audit.PAIRS).unlink(), r"pairs\.parquet does not exist"),
    ],
)  # fmt: skip
def test_an_audit_that_cannot_be_shown_stops_the_report(project, damage, message):
    damage(write_audit(project, "hal"))
    with pytest.raises(IntegrityError if "made" in message else InputError, match=message):
        _page(["hal"])
    assert not (project / "reports").exists()


def write_cleaning(known: bool = True, **changes: object) -> Path:
    """The first twenty captions, every fourth mismatched and most doubtful."""
    ids = np.array([number for image in range(4) for number in base.caption_ids(image)])
    wrong = np.arange(20) % 4 == 0
    probability = np.where(wrong, 0.9, 0.1) - np.arange(20) / 1000
    doubts = pa.table(
        {"caption_id": ids, "image_id": np.repeat(np.arange(4), 5), "probability": probability, "odds": probability,
            "fit": probability, "mismatched": pa.array(wrong, mask=None if known else np.ones(20, bool))}
    )  # fmt: skip
    metrics = {"dataset": "shapes", "noise": "clean", "split": "test", "pairs": 20}
    metrics |= {"images": 4, "expected": 5, "interval": [3, 7], "truth": "known" if known else "unknown"}
    metrics |= {"findings": {"pair": 5, "leak": 2, "duplicate": 1234}, "leaks": {"pictures": 2, "recall": {}}}
    metrics |= {"ranked": [{"first": 10, "estimated": 0.5, "interval": [3, 7], "precision": 0.6 if known else None}]}
    metrics |= {"mismatched": 5, "auc": 0.987} if known else {}
    found = pd.DataFrame({"kind": "pair", "id": ids[wrong], "doubt": 0.9, "proposal": "drop", "other": 7})
    found.loc[0, "proposal"] = "picture"
    folder = paths.audited_pairs("shapes", "clean")
    folder.mkdir(parents=True, exist_ok=True)
    audit.write_doubts(folder, doubts, found, {**metrics, **changes})
    read = identity.parts_of(paths.prepared("shapes"), "train", "val", "test") | identity.parts_of(
        paths.injected("shapes", "clean")
    )
    identity.write(folder, read, {})
    return folder


def _cleaning(**report: object) -> str:
    return _whole(**report, cleaning={"clean": "shapes"})


def _whole(**options: object) -> str:
    return report(base.params(**base.LITTLE, **options)).read_text(encoding="utf-8")


def test_an_audit_of_pairs_is_shown_with_its_estimates_its_curve_and_the_first_suspects(project):
    write_cleaning()
    before = _whole()
    assert base.section(before, "cleaning") == ""
    section = base.section(_cleaning(), "cleaning")
    said = " ".join(base.words(section))
    assert "Of 20 pairs of split test about 5 are probably wrong (95% interval 3 to 7); in truth 5, AUC 0.987." in said
    assert "of the first 10 about 5 (3 to 7) are mismatched, 6 in truth." in said
    (found,) = _charts(section)
    labels = re.findall(r"mismatches found: (\d+); kind: ([a-z ]+); reviewed: 10", vl_convert.vegalite_to_svg(found))
    assert set(labels) == {("5", "expected"), ("6", "in truth")}
    assert "pictures that occur twice in a split 1,234" in said
    assert "pictures that stand in another split too 2" in said
    rows = re.findall(r"<tr><th scope=\"row\"><svg.*?</tr>", section, re.DOTALL)
    assert len(rows) == 12
    assert ["90%" in row for row in rows[:2]] == [True, True]
    assert sum(">mismatched<" in row for row in rows) == 5
    assert [row.count("<svg") for row in rows[:3]] == [2, 1, 1]
    assert HOSTILE not in section
    assert "vse-pipe review --dataset shapes --noise clean" in said
    assert _whole() == before


LOCALISED = {"mentions": 3, "phrases": 3, "pictures": 2, "r@1": 33.333333, "r@5": 66.7, "r@10": 66.7, "bound": 66.7}
LOCALISED |= {"random_r@1": 4.2, "random_r@5": 20.0, "random_r@10": 40.0, "map": 41.7}


def write_localisation(root: Path, run: str = "hal", source: Path | None = None, **changes: object) -> None:
    """Two mentions in one sentence, one found and one missed, and one in another picture that has no proposals."""
    first, other = base.caption_ids(3)[0], base.caption_ids(7)[1]
    columns = {
        "phrase_id": [1, 2, 3], "caption_id": [first, first, other], "image_id": [3, 3, 7], "start": [0, 30, 9],
        "text": ["a shape", "a <b>thing", "a circle"], "type": ["people", "other/people", "other"],
        "candidates": [10, 10, 0], "correct": [2, 1, 0], "rank": [1.0, 4.0, None], "bound": [0.9, 0.6, 0.0],
        "region_id": [70, 71, None], "score": pa.array([0.5, 0.4, None], pa.float32()), "iou": [0.9, 0.1, None],
    }  # fmt: skip
    boxes = {"x1": [16.0, 80.0, 0.0], "y1": [12.0, 20.0, 0.0], "x2": [47.0, 111.0, 9.0], "y2": [43.0, 51.0, 9.0]}
    found = {f"found_{name}": [values[0], values[1] + 8, None] for name, values in boxes.items()}
    about = {**LocalizeParams().model_dump(), "run": run}
    about |= {"proposals": {"test": {"mentions": 3, "proposals": 20, "recall": 0.666667}}}
    intervals = {"intervals": {"r@1": [10.0, 55.5]}}
    types = {"other": LOCALISED, "people": LOCALISED}
    metrics = {**about, "all": {**LOCALISED, **intervals}, "types": types, **changes}
    folder = root / paths.localized(run)
    folder.mkdir(parents=True)
    table = pa.table(columns | boxes | found)
    localisation.write(folder, table, metrics, str(source or paths.prepared("shapes")))
    prepared = paths.prepared("shapes")
    read = identity.parts_of(paths.trained(run)) | identity.parts_of(prepared, "test", "regions")
    identity.write(folder, read, {})


SHAPES = "data/prepare/shapes now holds"


def localisation_section(runs: list[str]) -> str:
    page = report(base.params(**base.LITTLE, localized=runs)).read_text(encoding="utf-8")
    assert HOSTILE not in page
    assert "<b>thing" not in page
    return base.section(page, "localisation")


def test_figures_intervals_floor_bound_and_boxes_of_what_params_names(project) -> None:
    write_localisation(project)
    assert localisation_section([]) == ""
    assert "localisation" not in json.loads(Path("reports/metrics.json").read_text())["hal"]
    html = localisation_section(["hal"])
    row = re.search(r'<tr><th scope="row">hal</th>(.*?)</tr>', html).group(1)
    assert base.words(row) == ["3", "33.3", "10.0–55.5", "66.7", "66.7", "41.7", "4.2", "66.7"]
    assert all(f'<th scope="row">{name}</th>' in html for name in ("other", "people"))
    figures = json.loads(Path("reports/metrics.json").read_text())
    assert figures["hal"]["localisation"]["r@1"] == 33.3333
    assert figures["hal"]["localisation"]["types"]["people"]["bound"] == 66.7
    assert "localisation" not in figures["sum"]
    row = re.search(r"Proposals of data set shapes: .*?<tbody>(.*?)</tbody>", html, re.DOTALL).group(1)
    assert base.words(row) == ["test", "3", "20", "66.7"]
    # Pictures of 160 x 120 pixels stand on symbols of 100 x 100 units, centred.
    cards = re.findall(r'<article class="card">.*?</article>', html, re.DOTALL)
    assert len(cards) == 2
    card = next(one for one in cards if "a shape" in one)
    assert "<figcaption>hal</figcaption>" in card
    assert len(re.findall(r'class="box true"', card)) == len(re.findall(r'class="box found"', card)) == 2
    rects = re.findall(r'<rect style="stroke: var\(--box-(\d)\)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"', card)
    assert rects[0] == ("1", "10.0", "20.0", "20.0")  # 16 px of 160; 12 px below the margin of 12.5 units; 32 px wide
    assert [colour for colour, *_ in rects] == ["1", "1", "2", "2"]
    assert "overlap 0.90" in card
    assert card.count("✓") == card.count("✗") == 1
    other = next(one for one in cards if one is not card)
    assert "nothing proposed" in other
    assert other.count('class="box') == 1


def test_the_best_run_stands_beside_the_first_other_one_and_one_that_is_not_made_is_named(project, capsys) -> None:
    assert localisation_section(["hal"]) == ""
    assert "localisation of hal: not made; make it with `vse-pipe localize --run hal`" in capsys.readouterr().err
    write_localisation(project)
    write_localisation(project, "sum", all={**LOCALISED, "r@1": 10.0})
    html = localisation_section(["hal", "sum"])
    assert "Boxes found by runs sum and hal" in html
    cards = re.findall(r'<article class="card">.*?</article>', html, re.DOTALL)
    assert [re.findall(r"<figcaption>(\w+)", card) for card in cards] == [["sum", "hal"]] * 2
    assert sorted(card.count('class="box found"') for card in cards) == [0, 4]
    assert len({symbol for card in cards for symbol in re.findall(r'href="#(picture-\d+)"', card)}) == 2


def test_figures_of_a_row_of_phrases_stand_beside_the_printed_ones(project) -> None:
    write_localisation(project, threshold=0.5)
    params = base.params(**base.LITTLE, localized=["hal"])
    runs = {**params.runs, "hal": replace(params.runs["hal"], row="structure-preserving-cvpr2016 3d-mined")}
    page = report(replace(params, runs=runs)).read_text(encoding="utf-8")
    found = base.section(page, "published")
    assert "row 3d-mined, beside run hal localised" in found
    rows = re.findall(r'<th scope="row">phrase (.*?)</th>' + 2 * r'<td class="number">(.*?)</td>', found)
    assert rows == [("R@1", "43.9", "33.3"), ("R@5", "64.5", "66.7"), ("R@10", "68.7", "66.7"), ("mAP", "47.7", "41.7")]


def test_a_localisation_of_other_settings_is_one_line(project) -> None:
    write_localisation(project, threshold=0.7)
    with pytest.raises(
        InputError, match=r"localize\.threshold is 0\.5, the figures are of 0\.7; run `vse-pipe localize"
    ):
        localisation_section(["hal"])
