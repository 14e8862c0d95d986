"""Sections of the page that few evaluations have."""

import dataclasses
import html
import json
import re

import pandas as pd
import pytest
import vl_convert

from tests.naive import stages as naive
from tests.report import project as artefacts
from vse_pipe.artifacts import evaluation
from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.core.errors import UsageError
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
    section = artefacts.section((project / "reports/index.html").read_text(encoding="utf-8"), "calibration")
    row = re.search(r'<tr><th scope="row">csls</th>(.*?)</tr>', section).group(1)
    assert artefacts.words(row) == ["platt", "1,400", "25.6%", "12.1%", "0.043", "0.031\u20130.065", "0.176"]
    assert "text to image: csls is off by 0.043 on average" in section
    told = json.loads((project / "reports/metrics.json").read_text())
    assert told["max"]["csls"]["calibration"]["image_to_text"] == {"ece": 0.0432, "brier": 0.1765}


def _ranks(root, run: str, inference: str) -> pd.DataFrame:
    table = evaluation.read_ranks(root / paths.evaluated(run, inference)).to_pandas()
    return table.set_index(["direction", "query_id"])


def _kinds(root, run: str, inference: str, direction: str, k: int) -> list[str]:
    before, after = (_ranks(root, run, name).loc[direction][f"hit_{k}"] for name in ("nns", inference))
    return [naive.kind(before[number], after[number]) for number in before.index]


def test_counts_of_every_criterion_equal_the_loops(finished, page):
    table = re.search(r"<caption>Queries of run max that turn right.*?<tbody>(.*?)</tbody>", page, re.DOTALL).group(1)
    rows = dict(re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table))
    assert list(rows) == [name for name in artefacts.CRITERIA if name != "nns"]
    for name, cells in rows.items():
        found = [
            int(text.replace("\u2212", "-").replace("\u00b1", "")) for text in re.findall(r"<td[^>]*>(.*?)</td>", cells)
        ]
        expected = []
        for direction in DIRECTIONS:
            for k in (1, 10):
                kinds = _kinds(finished, "max", name, direction, k)
                repaired, broken = kinds.count("repaired"), kinds.count("broken")
                expected += [repaired, -broken, repaired - broken]
        assert found == expected, name
    assert any("+1" in cells for cells in rows.values())


def test_the_chart_of_changes_says_its_numbers_and_a_matching_is_compared_as_a_set(finished, page):
    label = html.unescape(
        re.search(r'aria-label="(Image to text, queries right at 1 [^"]*)"', artefacts.section(page, "changes")).group(
            1
        )
    )
    kinds = _kinds(finished, "sum", "csls", "image_to_text", 1)
    assert f"csls repairs {kinds.count('repaired')} and breaks {kinds.count('broken')}" in label
    table = re.search(
        r"Queries that gm repaired and broke at R@10.*?</table>", artefacts.section(page, "changes"), re.DOTALL
    ).group(0)
    assert "Set under gm" in table
    assert "correct item among its 10" in table


def test_examples_are_what_they_are_called(finished, page):
    """A query that is called repaired is wrong under the plain ranking and right under the criterion."""
    section = artefacts.section(page, "changes")
    table = re.search(r"Queries that csls repaired and broke at R@1.*?<tbody>(.*?)</tbody>", section, re.DOTALL).group(
        1
    )
    rows = table.split("</tr>")[:-1]
    assert 4 <= len(rows) <= 8
    for row in rows:
        kind = re.search(r'class="kind (\w+)"', row).group(1)
        verdicts = re.findall(r'class="verdict (\w+)"', row)
        assert verdicts == (["wrong", "right"] if kind == "repaired" else ["right", "wrong"])
        ranks = [int(number) for number in re.findall(r"correct at rank (\d+)", row)]
        assert [number == 1 for number in ranks] == [verdict == "right" for verdict in verdicts]
    assert {"repaired", "broken"} == set(re.findall(r'class="kind (\w+)"', table))


SIDE = {"queries": 1234, "r@1": 41.23, "map@r": 30.04, "r_precision": 33.3, "graded_ndcg@10": 70.0, "mrr": 50.0}
SIDE |= {"kendall": {"judgements": 99, "tau_b": 0.4567, "tau_c": -0.1}, "kendall_foreign": {"judgements": 9}}
LABELLED = {"queries": 60, "pmrp": 40.4, "r_precision_0": 30.3, "r_precision_1": 40.1, "r_precision_2": 50.8}


def _judge(run: str, inference: str, **found: dict) -> None:
    path = paths.evaluated(run, inference) / evaluation.METRICS
    write_json(path, {**read_json(path), **found})


def test_a_row_for_each_evaluation_that_has_them(project):
    directions = {"image_to_text": SIDE, "text_to_image": {**SIDE, "kendall": {"judgements": 99}}}
    _judge("hal", "csls", judged={"file": "j.csv", "correct_above": 1.5, **directions})
    _judge("sum", "nns", plausible={"file": "l.csv", **dict.fromkeys(evaluation.DIRECTIONS, LABELLED)})
    report(artefacts.params(runs=["sum", "hal"], inferences=["nns", "csls"], examples=0))
    section = artefacts.section((project / "reports/index.html").read_text(), "judged")
    assert "with a mean grade above 1.5" in " ".join(section.split())
    rows = [artefacts.words(row) for row in re.findall(r"<tr><th scope=\"row\">.*?</tr>", section)]
    side = ["1,234", "41.2", "30.0", "33.3", "70.0"]
    assert rows == [
        ["hal", "csls", *side, "0.457", "−0.100", *side, "–", "–"],
        ["sum", "nns", *["60", "40.4", "30.3", "40.1", "50.8"] * 2],
    ]
    figures = json.loads((project / "reports/metrics.json").read_text())
    assert figures["hal"]["csls"]["judged"]["image_to_text"]["kendall"] == {"tau_b": 0.4567, "tau_c": -0.1}
    assert "queries" not in figures["hal"]["csls"]["judged"]["text_to_image"]
    assert figures["sum"]["nns"]["plausible"]["image_to_text"]["pmrp"] == 40.4
    assert "judged" not in figures["hal"]["nns"]


