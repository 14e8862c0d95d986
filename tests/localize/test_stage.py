"""vse-pipe localize on a tiny data set of regions: its files, what it refuses, and that nothing half-made stays."""

import json

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests import regions_project as made
from tests.naive import stages as naive
from tests.toy_project import load_params
from vse_pipe.artifacts import captions, embeddings, images, localisation, regions
from vse_pipe.core.errors import InputError, IntegrityError, UsageError
from vse_pipe.localize.stage import localize
from vse_pipe.project import paths
from vse_pipe.project.stages import declarations

REPORTED = {"runs": {"toy": made.run_of()}, "report": {"localized": ["toy"]}}


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made.write_regions_project(tmp_path, toy=made.run_of())
    made.write_embedded("toy")
    return tmp_path


def params(root, **changes):
    return load_params(root, **{**made.SECTIONS, **REPORTED, **changes})


def test_figures_and_rows_are_those_of_loops_over_the_files(project) -> None:
    metrics = localize(params(project), "toy", "cpu")
    rows = localisation.read_ranks(paths.localized("toy")).to_pylist()
    boxes = regions.read(paths.prepared(made.REGIONS)).to_pylist()
    vectors = {
        name: dict(zip(side.ids.tolist(), side.vectors, strict=True))
        for name in (embeddings.IMAGES, embeddings.CAPTIONS)
        for side in [embeddings.read(paths.embedded("toy") / name)]
    }
    asked = regions.read_phrases(paths.prepared(made.REGIONS)).filter(pc.field("split") == "test").to_pylist()
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
    assert localisation.read_metrics(paths.localized("toy")) == json.loads(json.dumps(metrics))


def test_the_same_bytes_again(project) -> None:
    localize(params(project), "toy", "cpu")
    first = {name: (paths.localized("toy") / name).read_bytes() for name in localisation.FILES}
    localize(params(project), "toy", "cpu")
    assert {name: (paths.localized("toy") / name).read_bytes() for name in localisation.FILES} == first


def test_capitals_tell_no_phrases_apart(project) -> None:
    before, folder = localize(params(project), "toy", "cpu"), paths.prepared(made.REGIONS)
    told = regions.read_phrases(folder)
    spoken = [text.capitalize() if row % 3 else text for row, text in enumerate(told["text"].to_pylist())]
    regions.write_phrases(folder, told.set_column(told.column_names.index("text"), "text", [spoken]))
    after = localize(params(project), "toy", "cpu")
    assert after.pop("data") != before.pop("data")
    assert after == before


def test_a_type_that_no_draw_holds_has_no_interval(project) -> None:
    """One draw of six pictures, and a type that one of them has: of some seeds the draw lacks it."""
    folder = paths.prepared(made.REGIONS)
    told = regions.read_phrases(folder)
    last = pc.equal(told["image_id"], pc.max(told["image_id"]))
    regions.write_phrases(
        folder, told.set_column(told.column_names.index("type"), "type", pc.if_else(last, "rare", told["type"]))
    )
    found = [localize(params(project, localize={"resamples": 1}, seed=seed), "toy", "cpu") for seed in range(4)]
    lacking = [one for one in found if "r@1" not in one["types"]["rare"].get("intervals", {})]
    assert 0 < len(lacking) < 4
    json.dumps(found, allow_nan=False)


def test_a_type_may_be_called_all(project) -> None:
    folder = paths.prepared(made.REGIONS)
    table = regions.read_phrases(folder)
    named = pc.replace_substring(table["type"], "warm", "all")
    whole = localize(params(project), "toy", "cpu")
    regions.write_phrases(folder, table.set_column(table.schema.get_field_index("type"), "type", named))
    found = localize(params(project), "toy", "cpu")
    assert (found["all"], found["types"]["all"]) == (whole["all"], whole["types"]["warm"])


def test_options_change_what_they_say(project) -> None:
    strict = localize(params(project, localize={"threshold": 0.99, "resamples": 0}), "toy", "cpu")
    whole = localize(params(project, localize={"average_precision": "eleven_point"}), "toy", "cpu")
    assert strict["all"]["bound"] < whole["all"]["bound"]
    assert "intervals" not in strict["all"]
    val = localize(params(project, localize={"split": "val"}), "toy", "cpu")
    assert val["all"]["mentions"] != whole["all"]["mentions"]


def test_a_picture_without_proposals_is_a_miss(project) -> None:
    folder = paths.prepared(made.REGIONS)
    table = regions.read(folder)
    first = pc.min(table.filter(pc.field("split") == "test")["source_id"]).as_py()
    gone = table.filter((pc.field("source_id") == first) & pc.field("proposed"))["image_id"].to_pylist()
    made.write_embedded("toy", without=gone)
    localize(params(project), "toy", "cpu")
    rows = localisation.read_ranks(paths.localized("toy")).filter(pc.field("image_id") == first).to_pylist()
    assert rows
    assert {(row["candidates"], row["rank"], row["region_id"], row["bound"]) for row in rows} == {(0, None, None, 0.0)}


