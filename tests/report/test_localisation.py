"""The section of located phrases: figures, pictures with boxes, and the artefacts that it refuses."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from tests.report import project as artefacts
from tests.report.conftest import HOSTILE
from vse_pipe.artifacts import captions, localisation
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import sha256
from vse_pipe.project import paths
from vse_pipe.project.params.schema import LocalizeParams
from vse_pipe.report.stage import report

FIGURES = {"mentions": 3, "phrases": 3, "pictures": 2, "r@1": 33.333333, "r@5": 66.7, "r@10": 66.7, "bound": 66.7}
FIGURES |= {"random_r@1": 4.2, "random_r@5": 20.0, "random_r@10": 40.0, "map": 41.7}


def digest_of(run: str) -> str:
    return artefacts.digests(run)["sha256"]["model.safetensors"]


def write(root: Path, run: str = "hal", source: Path | None = None, **changes: object) -> None:
    """Two mentions in one sentence, one found and one missed, and one in another picture that has no proposals."""
    first, other = artefacts.caption_ids(3)[0], artefacts.caption_ids(7)[1]
    columns = {
        "phrase_id": [1, 2, 3],
        "caption_id": [first, first, other],
        "image_id": [3, 3, 7],
        "start": [0, 30, 9],
        "text": ["a shape", "a <b>thing", "a circle"],
        "type": ["people", "other/people", "other"],
        "candidates": [10, 10, 0],
        "correct": [2, 1, 0],
        "rank": [1.0, 4.0, None],
        "bound": [0.9, 0.6, 0.0],
        "region_id": [70, 71, None],
        "score": pa.array([0.5, 0.4, None], pa.float32()),
        "iou": [0.9, 0.1, None],
    }
    boxes = {"x1": [16.0, 80.0, 0.0], "y1": [12.0, 20.0, 0.0], "x2": [47.0, 111.0, 9.0], "y2": [43.0, 51.0, 9.0]}
    found = {f"found_{name}": [values[0], values[1] + 8, None] for name, values in boxes.items()}
    about = {**LocalizeParams().model_dump(), "run": run, "model_sha256": digest_of(run)}
    about |= {"data": {}, "proposals": {"test": {"mentions": 3, "proposals": 20, "recall": 0.666667}}}
    intervals = {"intervals": {"r@1": [10.0, 55.5]}}
    types = {"other": FIGURES, "people": FIGURES}
    metrics = {**about, "all": {**FIGURES, **intervals}, "types": types, **changes}
    folder = root / paths.localized(run)
    folder.mkdir(parents=True)
    localisation.write(
        folder, pa.table({**columns, **boxes, **found}), metrics, str(source or paths.prepared("shapes"))
    )


def section(runs: list[str]) -> str:
    page = report(artefacts.params(**artefacts.LITTLE, localized=runs)).read_text(encoding="utf-8")
    assert HOSTILE not in page
    assert "<b>thing" not in page
    return artefacts.section(page, "localisation")


def test_a_localisation_on_disk_is_nowhere_unless_params_names_it(project) -> None:
    write(project)
    assert section([]) == ""
    assert "localisation" not in json.loads(Path("reports/metrics.json").read_text())["hal"]


def test_figures_intervals_floor_bound_and_the_recall_of_the_proposals(project) -> None:
    write(project)
    html = section(["hal"])
    row = re.search(r'<tr><th scope="row">hal</th>(.*?)</tr>', html).group(1)
    assert artefacts.words(row) == ["3", "33.3", "10.0–55.5", "66.7", "66.7", "41.7", "4.2", "66.7"]
    assert all(f'<th scope="row">{name}</th>' in html for name in ("other", "people"))
    figures = json.loads(Path("reports/metrics.json").read_text())
    assert figures["hal"]["localisation"]["r@1"] == 33.3333
    assert figures["hal"]["localisation"]["types"]["people"]["bound"] == 66.7
    assert "localisation" not in figures["sum"]
    row = re.search(r"Proposals of data set shapes: .*?<tbody>(.*?)</tbody>", html, re.DOTALL).group(1)
    assert artefacts.words(row) == ["test", "3", "20", "66.7"]


def test_a_phrase_and_its_boxes_have_one_colour_where_they_lie_in_the_picture(project) -> None:
    """Pictures of 160 x 120 pixels stand on symbols of 100 x 100 units, centred."""
    write(project)
    html = section(["hal"])
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


def test_the_best_run_stands_beside_the_first_other_one(project) -> None:
    write(project)
    write(project, "sum", all={**FIGURES, "r@1": 10.0})
    html = section(["hal", "sum"])
    assert "Boxes found by runs sum and hal" in html
    cards = re.findall(r'<article class="card">.*?</article>', html, re.DOTALL)
    assert [re.findall(r"<figcaption>(\w+)", card) for card in cards] == [["sum", "hal"]] * 2
    assert sorted(card.count('class="box found"') for card in cards) == [0, 4]
    assert len({symbol for card in cards for symbol in re.findall(r'href="#(picture-\d+)"', card)}) == 2


def test_a_data_set_of_the_same_name_elsewhere_is_another_one(project) -> None:
    other = project / "elsewhere" / "shapes"
    shutil.copytree(project / paths.prepared("shapes"), other)
    table = captions.read(other)
    texts = [f"elsewhere {text}" for text in table["text"].to_pylist()]
    captions.write(other, table.set_column(table.column_names.index("text"), "text", [texts]))
    write(project, source=other)
    write(project, "sum", source=project / paths.prepared("shapes"))
    html = section(["hal", "sum"])
    assert "elsewhere" in html
    assert "Boxes found by run hal" in html  # nothing to compare with: other pictures
    assert "elsewhere" not in section(["sum"])


def test_figures_of_a_row_of_phrases_stand_beside_the_printed_ones(project) -> None:
    write(project, threshold=0.5)
    params = artefacts.params(**artefacts.LITTLE, localized=["hal"])
    runs = {**params.runs, "hal": dataclasses.replace(params.runs["hal"], row="structure-preserving-cvpr2016 3d-mined")}
    page = report(dataclasses.replace(params, runs=runs)).read_text(encoding="utf-8")
    found = artefacts.section(page, "published")
    assert "row 3d-mined, beside run hal localised" in found
    rows = re.findall(r'<th scope="row">phrase (.*?)</th>' + 2 * r'<td class="number">(.*?)</td>', found)
    assert rows == [("R@1", "43.9", "33.3"), ("R@5", "64.5", "66.7"), ("R@10", "68.7", "66.7"), ("mAP", "47.7", "41.7")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_sha256": "0" * 64}, "made by another model than data/train/hal now holds"),
        (
            {"data": {"regions.parquet": "0" * 64}},
            "made from another regions.parquet than data/prepare/shapes now holds",
        ),
        (
            {"source_data": {"test": "0"}},
            "made from other images or captions of split test than data/prepare/shapes now holds",
        ),
        ({"threshold": 0.7}, "threshold is 0.7, params.yaml localize.threshold is 0.5"),
    ],
)
def test_a_stale_localisation_is_one_line(project, changes, message) -> None:
    (project / paths.prepared("shapes") / "regions.parquet").write_bytes(b"as it is now")
    now = {"regions.parquet": sha256(project / paths.prepared("shapes") / "regions.parquet")}
    write(project, **{"data": now, **changes})
    with pytest.raises(InputError if "threshold" in changes else IntegrityError) as caught:
        section(["hal"])
    mend = "run `dvc repro localize@hal`, or `vse-pipe localize --run hal` again"
    wanted = f"data/localize/hal/metrics.json: {message}; {mend}"
    assert str(caught.value) == wanted


def test_one_that_is_not_made_is_named_and_left_out(project, capsys) -> None:
    assert section(["hal"]) == ""
    assert "localisation of hal: not made; make it with `vse-pipe localize --run hal`" in capsys.readouterr().err
