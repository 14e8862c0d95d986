import errno

import numpy as np
import pytest
import torch

from vse_pipe.ranking import fragments as kept
from vse_pipe.ranking.fragments import ScoreMatrix, Words, per_row, spans
from vse_pipe.ranking.scores import Scores


def test_true_entries_of_each_row():
    mask = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])
    assert per_row(mask).tolist() == [2, 0, 3]
    assert per_row(mask.T).tolist() == [2, 1, 2]
    assert per_row(mask[:, :0]).tolist() == [0, 0, 0]


RNG = np.random.default_rng(1)


def _sides(images: int = 7, captions: int = 9) -> tuple[torch.Tensor, Words]:
    regions = torch.from_numpy(RNG.standard_normal((images, 2, 4)).astype(np.float32))
    lengths = torch.from_numpy(RNG.integers(1, 4, captions))
    words = torch.from_numpy(RNG.standard_normal((int(lengths.sum()), 4)).astype(np.float32))
    return regions, Words(words, lengths)


def _score(images: torch.Tensor, texts: Words) -> torch.Tensor:
    """The largest inner product of a region and a word."""
    each = torch.einsum("ird,wd->iwr", images, texts.vectors).amax(dim=2)
    return torch.stack([part.amax(dim=1) for part in each.split(texts.lengths.tolist(), dim=1)], dim=1)


@pytest.fixture
def tiles(monkeypatch):
    monkeypatch.setattr(kept, "_TILE", (3, 4))


def test_tiles_make_up_the_whole_and_are_computed_once(tiles):
    images, texts = _sides()
    calls = []

    def counted(a, b):
        calls.append((len(a), len(b)))
        return _score(a, b)

    scores = Scores.from_sides(images, texts, counted, block=2)
    assert not calls, "nothing is scored before it is asked for"
    expected = _score(images, texts)
    both = scores, scores.transposed()
    for found, wanted in zip(both, (expected, expected.T), strict=True):
        assert found.shape == tuple(wanted.shape)
        for _ in range(2):
            for rows, block in found.blocks():
                torch.testing.assert_close(block, wanted[rows])
    assert len(calls) == 9
    assert max(calls) <= (3, 4)


@pytest.mark.parametrize("memory", [0, 1])
def test_scores_beyond_the_memory_lie_in_a_file_and_are_the_same(memory, tiles, tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "_MIB", 100)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    maps = []
    real = np.memmap
    monkeypatch.setattr(np, "memmap", lambda *args, **kwargs: maps.append(args) or real(*args, **kwargs))
    images, texts = _sides()
    matrix = ScoreMatrix(images, texts, _score, memory).matrix
    torch.testing.assert_close(matrix, _score(images, texts))
    assert len(maps) == memory
    assert not list(tmp_path.iterdir()), "the file has no name that could be left behind"


def test_a_full_disk_is_an_error_before_anything_is_scored(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(kept.os, "posix_fallocate", full)
    images, texts = _sides(600, 500)
    with pytest.raises(OSError, match="No space left"):
        _ = ScoreMatrix(images, texts, lambda a, b: pytest.fail("scored"), memory=1).matrix


def test_ranges_are_joined_in_the_order_given():
    assert spans(np.array([4, 0, 9]), np.array([2, 3, 1])).tolist() == [4, 5, 0, 1, 2, 9]


def test_empty_ranges_leave_no_trace():
    assert spans(np.array([7, 3, 5]), np.array([0, 2, 0])).tolist() == [3, 4]
    assert spans(np.array([], np.int64), np.array([], np.int64)).tolist() == []
