"""Captions: true of their scene, varied, some of them vague."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import data as naive
from vse_pipe.prepare.scenes import scene as scenes_captions
from vse_pipe.prepare.scenes.scene import Background, Figure, Scene, describe, sample_scene

SEEDS = st.integers(0, 2**32 - 1)
RED_STAR = Figure("star", "red", "small", 0.2, 0.2, 0.0, 0.0)
BLUE_RING = Figure("ring", "blue", "large", 0.7, 0.6, 0.0, 0.0)
SCENE = Scene((RED_STAR, BLUE_RING), Background("striped", "mint"))


def captions(seeds: range, vague: float = 0.1) -> list[str]:
    found = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        found += describe(sample_scene(rng), 7, vague, rng)
    return found


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


@pytest.mark.parametrize(("caption", "expected"), [
    ("a small red star to the left of a blue hoop on a striped background", True),
    ("a small red star to the right of a blue hoop", False),
    ("there is a red star next to a ring", False),
    ("a blue star", False),
    ("a large star", False),
    ("a red star and a red star", False),
    ("a picture of a ring and a star on a diagonally striped pale green backdrop", True),
    ("a ring on a dotted background", False),
    ("a ring on a striped pink background", False),
    ("we see a tiny star in the top left corner", True),
    ("a tiny star at the bottom", False),
    ("a star in the centre", False),
    ("one hoop and one star", True),
    ("one hoop", False),
    ("two hoops", False),
    ("two shapes on a striped background", True),
    ("three shapes on a striped background", False),
    ("a single shape on a striped background", False),
])  # fmt: skip
def test_the_checker_tells_true_from_false(caption, expected):
    assert naive.true_of(caption, SCENE) is expected


@given(SEEDS)
def test_captions_of_a_recoloured_scene_become_false(seed):
    """Hard negatives are hard, not impossible: of many captions some tell a scene from its near duplicate."""
    rng = np.random.default_rng(seed)
    scene = sample_scene(rng)
    first = scene.figures[0]
    other = replace(first, colour="red" if first.colour != "red" else "blue")
    recoloured = replace(scene, figures=(other, *scene.figures[1:]))
    truths = [naive.true_of(text, recoloured) for text in describe(scene, 30, 0.2, rng)]
    assert not all(truths)
    assert any(truths)


def test_every_kind_of_caption_occurs():
    kinds = Counter(naive.kind(text) for text in captions(range(100)))
    assert set(kinds) == {"vague", "count", "relation", "place", "list"}
    assert min(kinds.values()) >= 0.05 * sum(kinds.values())


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_share_of_vague_captions(share):
    found = captions(range(100), vague=share)
    assert naive.kind("some shapes on a pink background") == "vague"
    # Vague captions repeat more often and repetitions are drawn again, so the share comes out a little lower.
    assert sum(naive.kind(text) == "vague" for text in found) / len(found) == pytest.approx(share, abs=0.06)


def test_every_word_is_used():
    text = " ".join(f" {caption} " for caption in captions(range(600)))
    tables = [
        scenes_captions.NOUNS,
        scenes_captions.COLOURS,
        scenes_captions.SIZES,
        scenes_captions.PATTERNS,
        scenes_captions.TINTS,
        scenes_captions.PLACES,
        scenes_captions.RELATIONS,
    ]
    missing = [word for table in tables for synonyms in table.values() for word in synonyms if f" {word} " not in text]
    assert missing == []
    assert re.search(r"on a (dotted|polka dot) (grey|silver) backdrop", text), "pattern and tint together"


def test_an_article_fits_the_sound_that_follows():
    text = " ".join(f" {caption} " for caption in captions(range(300)))
    assert " an orange " in text
    assert " a uniform " in text
    assert " a orange " not in text
    assert " an uniform " not in text
