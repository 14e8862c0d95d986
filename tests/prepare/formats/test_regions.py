"""Regions of a data set with phrases: rows, boxes, captions and options, compared with plain loops."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.naive.data import overlap
from tests.prepare._data import (
    SOURCE,
    SPLITS,
    WORDS,
    drawn_phrases,
    made_regions,
    prepare,
    refused_regions,
    write_whole,
)
from vse_pipe.artifacts import captions, images, regions
from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.core.files import sha256
from vse_pipe.core.tables import footer
from vse_pipe.pictures.address import cut
from vse_pipe.prepare.regions import covered


@pytest.fixture(autouse=True)
def _own_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_every_row_by_plain_loops():
    rows = drawn_phrases(60, SPLITS)
    write_whole(rows, SPLITS)
    pictured, said, spoken, table = made_regions(count=6, regions_per_phrase=99, splits=["test"])
    source = regions.read_phrases(SOURCE).to_pylist()
    expected, owner, seen = [], {}, set()
    for number, split in SPLITS.items():
        for row in source:
            if row["image_id"] != number:
                continue
            box = _pixels(row)
            if (number, box) not in owner:
                owner[number, box] = len(expected)
                expected.append((number, split, False, box))
            if split != "train" or (number, box, row["text"]) not in seen:
                seen.add((number, box, row["text"]))
                row["region"] = owner[number, box]
        if split == "test":
            expected += [(number, "proposal", True, None)] * 6
    assert len(pictured) == len(expected) == table.num_rows
    rows = zip(pictured, table.to_pylist(), expected, strict=True)
    for k, (row, region, (number, split, proposed, box)) in enumerate(rows):
        whole, found = cut(row["file"])
        corners = (found.left, found.top, found.left + found.width - 1, found.top + found.height - 1)
        assert (row["image_id"], whole, row["split"]) == (k, f"p{number}.png", split)
        assert (row["width"], row["height"]) == (found.width, found.height)
        assert row["sha256"] == sha256(SOURCE / "images" / whole)
        assert (region["image_id"], region["source_id"], region["proposed"]) == (k, number, proposed)
        assert region["split"] == SPLITS[number]
        assert tuple(region[name] for name in CORNERS) == corners
        assert proposed or corners == box
    kept = [(row["phrase_id"], row["region"], row["text"], row["split"]) for row in source if "region" in row]
    assert [(row["caption_id"], row["image_id"], row["text"], row["split"]) for row in said] == kept
    for row, of in zip(spoken, source, strict=True):
        of.pop("region", None)
        assert row == of | {"region_id": owner[row["image_id"], _pixels(row)]}
    out = Path("data/prepare/tiny")
    assert images.root(images.read(out)) == SOURCE / "images"
    assert regions.source(table) == SOURCE
    assert footer(images.read(out))[regions.PHRASES] == sha256(out / regions.PHRASES)


CORNERS = ("x1", "y1", "x2", "y2")


def _pixels(row: dict) -> tuple[int, ...]:
    return (int(row["x1"] // 1), int(row["y1"] // 1), int(-(-row["x2"] // 1)), int(-(-row["y2"] // 1)))


def test_of_one_phrase_so_many_regions_drawn_by_the_seed():
    splits = dict.fromkeys(range(40), "train") | {99: "val"}
    spoken = [(n, text if n % 2 else text.capitalize(), (n, 1, 50, 30)) for n in range(40) for text in WORDS]
    write_whole(spoken + [(99, "a man", (0, 0, 9, 9))] * 30, splits)
    found = {}
    for seed in (1, 2):
        out = prepare("regions", SOURCE, seed=seed, count=3, regions_per_phrase=5)
        said = captions.read(out).to_pylist()
        for text in WORDS:
            of = [row["image_id"] for row in said if row["text"].lower() == text and row["split"] == "train"]
            assert len(of) == len(set(of)) == 5
        described = {row["image_id"] for row in said}
        pictured = images.read(out).to_pylist()
        assert {row["image_id"] for row in pictured if row["split"] != "proposal"} == described
        assert sum(row["split"] == "val" for row in said) == 30
        found[seed] = [row["caption_id"] for row in said]
        again = prepare("regions", SOURCE, seed=seed, count=3, regions_per_phrase=5)
        assert captions.read(again)["caption_id"].to_pylist() == found[seed]
    assert found[1] != found[2]


def test_recall_of_the_proposals_is_kept_and_said(capsys):
    """Corners are inside. An overlap of exactly a half counts."""
    rows = drawn_phrases(50, SPLITS)
    write_whole(rows, SPLITS)
    *_, table = made_regions(count=20, splits=["train", "test"])
    told, proposed = capsys.readouterr().err, [row for row in table.to_pylist() if row["proposed"]]
    for split in ("train", "test"):
        hits = []
        for number, _, (x1, y1, x2, y2) in rows:
            if SPLITS[number] == split:
                of = [[row[name] for name in CORNERS] for row in proposed if row["source_id"] == number]
                overlaps = [overlap([x1, y1, x2 + 1, y2 + 1], [a1, b1, a2 + 1, b2 + 1]) for a1, b1, a2, b2 in of]
                hits.append(max(overlaps) >= 0.5)
        count, recall = sum(row["split"] == split for row in proposed), sum(hits) / len(hits)
        assert regions.recall(table)[split] == {"mentions": len(hits), "proposals": count, "recall": recall}
        assert f"{100 * recall:.2f} % of {len(hits)} mentions of {split} covered" in " ".join(told.split())
    assert regions.recall(table).keys() == {"train", "test"}
    assert 0 < regions.recall(table)["train"]["recall"] < 1
    box, half = np.array([[0.0, 0.0, 9.0, 9.0]]), np.array([[0.0, 0.0, 9.0, 4.0]])
    assert covered([box, box], [half, half - [0, 0, 0, 1]]).tolist() == [True, False]


def test_boxes_are_of_the_upright_picture_and_cut_at_its_edges():
    write_whole([(1, "a man", (0, 0, 39, 59)), (1, "the dog", (30.5, 50.2, 70, 90))], {1: "test"}, orientation=6)
    pictured, *_ = made_regions(count=1, splits=["val"])
    assert [cut(row["file"])[1] for row in pictured] == [(0, 0, 40, 60), (30, 50, 10, 10)]


def test_pictures_that_cannot_be_read(capsys):
    write_whole([(1, "a man", (0, 0, 9, 9)), (2, "the dog", (1, 1, 9, 9.5))], {1: "test", 2: "test"})
    table = images.read(SOURCE)
    for name in ("width", "height"):
        place = table.schema.get_field_index(name)
        sizes = pc.if_else(pc.equal(table["image_id"], 2), pa.scalar(0, pa.int32()), table[name])
        table = table.set_column(place, table.schema.field(name), sizes)
    images.write(SOURCE, table, str(SOURCE / "images"))
    rows = images.read(prepare("regions", SOURCE, count=5)).to_pylist()
    assert {row["file"].partition("#")[0] for row in rows} == {"p1.png"}
    assert "left out: the phrases of 1 pictures that cannot be read" in " ".join(capsys.readouterr().err.split())


def test_sources_that_hold_no_phrases():
    refused_regions("source data/prepare/whole does not exist", MissingResource)
    write_whole([(1, "a man", (0, 0, 9, 9))], {1: "test"})
    prepare("regions", SOURCE)
    (SOURCE / regions.PHRASES).unlink()
    Path("data/prepare/tiny").rename("data/prepare/other")
    refused_regions("data/prepare/whole has no phrases.parquet; the formats entities")
    with pytest.raises(InputError, match=r"data/prepare/other: holds regions already; name the data set that has"):
        prepare("regions", "data/prepare/other")
