"""Which batch size the measurement recommends, and where it stops."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.naive import extract as naive
from vse_pipe.core.errors import InputError, PipelineError, UnreadableImage
from vse_pipe.extract import compute
from vse_pipe.extract.backbones.options import FeatureParams, ImageParams
from vse_pipe.extract.compute import Forward, Throughput, batches, best, measure
from vse_pipe.extract.job import Output
from vse_pipe.pictures.images import Item

IMAGES = np.zeros((300, 2), np.float32)


class Clock:
    """Seconds that only the networks below let pass: real ones depend on what else the machine does."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


CLOCK = Clock()


@pytest.fixture(autouse=True)
def _told_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "time", CLOCK)


class Timed(nn.Module):
    """Takes ``start`` seconds a pass and ``each`` an image; holds ``most`` images."""

    def __init__(self, start: float = 0.0, each: float = 0.0, most: int = 10_000) -> None:
        super().__init__()
        self.start, self.each, self.most = start, each, most

    def forward(self, batch: Tensor) -> Tensor:
        if len(batch) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        CLOCK.now += self.start + self.each * len(batch)
        return batch


def sizes(module: nn.Module, images: np.ndarray | tuple = IMAGES) -> list[int]:
    forward = Forward(module, FeatureParams(), torch.device("cpu"))
    return [one.batch_size for one in measure(forward, images)]


def test_goes_on_while_it_gains_and_there_are_images() -> None:
    assert sizes(Timed(start=0.01)) == [1, 2, 4, 8, 16, 32, 64, 128, 256]


def test_stops_at_what_does_not_fit(capsys: pytest.CaptureFixture) -> None:
    assert sizes(Timed(start=0.005, most=9)) == [1, 2, 4, 8]


def test_stops_when_larger_batches_are_slower() -> None:
    class Crowded(Timed):
        def forward(self, batch: Tensor) -> Tensor:
            CLOCK.now += 0.002 * len(batch) ** 1.5
            return batch

    assert sizes(Crowded()) == [1, 2, 4]


def test_takes_tuples() -> None:
    class Pair(nn.Module):
        def forward(self, left: Tensor, right: Tensor) -> Tensor:
            CLOCK.now += 0.01
            return left + right

    assert sizes(Pair(), (IMAGES[:3], IMAGES[:3]))[:2] == [1, 2]


def test_the_rate_is_images_a_second() -> None:
    forward = Forward(Timed(start=0.02), FeatureParams(), torch.device("cpu"))
    rates = [one.rate for one in measure(forward, IMAGES[:2])]
    assert rates == pytest.approx([50, 100])


def test_the_smallest_that_is_nearly_the_fastest() -> None:
    found = [Throughput(1, 10.0), Throughput(2, 18.0), Throughput(4, 19.5), Throughput(8, 20.0), Throughput(16, 17.0)]
    assert best(found).batch_size == 4


CPU = torch.device("cpu")
BATCH = np.array([[3.0, 4.0], [0.0, 0.0], [1e-3, -2.0]], dtype=np.float32)


def forward(module: nn.Module | None = None, **options) -> Forward:
    return Forward(module or nn.Identity(), FeatureParams(**options), CPU)


def test_unit_length() -> None:
    found = forward()(BATCH).features
    assert found == pytest.approx(np.array([naive.unit(row.tolist()) for row in BATCH]), abs=1e-7)


def test_regions_are_normalised_one_by_one() -> None:
    found = forward()(np.stack([BATCH, BATCH])).features
    assert np.array_equal(found[0], forward()(BATCH).features)


def test_as_they_are() -> None:
    assert np.array_equal(forward(normalise=False)(BATCH).features, BATCH)


