"""Sides that similarities compare, portions of captions, and score matrices."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vse_pipe.ranking import scores as score_module
from vse_pipe.ranking.fragments import Several, Words, plain, pooled, take
from vse_pipe.ranking.scores import Scores, score_matrix

RNG = np.random.default_rng(0)


def _regions(n: int, regions: int = 3, dim: int = 4) -> torch.Tensor:
    return torch.from_numpy(RNG.standard_normal((n, regions, dim)).astype(np.float32))


def _words(lengths: list[int], dim: int = 4) -> Words:
    vectors = RNG.standard_normal((sum(lengths), dim)).astype(np.float32)
    return Words(torch.from_numpy(vectors), torch.tensor(lengths))


def _rows(side, place: int) -> list[torch.Tensor]:
    """The vectors of one image or caption, of each model."""
    if isinstance(side, Several):
        return [row for part in side.parts for row in _rows(part, place)]
    return [side[place : place + 1].vectors if isinstance(side, Words) else side[place]]


SIDES = {
    "vectors": lambda: torch.from_numpy(RNG.standard_normal((5, 4)).astype(np.float32)),
    "regions": lambda: _regions(5),
    "words": lambda: _words([2, 1, 4, 2, 3]),
    "several": lambda: Several((_regions(5, 2), _words([1, 2, 1, 3, 1], 3))),
}


@pytest.mark.parametrize("kind", SIDES)
@given(places=st.lists(st.integers(0, 4), max_size=6))
def test_what_is_taken_are_the_rows_asked_for(kind, places):
    side = SIDES[kind]()
    taken = take(side, torch.tensor(places, dtype=torch.int64))
    assert len(taken) == len(places)
    for row, place in enumerate(places):
        for got, wanted in zip(_rows(taken, row), _rows(side, place), strict=True):
            assert torch.equal(got, wanted)


@pytest.mark.parametrize("kind", SIDES)
def test_the_same_item_is_known_again_and_another_is_not(kind):
    side = SIDES[kind]()
    assert plain(side) == (kind == "vectors"), "only one vector each is plain"


@pytest.mark.parametrize("kind", ["regions", "words"])
def test_the_pooled_vector_is_the_direction_of_the_mean_fragment(kind):
    side = SIDES[kind]()
    for place, vector in enumerate(pooled(side)):
        mean = _rows(side, place)[0].numpy().mean(axis=0)
        np.testing.assert_allclose(vector.numpy(), mean / np.linalg.norm(mean), rtol=1e-5)


def test_vectors_are_their_own_pooled_vectors_and_those_of_several_models_give_the_mean_of_their_products():
    side = SIDES["vectors"]()
    assert pooled(side) is side
    one, other = _regions(4), _words([1, 2, 3, 1], 6)
    together = pooled(Several((one, other)))
    expected = (pooled(one) @ pooled(one).T + pooled(other) @ pooled(other).T) / 2
    torch.testing.assert_close(together @ together.T, expected)


def _sides(images: int = 7, captions: int = 9) -> tuple[torch.Tensor, Words]:
    return _regions(images, 2), _words(RNG.integers(1, 4, captions).tolist())


def _score(images: torch.Tensor, texts: Words) -> torch.Tensor:
    """The largest inner product of a region and a word."""
    each = torch.einsum("ird,wd->iwr", images, texts.vectors).amax(dim=2)
    return torch.stack([part.amax(dim=1) for part in each.split(texts.lengths.tolist(), dim=1)], dim=1)


@pytest.fixture
def tiles(monkeypatch):
    monkeypatch.setattr(score_module, "_TILE", (3, 4))


def test_tiles_make_up_the_whole_and_are_computed_once(tiles):
    images, texts = _sides()
    calls = []

    def counted(a, b):
        calls.append((len(a), len(b)))
        return _score(a, b)

    scores = Scores.from_sides(images, texts, counted)
    assert not calls, "nothing is scored before it is asked for"
    expected = _score(images, texts)
    for found, wanted in ((scores, expected), (scores.transposed(), expected.T)):
        assert found.shape == tuple(wanted.shape)
        for _ in range(2):
            for rows, block in found.blocks():
                torch.testing.assert_close(block, wanted[rows])
    assert len(calls) == 9
    assert max(calls) <= (3, 4)


@pytest.mark.parametrize("memory", [0, 1])
def test_scores_beyond_the_memory_lie_in_a_file_and_are_the_same(memory, tiles, tmp_path, monkeypatch):
    monkeypatch.setattr(score_module, "_MIB", 100)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    maps = []
    real = np.memmap
    monkeypatch.setattr(np, "memmap", lambda *args, **kwargs: maps.append(args) or real(*args, **kwargs))
    images, texts = _sides()
    matrix = score_matrix(images, texts, _score, memory)
    torch.testing.assert_close(matrix, _score(images, texts))
    assert len(maps) == memory
    assert not list(tmp_path.iterdir()), "the file has no name that could be left behind"
