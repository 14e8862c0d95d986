"""Batches from threads: order, bounds, errors."""

import threading

import numpy as np
import pytest

from vse_pipe.core.errors import InputError, UnreadableImage
from vse_pipe.extract.compute import batches
from vse_pipe.pictures.images import Item


def items(start: int, stop: int) -> list[Item]:
    return [Item(number, f"{number}.png", "", f"row {number}") for number in range(start, stop)]


def number(item: Item) -> np.ndarray:
    return np.array([item.image_id])


WORK = [items(0, 5), items(5, 10), items(10, 12)]


@pytest.mark.parametrize("ahead", [0, 1, 9])
@pytest.mark.parametrize("workers", [1, 2, 7])
def test_order(ahead: int, workers: int) -> None:
    found = [batch.arrays[:, 0].tolist() for batch in batches(WORK, number, ahead, workers)]
    assert found == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]


@pytest.mark.parametrize(("ahead", "most"), [(0, 5), (1, 10)])
def test_no_more_is_read_than_asked_for(ahead: int, most: int) -> None:
    read = []
    reading = batches(WORK, lambda item: read.append(item) or number(item), ahead, workers=1)
    next(reading)
    reading.close()
    assert len(read) <= most


def test_the_first_item_that_fails_is_named_and_the_threads_end() -> None:
    def failing(item: Item) -> np.ndarray:
        if item.image_id in (3, 6):
            raise InputError(f"{item.where}: broken")
        return number(item)

    before = threading.active_count()
    with pytest.raises(InputError, match="row 3: broken"):
        list(batches(WORK, failing, ahead=2, workers=3))
    assert threading.active_count() == before


@pytest.mark.parametrize("odd", [np.zeros(2, dtype=np.int64), np.zeros(1, dtype=np.float32)])
def test_arrays_of_another_shape_or_type_are_refused(odd: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"row 2: .*, but image_id 0 has int64 \(1,\)"):
        list(batches([items(0, 5)], lambda item: odd if item.image_id == 2 else number(item), 0, 2))


def test_several_arrays_an_image() -> None:
    found = list(batches([items(0, 3)], lambda item: (number(item), np.ones(2, np.float32)), 0, 2))
    assert [array.shape for array in found[0].arrays] == [(3, 1), (3, 2)]
    assert found[0].arrays[0][:, 0].tolist() == [0, 1, 2]
    assert (found[0].items, found[0].failures) == (items(0, 3), [])


def test_the_second_array_must_be_alike_too() -> None:
    def odd(item: Item) -> tuple[np.ndarray, ...]:
        return number(item), np.ones(2 + (item.image_id == 1), np.float32)

    with pytest.raises(InputError, match=r"row 1: float32 \(3,\), but image_id 0 has float32 \(2,\)"):
        list(batches([items(0, 3)], odd, 0, 1))


def test_images_that_cannot_be_read_leave_a_gap_and_not_a_row() -> None:
    def some(item: Item) -> np.ndarray:
        if item.image_id in (0, 3, 10, 11):
            raise UnreadableImage(item.file, f"is odd {item.image_id}")
        return number(item)

    first, second, third = batches(WORK, some, ahead=1, workers=3)
    assert first.arrays[:, 0].tolist() == [1, 2, 4]
    assert [item.image_id for item in first.items] == [1, 2, 4]
    assert first.failures == [(0, "unreadable", "is odd 0"), (3, "unreadable", "is odd 3")]
    assert second.failures == []
    assert (third.arrays, third.items, len(third.failures)) == (None, [], 2)
