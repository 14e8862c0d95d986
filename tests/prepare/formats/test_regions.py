"""Regions of a data set with phrases: which rows, which boxes, which captions; against plain loops."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from pipeline.artifacts import captions, images, phrases, regions
from pipeline.core.errors import InputError, IntegrityError, MissingResource, ParamsError
from pipeline.core.files import sha256
from pipeline.pictures.address import cut
from pipeline.prepare.check import problems
from pipeline.prepare.engine.regions.recall import covered
from pipeline.project.nodes import nodes
from pipeline.project.params.document import read_document
from pipeline.project.step import waiting
from pipeline.tools.check import dvc_yaml
from tests.naive.regions import overlap
from tests.prepare._data import prepare
from tests.rules.sources import ROOT
from tests.toy_project import load_params

SOURCE = Path("data/prepare/whole")
WIDTH, HEIGHT = 60, 40
ORIENTATION = 0x0112
WORDS = ["a man", "the dog", "a red ball", "grass"]


@pytest.fixture(autouse=True)
def _own_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(rows: list[tuple], splits: dict[int, str], orientation: int = 1) -> None:
    """rows: image_id, text, box; one picture for each key of ``splits``."""
    (SOURCE / "images").mkdir(parents=True, exist_ok=True)
    pictured = []
    for number, split in splits.items():
        pixels = np.random.default_rng(number).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        path = SOURCE / "images" / f"p{number}.png"
        Image.fromarray(pixels).save(path, exif=exif)
        pictured.append((number, path.name, split, WIDTH, HEIGHT, sha256(path)))
    images.write(SOURCE, _table(images.SCHEMA, pictured), str(SOURCE / "images"))
    said = [(n, f"{text}.", splits.get(n, "test")) for n, text, _ in rows]
    captions.write(SOURCE, _table(captions.SCHEMA, [(900 + k, *row) for k, row in enumerate(said)]))
    spoken = [
        (500 + k, 900 + k, n, k, 0, text, "thing", *map(float, box), splits.get(n, "test"))
        for k, (n, text, box) in enumerate(rows)
    ]
    phrases.write(SOURCE, _table(phrases.SCHEMA, spoken))


def _table(schema: pa.Schema, rows: list[tuple]) -> pa.Table:
    return pa.table(list(map(list, zip(*rows, strict=True))), schema=schema)


def drawn(count: int, splits: dict[int, str]) -> list[tuple]:
    """Few boxes and few words, so that both come again."""
    rng = np.random.default_rng(3)
    boxes = [(0, 0, 9, 9), (5, 5, 30, 39), (2.5, 3.2, 20.1, 30), (40, 10, 59, 20)]
    picked = zip(rng.choice(list(splits), count), rng.integers(0, 4, count), rng.integers(0, 4, count), strict=True)
    return [(int(n), WORDS[word], boxes[box]) for n, word, box in picked]


def made(**options) -> tuple[list[dict], list[dict], list[dict], pa.Table]:
    out = prepare("regions", SOURCE, **options)
    table = regions.read(out)
    return *(one.read(out).to_pylist() for one in (images, captions, phrases)), table


SPLITS = {3: "train", 9: "test", 4: "train", 7: "val", 1: "train"}


def test_every_row_by_plain_loops():
    rows = drawn(60, SPLITS)
    write(rows, SPLITS)
    pictured, said, spoken, table = made(count=6, regions_per_phrase=99, splits=["test"])
    source = phrases.read(SOURCE).to_pylist()
    expected, owner, seen = [], {}, set()
    for number, split in SPLITS.items():
        of = [row for row in source if row["image_id"] == number]
        for row in of:
            box = (int(row["x1"] // 1), int(row["y1"] // 1), int(-(-row["x2"] // 1)), int(-(-row["y2"] // 1)))
            if (number, box) not in owner:
                owner[number, box] = len(expected)
                expected.append((number, split, False, box))
            if split != "train" or (number, box, row["text"]) not in seen:
                seen.add((number, box, row["text"]))
                row["region"] = owner[number, box]
        if split == "test":
            expected += [(number, "proposal", True, None)] * 6
    assert len(pictured) == len(expected) == table.num_rows
    for k, (row, region, (number, split, proposed, box)) in enumerate(
        zip(pictured, table.to_pylist(), expected, strict=True)
    ):
        whole, found = cut(row["file"])
        corners = (found.left, found.top, found.left + found.width - 1, found.top + found.height - 1)
        assert (row["image_id"], whole, row["split"]) == (k, f"p{number}.png", split)
        assert (row["width"], row["height"]) == (found.width, found.height)
        assert row["sha256"] == sha256(SOURCE / "images" / whole)
        assert (region["image_id"], region["source_id"], region["proposed"]) == (k, number, proposed)
        assert region["split"] == SPLITS[number]
        assert tuple(region[name] for name in ("x1", "y1", "x2", "y2")) == corners
        assert proposed or corners == box
    kept = [row for row in source if "region" in row]
    assert [(row["caption_id"], row["image_id"], row["text"], row["split"]) for row in said] == [
        (row["phrase_id"], row["region"], row["text"], row["split"]) for row in kept
    ]
    assert [row["phrase_id"] for row in spoken] == [row["phrase_id"] for row in kept]
    assert spoken == [{key: value for key, value in row.items() if key != "region"} for row in kept]
    assert images.root(images.read(Path("data/prepare/tiny"))) == SOURCE / "images"
    assert regions.source(table) == SOURCE


def test_of_one_phrase_so_many_regions_drawn_by_the_seed():
    splits = dict.fromkeys(range(40), "train") | {99: "val"}
    spoken = [(n, text if n % 2 else text.capitalize(), (n, 1, 50, 30)) for n in range(40) for text in WORDS]
    write(spoken + [(99, "a man", (0, 0, 9, 9))] * 30, splits)
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
    rows = drawn(50, SPLITS)
    write(rows, SPLITS)
    *_, table = made(count=20, splits=["train", "test"])
    listed = table.to_pylist()
    expected = {}
    for split in ("train", "test"):
        hits = []
        for number, _, box in rows:
            if SPLITS[number] == split:
                of = [row for row in listed if row["proposed"] and row["source_id"] == number]
                overlaps = [
                    overlap(_edges(box), _edges([row[name] for name in ("x1", "y1", "x2", "y2")])) for row in of
                ]
                hits.append(max(overlaps) >= 0.5)
        count = sum(row["proposed"] and row["split"] == split for row in listed)
        expected[split] = {"mentions": len(hits), "proposals": count, "recall": sum(hits) / len(hits)}
    assert regions.recall(table) == expected
    assert 0 < expected["train"]["recall"] < 1
    told = capsys.readouterr().err
    for split, of in expected.items():
        line = (
            f"recall of the proposals at IoU 0.5 over {of['mentions']} mentions of {split}: {100 * of['recall']:.2f} %"
        )
        assert line in told


def _edges(corners) -> list[float]:
    """Both corners are inside."""
    return [*corners[:2], corners[2] + 1, corners[3] + 1]


def test_recall_counts_an_overlap_of_exactly_a_half():
    box = np.array([[0.0, 0.0, 9.0, 9.0]])
    assert covered([box, box], [np.array([[0.0, 0.0, 9.0, 4.0]]), np.array([[0.0, 0.0, 9.0, 3.0]])]).tolist() == [
        True,
        False,
    ]


def test_boxes_are_of_the_upright_picture_and_cut_at_its_edges():
    write([(1, "a man", (0, 0, 39, 59)), (1, "the dog", (30.5, 50.2, 70, 90))], {1: "test"}, orientation=6)
    pictured, *_ = made(count=1, splits=["val"])
    assert [cut(row["file"])[1] for row in pictured] == [(0, 0, 40, 60), (30, 50, 10, 10)]


@pytest.mark.parametrize(
    ("rows", "splits", "message"),
    [
        (
            [(1, "a man", (60, 0, 70, 9)), (1, "a man", (0, 40, 3, 44))],
            {1: "test"},
            "phrase_id 500: its box 60, 0, 70, 9 lies outside the picture of 60 x 40 pixels (and 1 more)",
        ),
        ([(2, "a man", (0, 0, 3, 3))], {1: "test"}, "phrase_id 500: 2 is no image_id of images.parquet"),
    ],
)
def test_phrases_that_do_not_fit_their_pictures(rows, splits, message):
    write(rows, splits)
    refused(message)


def refused(message: str, error: type[Exception] = InputError, **options) -> None:
    with pytest.raises(error) as caught:
        prepare("regions", SOURCE, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not Path("data/prepare/tiny").exists()


def test_sources_that_hold_no_phrases():
    refused("source data/prepare/whole does not exist", MissingResource)
    write([(1, "a man", (0, 0, 9, 9))], {1: "test"})
    prepare("regions", SOURCE)
    (SOURCE / phrases.NAME).unlink()
    Path("data/prepare/tiny").rename("data/prepare/other")
    refused("data/prepare/whole has no phrases.parquet: its format gives no boxes of phrases")
    with pytest.raises(InputError, match=r"data/prepare/other: holds regions already; name the data set that has"):
        prepare("regions", "data/prepare/other")


def test_a_picture_that_changed_since():
    write([(1, "a man", (0, 0, 9, 9))], {1: "test"})
    Image.new("RGB", (WIDTH, HEIGHT)).save(SOURCE / "images" / "p1.png")
    refused("the file changed after prepare read it", IntegrityError)


def test_pictures_that_cannot_be_read():
    write([(1, "a man", (0, 0, 9, 9)), (2, "the dog", (1, 1, 9, 9.5))], {1: "test", 2: "test"})
    (SOURCE / "images" / "p2.png").unlink()
    where = "data/prepare/whole/images.parquet image_id 2: p2.png#xywh=1,1,9,10 does not exist"
    refused(f"1 of 7 images below data/prepare/whole/images cannot be used: {where}", count=5)
    out = prepare("regions", SOURCE, on_error="skip", count=5)
    rows = images.read(out).to_pylist()
    assert [row["file"] for row in rows if not row["width"]] == ["p2.png#xywh=1,1,9,10"]
    assert sum(row["split"] == "proposal" for row in rows) == 5


def test_the_check_compares_boxes_with_pictures_row_by_row(tmp_path):
    node = {"format": "regions", "source": str(SOURCE)}
    write([(1, "a man", (0, 0, 9, 9)), (1, "the dog", (3, 3, 9, 9))], {1: "test"})
    prepare("regions", SOURCE, count=2).rename("data/prepare/toy")
    params = load_params(tmp_path, datasets={"toy": node})
    checked = next(one for one in nodes(params) if one.group == "prepare")
    assert problems(params, checked) == []
    table = regions.read(checked.out)
    regions.write(checked.out, table.take([1, 0, 2, 3]), str(SOURCE))
    assert [one.what for one in problems(params, checked)] == [
        "its image_ids are not those of data/prepare/toy/images.parquet, row by row"
    ]


def test_a_file_of_boxes_is_missed_before_anything_runs(tmp_path):
    write([(1, "a man", (0, 0, 9, 9))], {1: "test"})
    node = {"format": "regions", "source": str(SOURCE), "proposals": "file", "options": {"path": "edges.csv"}}
    params = load_params(tmp_path, datasets={"toy": node})
    assert waiting(params, "prepare", "toy").because == "edges.csv does not exist yet"
    shutil.copy(ROOT / "dvc.yaml", "dvc.yaml")
    told = "params.yaml datasets.toy: edges.csv does not exist; put it there or correct its path"
    assert told in [one.line for one in dvc_yaml.problems(params, read_document(tmp_path / "params.yaml"))]
    Path("edges.csv").write_text("image,x1,y1,x2,y2\np1,0,0,9,9\n")
    assert waiting(params, "prepare", "toy") is None
    assert told not in [one.line for one in dvc_yaml.problems(params, read_document(tmp_path / "params.yaml"))]


def test_params_name_the_proposals_and_their_options(tmp_path):
    node = {"format": "regions", "source": "data/prepare/whole"}
    assert load_params(tmp_path, datasets={"toy": node | {"options": {"scales": [0.5]}}})
    for given, message in [
        (
            {"proposals": "window"},
            "datasets.toy.proposals: unknown proposals 'window'; did you mean 'windows'? known: ",
        ),
        ({"options": {"scale": [0.5]}}, "datasets.toy.options.scale: unknown key; did you mean 'scales'?"),
        ({"options": {"scales": [2.0]}}, "datasets.toy.options.scales.0: input should be less than or equal to 1"),
        ({"count": 0}, "datasets.toy.count: input should be greater than 0"),
        ({"splits": ["tset"]}, "datasets.toy.splits.0: "),
    ]:
        with pytest.raises(ParamsError) as caught:
            load_params(tmp_path, datasets={"toy": node | given})
        assert message in str(caught.value)
