"""From a module's output to stored rows."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.naive import extract as naive
from vse_pipe.core.errors import PipelineError
from vse_pipe.extract.compute import Forward
from vse_pipe.extract.networks import Output
from vse_pipe.extract.params import FeatureParams, ImageParams

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


@pytest.mark.parametrize(
    ("store", "given", "dtype"),
    [
        ("float32", "float32", "float32"),
        ("float16", "float32", "float16"),
        (None, "float16", "float16"),
        ("float32", "float16", "float32"),
    ],
)
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
