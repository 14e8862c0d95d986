"""Drawing: the right colours in the right places, nothing outside a figure's circle, the same pixels every time."""

from dataclasses import replace

import numpy as np
import pytest

from vse_pipe.prepare.scenes.drawing import FIGURE_RGB, TINT_RGB, box, draw, outline
from vse_pipe.prepare.scenes.scene import (
    COLOURS,
    PATTERNS,
    RADII,
    SHAPES,
    TINTS,
    Background,
    Figure,
    Scene,
    near_duplicate,
    sample_scene,
)

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
@pytest.mark.parametrize("shape", SHAPES)
def test_a_figure_stays_inside_its_circle(shape, size):
    figure = Figure(shape, "blue", size, 0.5, 0.4, 12.0, 0.0)
    drawn = (pixels(figure) != TINT_RGB["white"]).any(axis=2)
    shadow = 0.014 * 2**0.5
    assert distances(figure)[drawn].max() <= RADII[size] + shadow + 1.5 / SIDE
    assert drawn.sum() > 0.2 * np.pi * (RADII[size] * SIDE) ** 2


@pytest.mark.parametrize("shape", SHAPES)
def test_outlines_touch_the_unit_circle_from_inside(shape):
    radii = np.hypot(*outline(shape).T)
    assert 0.89 <= radii.max() <= 1 + 1e-9


def test_shapes_look_different():
    images = [pixels(Figure(shape, "red", "large", 0.5, 0.5, 0.0, 0.0)) for shape in SHAPES]
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


@pytest.mark.parametrize("shape", SHAPES)
def test_a_box_ends_where_the_picture_does(shape):
    figure = Figure(shape, "red", "large", 1.0, 0.0, 0.0, 0.0)
    left, top, right, bottom = box(figure, SIDE)
    assert 0 == top < bottom < SIDE * 0.19
    assert SIDE * 0.8 < left < right == SIDE - 1


def _pixels_of(scene: Scene, index: int, colour: str, side: int) -> np.ndarray:
    figures = list(scene.figures)
    figures[index] = replace(figures[index], colour=colour)
    return pixels(*figures, background=scene.background, side=side)
