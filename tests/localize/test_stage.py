"""vse-pipe localize on a tiny data set of regions: its files, what it refuses, and that nothing half-made stays."""

import json
import shutil
from contextlib import chdir
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from tests import regions_project as made
from tests.naive import stages as naive
from tests.sealed import sealed
from tests.toy_project import load_params
from vse_pipe.artifacts import embeddings, identity, localisation, regions
from vse_pipe.core.errors import InputError, IntegrityError, UsageError
from vse_pipe.core.files import read_json
from vse_pipe.localize.stage import localize
from vse_pipe.project import paths

FOLDER = paths.prepared(made.REGIONS)
REPORTED = {"runs": {"toy": made.run_of()}, "report": {"localized": ["toy"]}}


@pytest.fixture(scope="module")
def _whole(tmp_path_factory):
    root = tmp_path_factory.mktemp("localize")
    with chdir(root):
        made.write_regions_project(Path(), toy=made.run_of())
        made.write_embedded("toy")
    return root


@pytest.fixture
def project(_whole, tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(_whole, tmp_path / "project"))


def params(**changes):
    return load_params(Path(), **{**made.SECTIONS, **REPORTED, **changes})


def localized(**changes):
    return localize(params(**changes), "toy", "cpu")


def typed(column: str, values) -> None:
    """Phrases with another column."""
    told = regions.read_phrases(FOLDER)
    regions.write_phrases(FOLDER, told.set_column(told.column_names.index(column), column, values))


def test_figures_and_rows_are_those_of_loops_over_the_files_and_the_same_bytes_again(project) -> None:
    metrics = localized()
    rows = localisation.read_ranks(paths.localized("toy")).to_pylist()
    boxes = regions.read(FOLDER).to_pylist()
    vectors = {
        name: dict(zip(side.ids.tolist(), side.vectors, strict=True))
        for name in (embeddings.IMAGES, embeddings.CAPTIONS)
        for side in [embeddings.read(paths.embedded("toy") / name)]
    }
    asked = regions.read_phrases(FOLDER).filter(pc.field("split") == "test").to_pylist()
    assert {row["phrase_id"] for row in rows} == {one["phrase_id"] for one in asked}
    ranks = []
    for row in rows:
        own = [one for one in boxes if one["source_id"] == row["image_id"] and one["proposed"]]
        word = vectors[embeddings.CAPTIONS][row["phrase_id"]]
        scores = [float(word @ vectors[embeddings.IMAGES][one["image_id"]]) for one in own]
        corners = [tuple(one[name] for name in ("x1", "y1", "x2", "y2")) for one in own]
        truth = tuple(row[name] for name in ("x1", "y1", "x2", "y2"))
        ranks.append(naive.rank((0, row["text"], truth, scores), corners, 0.5))
        best = int(np.argmax(scores))
        assert (row["rank"], row["candidates"], row["region_id"]) == (ranks[-1], len(own), own[best]["image_id"])
        assert tuple(row[name] for name in localisation.FOUND) == corners[best]
        assert row["iou"] == pytest.approx(naive.overlap(truth, corners[best]))
    for k in (1, 5, 10):
        assert metrics["all"][f"r@{k}"] == pytest.approx(100 * np.mean([bool(r and r <= k) for r in ranks]))
    assert metrics["all"]["bound"] == pytest.approx(100 * np.mean([r is not None for r in ranks]))
    assert metrics["all"]["r@1"] > metrics["all"]["random_r@1"] + 30
    low, high = metrics["all"]["intervals"]["r@1"]
    assert low <= metrics["all"]["r@1"] <= high
    assert set(metrics["types"]) == {"warm", "cool", "plain"}
    assert read_json(paths.localized("toy") / localisation.METRICS) == json.loads(json.dumps(metrics))
    first = {name: (paths.localized("toy") / name).read_bytes() for name in (localisation.METRICS, localisation.RANKS)}
    localized()
    assert {
        name: (paths.localized("toy") / name).read_bytes() for name in (localisation.METRICS, localisation.RANKS)
    } == first


