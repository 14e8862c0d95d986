"""What people said of the pairs, on the page and in reports/metrics.json."""

import json
import re

from tests.report import project as artefacts
from vse_pipe.artifacts import evaluation
from vse_pipe.core.files import read_json, write_json
from vse_pipe.project import paths
from vse_pipe.report.stage import report

SIDE = {"queries": 1234, "r@1": 41.23, "map@r": 30.04, "r_precision": 33.3, "graded_ndcg@10": 70.0, "mrr": 50.0}
SIDE |= {"kendall": {"judgements": 99, "tau_b": 0.4567, "tau_c": -0.1}, "kendall_foreign": {"judgements": 9}}
LABELLED = {"queries": 60, "pmrp": 40.4, "r_precision_0": 30.3, "r_precision_1": 40.1, "r_precision_2": 50.8}


def _section(page: str) -> str:
    found = re.search(r'<section[^>]*id="judged".*?</section>', page, re.DOTALL)
    return found.group(0) if found else ""


def _judge(run: str, inference: str, **found: dict) -> None:
    path = paths.evaluated(run, inference) / evaluation.METRICS
    write_json(path, {**read_json(path), **found})


def test_nothing_where_nobody_judged(page, finished):
    assert _section(page) == ""
    assert "judged" not in (finished / "reports" / "metrics.json").read_text()


def test_a_row_for_each_evaluation_that_has_them(project):
    directions = {"image_to_text": SIDE, "text_to_image": {**SIDE, "kendall": {"judgements": 99}}}
    _judge("hal", "csls", judged={"file": "j.csv", "correct_above": 1.5, **directions})
    _judge("sum", "nns", plausible={"file": "l.csv", **dict.fromkeys(evaluation.DIRECTIONS, LABELLED)})
    report(artefacts.params(runs=["sum", "hal"], inferences=["nns", "csls"], examples=0))
    section = _section((project / "reports/index.html").read_text())
    assert "with a mean grade above 1.5" in " ".join(section.split())
    rows = [re.sub(r"<[^>]+>", " ", row).split() for row in re.findall(r"<tr><th scope=\"row\">.*?</tr>", section)]
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