@pytest.mark.parametrize(("store", "given", "dtype"), [
    ("float32", "float32", "float32"),
    ("float16", "float32", "float16"),
    (None, "float16", "float16"),
    ("float32", "float16", "float32"),
])  # fmt: skip
def test_stored_type(store: str | None, given: str, dtype: str) -> None:
    found = forward(normalise=False, store=store)(BATCH.astype(given)).features
    assert found.dtype == np.dtype(dtype)
    assert np.array_equal(found, BATCH.astype(given).astype(dtype))


class Small(nn.Module):
    """Holds so many images and no more."""

    def __init__(self, most: int, error: Exception | None = None) -> None:
        super().__init__()
        self.most, self.seen = most, []
        self.error = error or torch.OutOfMemoryError("CUDA out of memory")

    def forward(self, batch: Tensor) -> Tensor:
        self.seen.append(len(batch))
        if len(batch) > self.most:
            raise self.error
        return batch * 2


def test_a_batch_that_does_not_fit_is_halved_once(capsys: pytest.CaptureFixture) -> None:
    module = Small(2)
    run = forward(module, normalise=False)
    batch = np.arange(7, dtype=np.float32)[:, None]
    assert np.array_equal(run(batch).features, batch * 2)
    assert np.array_equal(run(batch).features, batch * 2)
    assert module.seen == [7, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    assert capsys.readouterr().err.count("do not fit in the memory of cpu") == 2


def test_one_image_that_does_not_fit() -> None:
    with pytest.raises(PipelineError, match="one image does not fit in the memory of cpu: CUDA out of memory"):
        forward(Small(0))(BATCH)


def _refused(allocate: Callable) -> Exception:
    with pytest.raises((RuntimeError, MemoryError)) as refused:
        allocate(1 << 62, dtype="uint8" if allocate is np.empty else torch.uint8)
    return refused.value


@pytest.mark.parametrize(
    "error",
    [_refused(torch.empty), _refused(np.empty), RuntimeError("std::bad_alloc"), torch.OutOfMemoryError("CUDA out")],
    ids=["torch", "numpy", "C++", "CUDA"],
)
def test_the_processors_memory_counts_too(error) -> None:
    module = Small(2, error)
    batch = np.arange(4, dtype=np.float32)[:, None]
    assert np.array_equal(forward(module, normalise=False)(batch).features, batch * 2)
    assert module.seen == [4, 2, 2]


def test_other_errors_are_not_taken_for_it() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        forward(Small(2, RuntimeError("mat1 and mat2 shapes cannot be multiplied")))(BATCH)


def compiled(module: nn.Module) -> Forward:
    return Forward(module, ImageParams(compile=True, normalise=False), CPU)


@pytest.mark.acceptance
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_compiled_network_gives_what_the_network_gives() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    with torch.inference_mode():
        found = compiled(module)(BATCH).features
        assert found == pytest.approx(module(torch.from_numpy(BATCH)).numpy(), abs=1e-6)


@pytest.mark.acceptance
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_network_that_cannot_be_compiled_is_said_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from torch._inductor import config

    monkeypatch.setattr(config.cpp, "cxx", (None, str(tmp_path / "no_compiler")))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    with torch.inference_mode(), pytest.raises(PipelineError, match=r"set compile: false .*No working C\+\+ compiler"):
        compiled(nn.Sequential(nn.Linear(2, 5), nn.Tanh()))(BATCH)


class Boxed(Small):
    """Two arrays an image in, features and a box of the second out."""

    def forward(self, batch: Tensor, corner: Tensor) -> Output:
        return Output(super().forward(batch)[:, None], corner[:, None].double())


def test_what_lies_beside_the_features_is_neither_scaled_nor_halved_and_goes_with_its_image() -> None:
    batch, corners = np.ones((5, 2), np.float32), np.arange(20, dtype=np.float32).reshape(5, 4) + 0.1
    found = forward(Boxed(2), store="float16")((batch, corners))
    assert found.features.dtype == np.float16
    assert found.boxes.dtype == np.float32
    assert np.array_equal(found.boxes, corners[:, None])
    assert found.scores is None


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
