"""The whole data set: counts, tables, files, and the same bytes from the same seed wherever it is made."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from pydantic import ValidationError

from tests.naive import scenes as naive
from vse_pipe.artifacts import captions, images, regions
from vse_pipe.prepare.formats.options import ShapesParams
from vse_pipe.prepare.scenes.drawing import box, render, sample_split

FEW = ShapesParams(train=30, val=8, test=9, pixels=48)
_ELSEWHERE = """
import sys
from pathlib import Path
from vse_pipe.prepare.scenes.drawing import render
from vse_pipe.prepare.formats.options import ShapesParams
captions = render(Path(sys.argv[1]), ShapesParams(train=30, val=8, test=9, pixels=48), 1).captions
"""


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "images").iterdir())}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shapes")
    source = render(folder, FEW, seed=1)
    return folder, source.images, source.captions


def test_tables_are_what_the_stage_writes(made):
    _, image_table, caption_table = made
    assert image_table.schema.equals(images.SCHEMA)
    assert caption_table.schema.equals(captions.SCHEMA)
    assert images.problems(image_table) == []
    assert captions.problems(caption_table) == []
    assert image_table["image_id"].to_pylist() == list(range(1, 48))
    assert image_table["split"].to_pylist() == ["train"] * 30 + ["val"] * 8 + ["test"] * 9


def test_every_image_decodes_to_what_its_row_says(made):
    folder, image_table, _ = made
    rows = image_table.to_pylist()
    assert {row["file"] for row in rows} == set(content(folder))
    for row in rows:
        path = folder / "images" / row["file"]
        assert hashlib.sha256(path.read_bytes()).hexdigest() == row["sha256"]
        with Image.open(path) as image:
            image.load()
            assert (image.format, image.mode, image.size) == ("PNG", "RGB", (48, 48))
            assert (row["width"], row["height"]) == image.size


def test_captions_are_three_to_seven_and_true_of_their_image(made):
    _, image_table, caption_table = made
    scenes = [scene for split in FEW.counts() for scene in sample_split(FEW, split, seed=1)]
    counts = dict.fromkeys(image_table["image_id"].to_pylist(), 0)
    for row in caption_table.to_pylist():
        assert naive.true_of(row["text"], scenes[row["image_id"] - 1])
        assert row["split"] == image_table["split"][row["image_id"] - 1].as_py()
        counts[row["image_id"]] += 1
    assert set(counts.values()) == {3, 4, 5, 6, 7}


def test_phrases_change_nothing_else_and_stand_in_their_captions(made, tmp_path):
    folder, image_table, caption_table = made
    source = render(tmp_path, FEW.model_copy(update={"phrases": True}), seed=1)
    assert content(tmp_path) == content(folder)
    assert (source.images, source.captions) == (image_table, caption_table)
    assert regions.phrase_problems(source.phrases) == []
    scenes = [scene for split in FEW.counts() for scene in sample_split(FEW, split, seed=1)]
    described = {row["caption_id"]: row for row in caption_table.to_pylist()}
    for row in source.phrases.to_pylist():
        caption, figure = described[row["caption_id"]], scenes[row["image_id"] - 1].figures[row["chain"] - 1]
        assert (row["image_id"], row["split"]) == (caption["image_id"], caption["split"])
        assert caption["text"][row["start"] :].startswith(row["text"])
        assert (row["type"], tuple(row[side] for side in ("x1", "y1", "x2", "y2"))) == (figure.shape, box(figure, 48))
    # All but those that name several figures.
    bare = set(described) - set(source.phrases["caption_id"].to_pylist())
    assert {naive.kind(described[number]["text"]) for number in bare} <= {"vague", "count"}


def test_another_seed_makes_another_data_set(made, tmp_path):
    folder, image_table, caption_table = made
    other = render(tmp_path, FEW, seed=2)
    assert set(other.images["sha256"].to_pylist()).isdisjoint(image_table["sha256"].to_pylist())
    assert other.captions["text"].to_pylist() != caption_table["text"].to_pylist()
    assert content(tmp_path) != content(folder)


def test_same_seed_same_bytes_in_another_process_locale_and_thread_count(made, tmp_path):
    folder, _, caption_table = made
    code = _ELSEWHERE + "print(*captions['text'].to_pylist(), sep='\\n')"
    there = {**os.environ, "LC_ALL": "C", "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1", "TZ": "Asia/Tokyo"}
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=root, env=there, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == caption_table["text"].to_pylist()
    assert content(tmp_path) == content(folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train": 0}, "greater than 0"),
        ({"pixels": 8}, "greater than or equal to 32"),
        ({"min_captions": 0}, "greater than or equal to 1"),
        ({"max_captions": 8}, "less than or equal to 7"),
        ({"min_captions": 5, "max_captions": 4}, "min_captions 5 is above max_captions 4"),
        ({"vague": 1.5}, "less than or equal to 1"),
        ({"near_duplicates": -0.1}, "greater than or equal to 0"),
        ({"sides": 3}, "Extra inputs are not permitted"),
    ],
)
def test_refuses(options, message):
    with pytest.raises(ValidationError, match=message):
        ShapesParams(**options)


def test_the_demo_sizes():
    assert ShapesParams().counts() == {"train": 1000, "val": 200, "test": 200}
