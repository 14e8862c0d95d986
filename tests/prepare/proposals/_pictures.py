"""Pictures that boxes are proposed for, and what holds for the proposals of every way."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vse_pipe.core.errors import InputError
from vse_pipe.pictures.images import Item
from vse_pipe.prepare.regions import Picture, Proposed, settled
from vse_pipe.project.registry import PROPOSALS


def seen(root: Path, name: str, pixels: np.ndarray, image_id: int = 7) -> Picture:
    Image.fromarray(pixels).save(root / name)
    return Picture(
        root, Item(image_id, name, "", f"images.parquet image_id {image_id}"), pixels.shape[1], pixels.shape[0]
    )


def blocks(width: int = 120, height: int = 80) -> np.ndarray:
    """Two plain rectangles on noise, at 10, 20 to 49, 59 and at 70, 30 to 99, 69."""
    pixels = np.random.default_rng(0).integers(90, 110, (height, width, 3), dtype=np.uint8)
    pixels[20:60, 10:50] = 250, 20, 20
    pixels[30:70, 70:100] = 20, 20, 250
    return pixels


def proposed(name: str, of: Picture, count: int, **options) -> Proposed:
    """Settled, and made twice: the same both times, as the contract of the family has it."""
    method, params = PROPOSALS.load(name), PROPOSALS.options(name)(**options)
    first, again = (settled(method.proposer(params, count, 1)(of), of, count) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        assert np.array_equal(one, other)
    boxes, scores = first
    assert 1 <= len(boxes) == len(scores) <= count
    assert (boxes == boxes.round()).all()
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 2:] >= boxes[:, :2]).all()
    assert (boxes[:, 2:] < (of.width, of.height)).all()
    assert len(np.unique(boxes, axis=0)) == len(boxes)
    assert (np.diff(scores) <= 0).all()
    return first


def refused(name: str, of: Picture, message: str, error: type[Exception] = InputError, **options) -> None:
    method, params = PROPOSALS.load(name), PROPOSALS.options(name)(**options)
    with pytest.raises(error) as caught:
        method.proposer(params, 100, 1)(of)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
