"""Batches of images as they are read, and through the network."""

import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.naive import extract as naive
from vse_pipe.core.errors import InputError, UnreadableImage
from vse_pipe.extract.backbones.options import FeatureParams
from vse_pipe.extract.compute import Forward, ReadBatch, batches, begun
from vse_pipe.extract.job import Output
from vse_pipe.pictures.images import Item

BATCH = np.array([[3.0, 4.0], [0.0, 0.0], [1e-3, -2.0]], dtype=np.float32)


def forward(module: nn.Module | None = None, **options) -> Forward:
    return Forward(module or nn.Identity(), FeatureParams(**options), torch.device("cpu"))


def test_unit_length_of_every_region_or_as_they_are() -> None:
    found = forward()(BATCH).features
    assert found == pytest.approx(np.array([naive.unit(row.tolist()) for row in BATCH]), abs=1e-7)
    assert np.array_equal(forward()(np.stack([BATCH, BATCH])).features[0], found)
    assert np.array_equal(forward(normalise=False)(BATCH).features, BATCH)


class Boxed(nn.Module):
    """Two arrays an image in, features and a box of the second out."""

    def forward(self, batch: Tensor, corner: Tensor) -> Output:
        return Output(2 * batch[:, None], corner[:, None].double())


def test_what_lies_beside_the_features_is_not_scaled_and_goes_with_its_image() -> None:
    batch, corners = np.ones((5, 2), np.float32), np.arange(20, dtype=np.float32).reshape(5, 4) + 0.1
    found = forward(Boxed(), store="float16")((batch, corners))
    assert (found.features.dtype, found.boxes.dtype, found.scores) == (np.float16, np.float32, None)
    assert np.array_equal(found.boxes, corners[:, None])


class Counted(nn.Module):
    passes = 0

    def forward(self, batch: Tensor) -> Tensor:
        self.passes += 1
        return batch + 1


@pytest.mark.parametrize("in_flight", [0, 1])
def test_a_gpu_begins_the_next_pass_before_the_results_of_one_are_read(in_flight: int) -> None:
    arrays = [np.full((2, 3), value, np.float32) for value in (0, 1)]
    stream = [ReadBatch(arrays[0], []), ReadBatch(None, [], {7: "broken"}), ReadBatch(arrays[1], [])]
    module, found, passes = Counted(), [], []
    for batch, results in begun(stream, forward(module, normalise=False), in_flight):
        found.append((batch.failures, None if results is None else results().features.tolist()))
        passes.append(module.passes)
    expected = [({}, (arrays[0] + 1).tolist()), ({7: "broken"}, None), ({}, (arrays[1] + 1).tolist())]
    assert found == expected
    assert passes == ([1, 2, 2] if in_flight else [1, 1, 2])


def items(start: int, stop: int) -> list[Item]:
    return [Item(number, f"{number}.png", "", f"row {number}") for number in range(start, stop)]


def number(item: Item) -> np.ndarray:
    return np.array([item.image_id])


WORK = [items(0, 5), items(5, 10), items(10, 12)]


def test_the_first_item_that_fails_is_named_and_the_threads_end() -> None:
    def failing(item: Item) -> np.ndarray:
        if item.image_id in (3, 6):
            raise InputError(f"{item.where}: broken")
        return number(item)

    before = threading.active_count()
    with pytest.raises(InputError, match="row 3: broken"):
        list(batches(WORK, failing, ahead=2))
    assert threading.active_count() == before


@pytest.mark.parametrize(("read", "message"), [
    (lambda item: np.zeros(2, np.int64) if item.image_id == 2 else number(item), r"int64 \(1,\)"),
    (lambda item: np.zeros(1, np.float32) if item.image_id == 2 else number(item), r"int64 \(1,\)"),
    (lambda item: (number(item), np.ones(2 + (item.image_id == 2), np.float32)), r"float32 \(2,\)"),
], ids=["shape", "type", "second array"])  # fmt: skip
def test_arrays_of_another_shape_or_type_are_refused(read: Callable, message: str) -> None:
    with pytest.raises(InputError, match=rf"row 2: .*, but image_id 0 has {message}"):
        list(batches([items(0, 5)], read, 0))


def test_images_that_cannot_be_read_leave_a_gap_and_not_a_row() -> None:
    def some(item: Item) -> np.ndarray:
        if item.image_id in (0, 3, 10, 11):
            raise UnreadableImage(item.file, f"is odd {item.image_id}")
        return number(item)

    first, second, third = batches(WORK, some, ahead=1)
    assert first.arrays[:, 0].tolist() == [1, 2, 4]
    assert [item.image_id for item in first.items] == [1, 2, 4]
    assert first.failures == {0: "is odd 0", 3: "is odd 3"}
    assert second.failures == {}
    assert (third.arrays, third.items, len(third.failures)) == (None, [], 2)
