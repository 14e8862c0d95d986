"""Scenes and their captions: figures inside and apart, near duplicates, captions true of their scene."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import data as naive
from vse_pipe.prepare import scene as words
from vse_pipe.prepare.formats.options import ShapesOptions
from vse_pipe.prepare.formats.shapes import sample_split
from vse_pipe.prepare.scene import Scene, describe, near_duplicate, sample_scene

SEEDS = st.integers(0, 2**32 - 1)
PARAMS = ShapesOptions(train=200, val=60, test=60)


def scene_of(seed: int) -> Scene:
    return sample_scene(np.random.default_rng(seed))


@given(SEEDS)
def test_figures_lie_inside_and_apart(seed):
    figures = scene_of(seed).figures
    assert 1 <= len(figures) <= 4
    for index, one in enumerate(figures):
        radius = words.RADII[one.size]
        assert radius <= one.x <= 1 - radius
        assert radius <= one.y <= 1 - radius
        for other in figures[:index]:
            assert naive.distance(one, other) >= radius + words.RADII[other.size] + words.MIN_GAP


@given(SEEDS, SEEDS)
def test_a_near_duplicate_changes_one_thing_and_still_fits(seed, change):
    scene = scene_of(seed)
    copy = near_duplicate(scene, np.random.default_rng(change))
    assert naive.changes(scene, copy) == 1
    assert words.fits(copy)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_share_of_near_duplicates_is_kept_and_all_scenes_differ(share):
    scenes = sample_split(PARAMS.model_copy(update={"near_duplicates": share}), "train", seed=1)
    copies = sum(any(naive.changes(scene, earlier) == 1 for earlier in scenes[:k]) for k, scene in enumerate(scenes))
    expected = share * (len(scenes) - 1)
    assert abs(copies - expected) <= 4 * math.sqrt(expected * (1 - share)) + 1e-9
    assert len(set(scenes)) == PARAMS.train


def test_splits_share_no_scene_and_do_not_depend_on_each_other():
    splits = {name: sample_split(PARAMS, name, seed=1) for name in PARAMS.counts()}
    layouts = {name: {tuple((f.x, f.y) for f in scene.figures) for scene in scenes} for name, scenes in splits.items()}
    assert len(set().union(*layouts.values())) > 0.6 * sum(len(set(scenes)) for scenes in splits.values())
    for one, other in itertools.combinations(layouts.values(), 2):
        assert one.isdisjoint(other)
    fewer = PARAMS.model_copy(update={"train": 7})
    assert sample_split(fewer, "val", seed=1) == splits["val"]
    assert sample_split(fewer, "train", seed=1) == splits["train"][:7]
    assert sample_split(PARAMS, "val", seed=2) != splits["val"]


@given(SEEDS, st.integers(1, 7))
def test_captions_are_true_and_different(seed, count):
    rng = np.random.default_rng(seed)
    scene = sample_scene(rng)
    found = describe(scene, count, 0.1, rng)
    assert len(found) == len(set(found)) == count
    for text in found:
        assert naive.true_of(text, scene), (text, scene)


@given(SEEDS)
def test_mentions_are_the_phrases_for_one_figure_and_name_the_right_one(seed):
    """The right one: the caption is true of its figures in the order in which it names them."""
    rng = np.random.default_rng(seed)
    scene = sample_scene(rng)
    for text, mentions in describe(scene, 20, 0.1, rng).items():
        assert [mention.text for mention in mentions] == [s.replace("-", " ") for s in naive.singular_phrases(text)]
        assert all(text[start:].startswith(phrase) for start, phrase, _ in mentions)
        assert [mention.start for mention in mentions] == sorted({mention.start for mention in mentions})
        named = [scene.figures[mention.figure] for mention in mentions]
        assert naive.true_in_order(text, named), (text, mentions)
        assert len(set(named)) == len(named)