NAMES = {"validation": "validation", "ranked": "test"}


def test_a_line_a_criterion_and_split_and_a_point_at_the_chosen():
    recalls = {"validation": [40.0, 42.0, 41.0], "ranked": [38.0, None, 39.0]}
    table = pd.DataFrame({"lambda": [1.0, 1.5, 2.0], **recalls, "chosen": [False, True, False]})
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
    section = artefacts.section(page, "relaxation")
    specs = [json.loads(text) for text in re.findall(r'data-chart="[^"]*">(.*?)</script>', section, re.DOTALL)]
    assert len(specs) == len(artefacts.RUNS) * 2 * 3
    assert all({row["criterion"] for row in spec["data"]["values"]} == {"rgm", "is+rgm", "csls+rgm"} for spec in specs)
    row = re.search(r'<tr><th scope="row">rgm</th>(.*?)</tr>', section).group(1)
    # At lambda 1, at the chosen 2.5 and at 4, of validation and of test.
    assert artefacts.words(row) == ["1", "2.5", *["40.0", "43.0", "41.0"], *["39.0", "41.5", "40.0"]]
    label = html.unescape(re.search(r'aria-label="(R@1, image to text[^"]*)"', section).group(1))
    assert "rgm has 40.0 on validation at 1, 43.0 at the chosen 2.5 and 41.0 at 4" in label
    table = re.search(r"<caption>R@K on validation, image to text</caption>.*?</table>", page, re.DOTALL).group(0)
    assert re.findall(r'<th scope="row" class="number">(.*?)</th>', table) == ["1", "2.5", "4"]
    assert re.findall(r"<td[^>]*>(.*?)</td>", table)[:3] == ["40.0"] * 3


# Liu et al., AAAI 2020, Table 2: HAL with a memory bank, GRU and ResNet152, measured on five folds.
ROW, RSUM = "hal-aaai2020 2.12", 466.7
I2T, T2I = (64.0, 89.9, 95.7, 1.0, 2.8), (46.9, 80.4, 89.9, 2.0, 6.1)


def published(row, inferences=("csls", "nns")):
    params = artefacts.params(runs=["sum", "hal"], inferences=list(inferences))
    runs = {**params.runs, "hal": dataclasses.replace(params.runs["hal"], row=row)}
    page = report(dataclasses.replace(params, runs=runs)).read_text(encoding="utf-8")
    return artefacts.section(page, "published")


def numbers(cells):
    return [float(cell.replace("\u2212", "-").replace("±", "")) for cell in cells]


def test_a_run_that_names_a_row_is_set_beside_it(project):
    html = published(ROW)
    assert html.count("<table>") == 1, "the paper ranks this model with nns alone"
    assert "row 2.12, beside run hal ranked with nns" in html
    assert "Measured under protocol full, the row under folds (c2)." in html
    rows = re.findall(r'<th scope="row">(.*?)</th>' + 3 * r'<td class="number">(.*?)</td>', html)
    measured = evaluation.read_metrics(project / paths.evaluated("hal", "nns"))
    ours = [measured[way][key] for way in evaluation.DIRECTIONS for key in ("r@1", "r@5", "r@10", "med_r", "mean_r")]
    ours, theirs = [*ours, measured["rsum"]], [*I2T, *T2I, RSUM]
    assert numbers(row[1] for row in rows) == theirs
    assert numbers(row[2] for row in rows) == pytest.approx(ours, abs=0.051)
    differences = [mine - printed for mine, printed in zip(ours, theirs, strict=True)]
    assert numbers(row[3] for row in rows) == pytest.approx(differences, abs=0.051)
    assert f"{ROW} has no figures under the criteria of this report" in published(ROW, ["csls"])


def test_an_unknown_row_writes_nothing(project):
    with pytest.raises(UsageError, match=r"hal-aaai2020 has no row '2\.122'"):
        published("hal-aaai2020 2.122")
    assert not (project / "reports").exists()


def test_sections_without_content_are_left_out(project):
    page = report(artefacts.params(runs=["hal"], inferences=["nns"])).read_text(encoding="utf-8")
    names = ("calibration", "changes", "judged", "relaxation", "published", "claims", "audit", "localisation", "sweeps")
    assert [name for name in names if f'id="{name}"' in page] == []
    assert "judged" not in (project / "reports/metrics.json").read_text()
    for folder in (paths.DATA / "evaluate").rglob("relaxation.parquet"):
        folder.unlink()
    page = report(artefacts.params(runs=["hal"], examples=0)).read_text(encoding="utf-8")
    assert 'id="relaxation"' not in page, "no lambda was chosen"
    assert "Queries of run hal that turn right" in artefacts.section(page, "changes")
    assert "drawn by the seed" not in artefacts.section(page, "changes")
