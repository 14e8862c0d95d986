"""The whole data set: counts, tables, files, and the same bytes from the same seed wherever it is made."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from tests.naive import data as naive
from vse_pipe.artifacts import captions, images, regions
from vse_pipe.prepare.formats.options import ShapesOptions
from vse_pipe.prepare.scenes.drawing import FIGURE_RGB, TINT_RGB, box, draw, outline, render, sample_split
from vse_pipe.prepare.scenes.scene import (
    COLOURS,
    NOUNS,
    PATTERNS,
    RADII,
    TINTS,
    Background,
    Figure,
    Scene,
    near_duplicate,
    sample_scene,
)

FEW = ShapesOptions(train=30, val=8, test=9, pixels=48)
_ELSEWHERE = """
import sys
from pathlib import Path
from vse_pipe.prepare.scenes.drawing import render
from vse_pipe.prepare.formats.options import ShapesOptions
captions = render(Path(sys.argv[1]), ShapesOptions(train=30, val=8, test=9, pixels=48), 1).captions
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


@pytest.mark.parametrize(("options", "message"), [
    ({"train": 0}, "greater than 0"),
    ({"pixels": 8}, "greater than or equal to 32"),
    ({"min_captions": 0}, "greater than or equal to 1"),
    ({"max_captions": 8}, "less than or equal to 7"),
    ({"min_captions": 5, "max_captions": 4}, "min_captions 5 is above max_captions 4"),
    ({"vague": 1.5}, "less than or equal to 1"),
    ({"near_duplicates": -0.1}, "greater than or equal to 0"),
    ({"sides": 3}, "Extra inputs are not permitted"),
])  # fmt: skip
def test_refuses(options, message):
    with pytest.raises(ValidationError, match=message):
        ShapesOptions(**options)


def test_the_demo_sizes():
    assert ShapesOptions().counts() == {"train": 1000, "val": 200, "test": 200}


WHITE = Background("plain", "white")
SIDE = 96


def pixels(*figures: Figure, background: Background = WHITE, side: int = SIDE) -> np.ndarray:
    return np.asarray(draw(Scene(figures, background), side))


def distances(figure: Figure) -> np.ndarray:
    """(SIDE, SIDE): how far each pixel's centre is from the figure's, in fractions of the side."""
    centres = (np.arange(SIDE) + 0.5) / SIDE
    return np.hypot(centres[None, :] - figure.x, centres[:, None] - figure.y)


@pytest.mark.parametrize("colour", COLOURS)
def test_a_figure_has_its_colour_at_its_centre(colour):
    image = pixels(Figure("square", colour, "large", 0.25, 0.75, 10.0, 0.0))
    assert tuple(image[72, 24]) == FIGURE_RGB[colour]
    assert tuple(image[24, 72]) == TINT_RGB["white"]


@pytest.mark.parametrize("size", RADII)
@pytest.mark.parametrize("shape", NOUNS)
def test_a_figure_stays_inside_its_circle(shape, size):
    figure = Figure(shape, "blue", size, 0.5, 0.4, 12.0, 0.0)
    drawn = (pixels(figure) != TINT_RGB["white"]).any(axis=2)
    shadow = 0.014 * 2**0.5
    assert distances(figure)[drawn].max() <= RADII[size] + shadow + 1.5 / SIDE
    assert drawn.sum() > 0.2 * np.pi * (RADII[size] * SIDE) ** 2


@pytest.mark.parametrize("shape", NOUNS)
def test_outlines_touch_the_unit_circle_from_inside(shape):
    radii = np.hypot(*outline(shape).T)
    assert 0.89 <= radii.max() <= 1 + 1e-9


def test_shapes_look_different():
    images = [pixels(Figure(shape, "red", "large", 0.5, 0.5, 0.0, 0.0)) for shape in NOUNS]
    for index, one in enumerate(images):
        for other in images[:index]:
            assert (one != other).any(axis=2).sum() > 100


def test_a_ring_shows_the_background_through_its_hole():
    assert tuple(pixels(Figure("ring", "black", "large", 0.5, 0.5, 0.0, 0.0))[48, 48]) == TINT_RGB["white"]


def test_shade_darkens_and_lightens_within_eight_bits():
    shades = [
        pixels(Figure("square", "yellow", "large", 0.5, 0.5, 0.0, shade))[48, 48].astype(int) for shade in (-1, 0, 1)
    ]
    assert (shades[0] < shades[1]).all()
    assert (shades[1] <= shades[2]).all()
    assert shades[2].max() == 255


def test_backgrounds_look_different():
    images = {(p, t): pixels(background=Background(p, t)) for p in PATTERNS for t in TINTS}
    assert len({image.tobytes() for image in images.values()}) == len(PATTERNS) * len(TINTS)
    for (pattern, tint), image in images.items():
        inked = (image != TINT_RGB[tint]).any(axis=2).mean()
        assert (inked == 0) == (pattern == "plain")


def test_edges_are_smooth():
    image = pixels(Figure("circle", "black", "large", 0.5, 0.5, 0.0, 0.0))
    assert len(np.unique(image[:, :, 0])) > 10


@pytest.mark.parametrize("side", [32, 100])
def test_size(side):
    assert pixels(side=side).shape == (side, side, 3)


def test_drawing_leaves_the_shared_background_alone():
    empty = pixels(background=Background("dotted", "pink"))
    pixels(Figure("heart", "red", "large", 0.5, 0.5, 0.0, 0.0), background=Background("dotted", "pink"))
    assert np.array_equal(pixels(background=Background("dotted", "pink")), empty)


def test_what_lies_elsewhere_does_not_change_a_figure():
    scene = sample_scene(np.random.default_rng(3))
    moved = replace(scene, figures=scene.figures[:1])
    near = distances(scene.figures[0]) < scene.figures[0].radius
    assert np.array_equal(np.asarray(draw(scene, SIDE))[near], np.asarray(draw(moved, SIDE))[near])


@pytest.mark.parametrize("side", [32, 101])
def test_a_box_is_tight_around_the_pixels_that_show_a_figure(side):
    """Which those are: those that change with the figure's colour. Its shadow does not."""
    rng = np.random.default_rng(side)
    scenes = [sample_scene(rng) for _ in range(40)]
    for scene in [*scenes, *(near_duplicate(scene, rng) for scene in scenes)]:
        for index, figure in enumerate(scene.figures):
            painted = [_pixels_of(scene, index, colour, side) for colour in ("black", "yellow")]
            rows, columns = np.nonzero((painted[0] != painted[1]).any(axis=2))
            assert box(figure, side) == (columns.min(), rows.min(), columns.max(), rows.max()), figure


@pytest.mark.parametrize("shape", NOUNS)
def test_a_box_ends_where_the_picture_does(shape):
    figure = Figure(shape, "red", "large", 1.0, 0.0, 0.0, 0.0)
    left, top, right, bottom = box(figure, SIDE)
    assert 0 == top < bottom < SIDE * 0.19
    assert SIDE * 0.8 < left < right == SIDE - 1


def _pixels_of(scene: Scene, index: int, colour: str, side: int) -> np.ndarray:
    figures = list(scene.figures)
    figures[index] = replace(figures[index], colour=colour)
    return pixels(*figures, background=scene.background, side=side)