def test_capitals_tell_no_phrases_apart(project) -> None:
    before = localized()
    texts = regions.read_phrases(FOLDER)["text"].to_pylist()
    typed("text", [[text.capitalize() if row % 3 else text for row, text in enumerate(texts)]])
    after = localized()
    assert after == before


def test_a_type_that_no_draw_holds_has_no_interval(project) -> None:
    """One draw of six pictures, and a type that one of them has: of some seeds the draw lacks it."""
    told = regions.read_phrases(FOLDER)
    last = pc.equal(told["image_id"], pc.max(told["image_id"]))
    typed("type", pc.if_else(last, "rare", told["type"]))
    found = [localized(localize={"resamples": 1}, seed=seed) for seed in range(4)]
    lacking = [one for one in found if "r@1" not in one["types"]["rare"].get("intervals", {})]
    assert 0 < len(lacking) < 4
    json.dumps(found, allow_nan=False)


def test_options_change_what_they_say(project) -> None:
    strict = localized(localize={"threshold": 0.99, "resamples": 0})
    whole = localized(localize={"average_precision": "eleven_point"})
    assert strict["all"]["bound"] < whole["all"]["bound"]
    assert "intervals" not in strict["all"]
    val = localized(localize={"split": "val"})
    assert val["all"]["mentions"] != whole["all"]["mentions"]


def test_a_picture_without_proposals_is_a_miss(project) -> None:
    table = regions.read(FOLDER)
    first = pc.min(table.filter(pc.field("split") == "test")["source_id"]).as_py()
    gone = table.filter((pc.field("source_id") == first) & pc.field("proposed"))["image_id"].to_pylist()
    made.write_embedded("toy", without=gone)
    localized()
    rows = localisation.read_ranks(paths.localized("toy")).filter(pc.field("image_id") == first).to_pylist()
    assert rows
    assert {(row["candidates"], row["rank"], row["region_id"], row["bound"]) for row in rows} == {(0, None, None, 0.0)}


def test_what_cannot_be_localised_is_one_line_and_leaves_nothing(project) -> None:
    def refused(error: type, pattern: str) -> None:
        with pytest.raises(error, match=pattern) as caught:
            localized()
        assert "\n" not in str(caught.value)
        assert not paths.localized("toy").exists()

    made.write_embedded("toy", splits=("train", "val", "test"))
    refused(InputError, "no picture of split 'test' has a phrase and a proposal; .* embed.splits")
    boxes = regions.read(FOLDER)
    elsewhere = boxes.filter(pc.field("proposed") & (pc.field("split") == "test"))["image_id"].to_pylist()
    made.write_embedded("toy", without=elsewhere)
    refused(InputError, "no picture of split 'test' has a phrase and a proposal; see the splits that data set 'boxes'")
    made.write_embedded("toy")
    table = regions.read_phrases(FOLDER)
    regions.write_phrases(FOLDER, table.filter(pc.not_equal(table["phrase_id"], table["phrase_id"][-1])))
    refused(IntegrityError, "embeds other phrase_id than the data set; run `vse-pipe embed")
    (FOLDER / regions.NAME).unlink()
    refused(UsageError, "data set 'boxes' has no regions; train the run on a data set of `format: regions`")


def test_a_localisation_of_other_boxes_is_stale(project) -> None:
    localized()
    out = paths.localized("toy")
    identity.require_current(out)
    boxes = regions.read(FOLDER)
    regions.write(FOLDER, boxes, str(regions.source(boxes)), {"test": {"mentions": 21, "proposals": 60, "recall": 0.9}})
    sealed(FOLDER)
    with pytest.raises(IntegrityError, match=r"made from other .*regions than .*; run `vse-pipe localize --run toy`"):
        identity.require_current(out)
    assert localized()["proposals"]["test"]["recall"] == 0.9
