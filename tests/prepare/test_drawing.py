"""The whole data set: counts, tables, files, and the same bytes from the same seed wherever it is made."""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.naive import data as naive
from tests.prepare._data import prepare
from vse_pipe.artifacts import captions, images, regions
from vse_pipe.prepare.formats.options import ShapesOptions
from vse_pipe.prepare.formats.shapes import box, draw, render, sample_split
from vse_pipe.prepare.scene import Background, Figure, Scene, near_duplicate, sample_scene
from vse_pipe.project import paths

FEW = ShapesOptions(train=30, val=8, test=9, pixels=48)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "images").iterdir())}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shapes")
    source = render(folder, FEW, seed=1)
    return folder, source.images, source.captions


def scenes() -> list[Scene]:
    return [scene for split in FEW.counts() for scene in sample_split(FEW, split, seed=1)]


def test_captions_are_three_to_seven_and_true_of_their_image(made):
    _, image_table, caption_table = made
    drawn, counts = scenes(), Counter(caption_table["image_id"].to_pylist())
    for row in caption_table.to_pylist():
        assert naive.true_of(row["text"], drawn[row["image_id"] - 1])
        assert row["split"] == image_table["split"][row["image_id"] - 1].as_py()
    assert counts.keys() == set(image_table["image_id"].to_pylist())
    assert set(counts.values()) == {3, 4, 5, 6, 7}


def test_phrases_change_nothing_else_and_stand_in_their_captions(made, tmp_path):
    folder, image_table, caption_table = made
    source = render(tmp_path, FEW.model_copy(update={"phrases": True}), seed=1)
    assert content(tmp_path) == content(folder)
    assert (source.images, source.captions) == (image_table, caption_table)
    assert regions.box_problems(source.phrases, "phrase_id") == []
    drawn, described = scenes(), {row["caption_id"]: row for row in caption_table.to_pylist()}
    for row in source.phrases.to_pylist():
        caption, figure = described[row["caption_id"]], drawn[row["image_id"] - 1].figures[row["chain"] - 1]
        assert (row["image_id"], row["split"]) == (caption["image_id"], caption["split"])
        assert caption["text"][row["start"] :].startswith(row["text"])
        assert (row["type"], tuple(row[side] for side in ("x1", "y1", "x2", "y2"))) == (figure.shape, box(figure, 48))
    # All but those that name several figures.
    bare = set(described) - set(source.phrases["caption_id"].to_pylist())
    assert {naive.kind(described[number]["text"]) for number in bare} <= {"vague", "count"}


_ELSEWHERE = """
import sys
from pathlib import Path
from vse_pipe.prepare.formats.shapes import render
from vse_pipe.prepare.formats.options import ShapesOptions
from vse_pipe.project import paths
few = ShapesOptions(train=30, val=8, test=9, pixels=48)
print(*render(Path(sys.argv[1]), few, 1).captions['text'].to_pylist(), sep='\\n')
"""


def test_same_seed_same_bytes_in_another_process_locale_and_thread_count(made, tmp_path):
    folder, _, caption_table = made
    there = {**os.environ, "LC_ALL": "C", "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1", "TZ": "Asia/Tokyo"}
    command = [sys.executable, "-c", _ELSEWHERE, str(tmp_path)]
    done = subprocess.run(command, env=there, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == caption_table["text"].to_pylist()
    assert content(tmp_path) == content(folder)


WHITE = Background("plain", "white")
SIDE = 96


def pixels(*figures: Figure, background: Background = WHITE, side: int = SIDE) -> np.ndarray:
    return np.asarray(draw(Scene(figures, background), side))


@pytest.mark.parametrize("side", [32, 101])
def test_a_box_is_tight_around_the_pixels_that_show_a_figure(side):
    """Which those are: those that change with the figure's colour. Its shadow does not."""
    rng = np.random.default_rng(side)
    sampled = [sample_scene(rng) for _ in range(25)]
    for scene in [*sampled, *(near_duplicate(scene, rng) for scene in sampled)]:
        for index, figure in enumerate(scene.figures):
            figures, painted = list(scene.figures), []
            for figures[index] in (replace(figure, colour="black"), replace(figure, colour="yellow")):
                painted.append(pixels(*figures, background=scene.background, side=side))
            rows, columns = np.nonzero((painted[0] != painted[1]).any(axis=2))
            assert box(figure, side) == (columns.min(), rows.min(), columns.max(), rows.max()), figure


def prepared(seed: int = 1, phrases: bool = False) -> Path:
    few = {"train": 6, "val": 2, "test": 3, "pixels": 32, "min_captions": 1, "max_captions": 3}
    return prepare("shapes", "pipeline/vse_pipe/prepare/scene.py", seed=seed, phrases=phrases, **few)


def test_the_stage_names_the_folder_the_images_end_in_and_writes_phrases_where_asked_for(folder, capsys):
    plain = prepared()
    table, texts = images.read(plain), captions.read(plain)
    assert images.root(table) == paths.prepared("tiny") / "images"
    assert table.num_rows == 11
    for row in table.to_pylist():
        assert hashlib.sha256((images.root(table) / row["file"]).read_bytes()).hexdigest() == row["sha256"]
    assert "phrases" not in capsys.readouterr().err
    first = {path: path.read_bytes() for path in plain.rglob("*") if path.is_file()}
    assert captions.read(prepared(phrases=True)) == texts
    found = regions.read_phrases(plain)["split"].to_pylist()
    assert f"/ {found.count('train')} phrases, val 2 images" in capsys.readouterr().err
    prepared()
    assert {path: path.read_bytes() for path in plain.rglob("*") if path.is_file()} == first
    prepared(seed=2)
    assert {path: path.read_bytes() for path in plain.rglob("*") if path.is_file()} != first
