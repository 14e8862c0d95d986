"""The section of audited runs: its figures and charts, and the audits that it refuses."""

import html
import json
import re

import pytest

from tests.report import project as artefacts
from tests.report.conftest import HOSTILE
from tests.report.project import write_audit
from vse_pipe.artifacts import audit
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import write_json
from vse_pipe.report.stage import report


def _page(runs: list[str]) -> str:
    return report(artefacts.params(**artefacts.LITTLE, audits=runs)).read_text(encoding="utf-8")


def _section() -> str:
    return artefacts.section(_page(["hal"]), "audit")


def _charts(section: str) -> list[dict]:
    return [json.loads(text) for text in re.findall(r'data-chart="[^"]*">(.*?)</script>', section, re.DOTALL)]


def test_an_audit_on_disk_is_not_shown_unless_params_names_it(project):
    write_audit(project, "hal")
    assert "Suspect pairs" not in _page([])
    page = _page(["hal"])
    assert "Suspect pairs of run hal" in page
    assert "Suspect pairs of run sum" not in page


def test_figures_and_gallery(project):
    write_audit(project, "hal")
    section = _section()
    row = re.search(r'<tr><th scope="row">hal</th>(.*?)</tr>', section).group(1)
    assert artefacts.words(row) == ["300", "61", "60", "0.987", "0.900", "–", "0.850"]
    assert "of the first 100 about 50% are mismatched, 60% in truth." in section
    rows = re.findall(r"<tr><th scope=\"row\"><svg.*?</tr>", section, re.DOTALL)
    assert len(rows) == 3
    assert all("mismatched" in row for row in rows)
    # The first pair of the gallery has no partner; the others have both.
    assert [row.count("similarity") for row in rows] == [1, 3, 3]
    assert rows[1].count("<svg") == 2


def test_captions_of_the_gallery_are_text(project):
    folder = write_audit(project, "hal")
    metrics = audit.read_metrics(folder)
    write_json(folder / audit.METRICS, {**metrics, "gallery": [artefacts.caption_ids(3)[0]]})
    page = _page(["hal"])
    assert HOSTILE not in page
    assert html.escape(HOSTILE, quote=False) in artefacts.section(page, "audit").replace("&#34;", '"')


def test_charts_of_losses_and_costs(project):
    write_audit(project, "hal")
    losses, costs = _charts(_section())
    bars, lines = (layer["data"]["values"] for layer in losses["layer"])
    assert sum(bar["count"] for bar in bars) == 300
    assert {bar["kind"] for bar in bars} == {"matched", "mismatched"}
    assert {line["expected"] for line in lines} == {20.0, 5.0}
    values = costs["data"]["values"] if "data" in costs else costs["layer"][0]["data"]["values"]
    medians = {(row["epoch"], row["kind"]): row["median"] for row in values}
    assert medians[6, "matched"] == pytest.approx(0.25)
    assert medians[6, "mismatched"] == pytest.approx(0.75)
    assert medians[7, "mismatched"] == pytest.approx(0.5 + 0.5 / 3)


def test_what_the_transport_plan_gave_is_shown_with_its_weights(project):
    first, second = artefacts.caption_ids(2)[0], artefacts.caption_ids(5)[1]
    parts = {
        "untransported": {"rows": 90, "mean": [0.3, 0.3, 0.2, 0.2]},
        "transported": {"rows": 6, "mean": [0.7, 0.2, 0.1, 0.0]},
    }
    row = {"image_id": 2, "caption_id": first, "rematch_caption_id": second, "weight": 0.73125}
    write_audit(project, "hal", refined={"epoch": 9, "alignment": parts, "rematched": [row]})
    section = _section()
    *_, moved, still = _charts(section)
    for chart, part in ((moved, parts["transported"]), (still, parts["untransported"])):
        bars, level = (layer["data"]["values"] for layer in chart["layer"])
        assert [bar["weight"] for bar in bars] == part["mean"]
        assert level == [{"weight": 0.25}]
    assert "mean of 90 images" in section
    assert "Pairs rematched by the transport plan of run hal, epoch 9" in section
    (shown,) = re.findall(r'<tr><th scope="row">(?:(?!</tr>).)*0\.73</td></tr>', section, re.DOTALL)
    assert shown.count("<td") == 3


def test_without_truth_there_are_no_figures_and_no_costs(project):
    write_audit(project, "hal", known=False)
    section = _section()
    assert "unknown" in section
    assert "Truth" not in section
    assert "of the first 100 about 50% are mismatched." in section
    assert len(_charts(section)) == 1


def test_doubts_where_partners_were_sought_and_a_plan_that_moved_nothing(project):
    batch = "Partners were sought among the pairs of the same batch"
    write_audit(project, "hal", refined={"epoch": 9, "alignment": None, "rematched": []})
    section = _section()
    assert (batch in section, len(_charts(section))) == (False, 2)
    write_audit(project, "hal", mixture={"doubts": ["all losses are equal"]}, partners_from="batch")
    section = _section()
    assert batch in section
    assert "Do not trust the probabilities: all losses are equal." in section


def _edited(**changes):
    return lambda folder: write_json(folder / audit.METRICS, {**audit.read_metrics(folder), **changes})


def _without(name):
    def change(folder):
        metrics = audit.read_metrics(folder)
        write_json(folder / audit.METRICS, {key: value for key, value in metrics.items() if key != name})

    return change


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            _edited(model_sha256="b" * 64),
            r"made by another model than data/train/hal now holds; run `dvc repro audit@hal`",
        ),
        (_edited(data={"train": "b"}), r"made from other images or captions of split train than data/prepare/shapes"),
        (_without("gallery"), r"gallery is missing; run `dvc repro audit@hal`, or `vse-pipe audit --run hal` again"),
        (_edited(gallery=[1]), r"caption_id 1 of the gallery is no row of pairs\.parquet"),
        (lambda folder: (folder / audit.PAIRS).unlink(), r"pairs\.parquet does not exist"),
    ],
)
def test_an_audit_that_cannot_be_shown_stops_the_report(project, damage, message):
    damage(write_audit(project, "hal"))
    with pytest.raises(IntegrityError if "made" in message else InputError, match=message):
        _page(["hal"])
    assert not (project / "reports").exists()
