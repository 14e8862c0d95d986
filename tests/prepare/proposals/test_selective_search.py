"""Selective search: boxes around what stands out, the same in any order of the pictures, and a clear line without OpenCV."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.naive.data import overlap
from tests.prepare.proposals._pictures import blocks, proposed, refused, seen
from vse_pipe.core.errors import MissingResource
from vse_pipe.prepare.proposals.options import SelectiveSearchOptions as Params
from vse_pipe.prepare.proposals.selective_search import proposer


def test_it_is_missing_in_one_line_that_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    of = seen(tmp_path, "a.png", blocks())
    refused("selective_search", of, "pip install 'vse-pipe[proposals]'", MissingResource)


@pytest.fixture
def _opencv():
    pytest.importorskip("cv2.ximgproc", reason="needs the extra proposals")


@pytest.mark.usefixtures("_opencv")
@pytest.mark.parametrize("longer", [500, 60])
def test_blocks_are_found(tmp_path: Path, longer: int):
    boxes, scores = proposed("selective_search", seen(tmp_path, "a.png", blocks()), 100, longer=longer)
    assert (scores > 0).all()
    for block in ([10, 20, 50, 60], [70, 30, 100, 70]):
        assert max(overlap(block, [x1, y1, x2 + 1, y2 + 1]) for x1, y1, x2, y2 in boxes) > 0.8


@pytest.mark.usefixtures("_opencv")
def test_threads_and_neighbours_change_nothing(tmp_path: Path):
    pictures = [seen(tmp_path, f"{k}.png", np.roll(blocks(), 7 * k, axis=1)) for k in range(4)]
    search = proposer(Params(), 100, 5)
    alone = [search(one) for one in pictures]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(search, pictures[::-1]))[::-1]
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one.boxes, other.boxes)


@pytest.mark.usefixtures("_opencv")
@pytest.mark.parametrize("size", [(1, 1), (1, 40), (3, 2)])
def test_pictures_of_a_few_pixels(tmp_path: Path, size: tuple[int, int]):
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    proposed("selective_search", seen(tmp_path, "a.png", pixels), 10)