def test_what_cannot_be_localised_is_one_line_and_leaves_nothing(project) -> None:
    def refused(error: type, pattern: str) -> None:
        with pytest.raises(error, match=pattern) as caught:
            localize(params(project), "toy", "cpu")
        assert "\n" not in str(caught.value)
        assert not paths.localized("toy").exists()

    made.write_embedded("toy", splits=("train", "val", "test"))
    refused(InputError, "nothing of split 'proposal'; data set 'boxes' has none there, or embed.splits leaves")
    folder = paths.prepared(made.REGIONS)
    boxes = regions.read(folder)
    elsewhere = boxes.filter(pc.field("proposed") & (pc.field("split") == "test"))["image_id"].to_pylist()
    made.write_embedded("toy", without=elsewhere)
    refused(InputError, "no picture of split 'test' has a proposal; add test to the splits that data set 'boxes'")
    made.write_embedded("toy")
    pq.write_table(boxes.replace_schema_metadata(None), folder / regions.NAME)
    refused(InputError, "its footer does not say 'source', as if another program had written it; make it again")
    regions.write(folder, boxes, str(regions.source(boxes)))
    table = regions.read_phrases(folder)
    regions.write_phrases(folder, table.filter(pc.not_equal(table["phrase_id"], table["phrase_id"][-1])))
    refused(IntegrityError, "embeds phrase_id 5076, which the data set does not have any more; run `vse-pipe embed")
    (folder / regions.NAME).unlink()
    refused(UsageError, "data set 'boxes' has no regions; train the run on a data set of `format: regions`")


@pytest.mark.parametrize("column", ["file", "text"])
def test_vectors_of_boxes_or_phrases_of_before_are_refused(project, column) -> None:
    """The numbers are the same, what they stand for is not."""
    folder = paths.prepared(made.REGIONS)
    table = (images if column == "file" else captions).read(folder)
    chosen = pc.equal(table["split"], "proposal" if column == "file" else "test")
    moved = pc.if_else(chosen, pc.replace_substring_regex(table[column], "([0-9])$|block", "7"), table[column])
    other = table.set_column(table.schema.get_field_index(column), column, moved)
    if column == "file":
        images.write(folder, other, str(images.root(table)))
    else:
        captions.write(folder, other)
    split = {"file": "proposal", "text": "test"}[column]
    with pytest.raises(
        IntegrityError, match=f"other images or captions of split {split} than .* `dvc repro embed@toy`"
    ):
        localize(params(project), "toy", "cpu")
    assert not paths.localized("toy").exists()
    made.write_embedded("toy") if column == "file" else captions.write(folder, table)
    localize(params(project), "toy", "cpu")


def test_fragments_are_refused(project, monkeypatch) -> None:
    from vse_pipe.artifacts import embeddings

    ids = np.arange(2, dtype=np.int64)
    rows = [embeddings.FragmentRows("test", ids, ids, np.ones(2, np.int64), np.ones((2, 3), np.float32))]
    about = {"run": "toy", "similarity": "scan_t2i", "regions": "1", "dim": "3"}
    for name in (embeddings.IMAGES, embeddings.CAPTIONS):
        embeddings.write_fragments(paths.embedded("toy") / name, rows, 3, about)
    with pytest.raises(InputError, match="'scan_t2i' compares fragments of pictures, a proposal is one vector"):
        localize(params(project), "toy", "cpu")


def test_check_finds_a_localisation_of_another_model(project) -> None:
    localize(params(project), "toy", "cpu")
    node = declarations()["localize"].node(params(project), "toy")
    assert node.problems(params(project)) == []
    trained = paths.trained("toy")
    trained.mkdir(parents=True)
    (trained / "config.json").write_text('{"sha256": {"model.safetensors": "' + "1" * 64 + '"}}')
    (problem,) = node.problems(params(project))
    assert "data/localize/toy: made from other weights than there are now" in problem.line


def test_check_finds_a_localisation_of_other_boxes(project) -> None:
    localize(params(project), "toy", "cpu")
    folder = paths.prepared(made.REGIONS)
    boxes = regions.read(folder)
    regions.write(folder, boxes, str(regions.source(boxes)), {"test": {"mentions": 21, "proposals": 60, "recall": 0.9}})
    (problem,) = declarations()["localize"].node(params(project), "toy").problems(params(project))
    assert "made from other regions.parquet than there are now; run `dvc repro localize@toy`" in problem.line
    assert localize(params(project), "toy", "cpu")["proposals"]["test"]["recall"] == 0.9
