"""Features of boxes: those of pictures that were cut out beforehand, whatever interrupts the extraction."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.extract import project
from tests.extract.test_resume import outputs
from vse_pipe.artifacts import features, images
from vse_pipe.extract import stage
from vse_pipe.extract.compute import Forward
from vse_pipe.pictures import images as pictures_images
from vse_pipe.pictures.address import Box
from vse_pipe.pictures.images import Item
from vse_pipe.project import paths

BOXES = [Box(x, y, 10 + 5 * x, 12 + y // 2) for x in range(3) for y in range(0, 20, 7)]


def _regions(folder: Path) -> tuple[list[str], list[str]]:
    """Addresses of the boxes in three pictures, and the names of as many files that hold what is in them."""
    names = project.pictures(folder, 3)
    addresses = [box.address(name) for name in names for box in BOXES]
    for number, address in enumerate(addresses):
        pictures_images.load(folder, Item(0, address, "", "")).save(folder / f"cut{number}.png")
    return addresses, [f"cut{number}.png" for number in range(len(addresses))]


def _extracted(folder: Path, files: list[str]) -> np.ndarray:
    digests = [hashlib.sha256((folder / name.partition("#")[0]).read_bytes()).hexdigest() for name in files]
    project.prepared(folder, files, digests)
    stage.extract(project.params("random_filters", batch_size=4, shard_size=4, filters=8), "small", "cpu")
    return np.array(features.read(paths.extracted("tiny", "small")).array)


def test_they_are_those_of_what_is_in_the_box(folder: Path) -> None:
    addresses, cut = _regions(Path("raw"))
    found = _extracted(Path("raw"), addresses)
    assert len(found) == len(addresses)
    assert np.array_equal(found, _extracted(Path("raw"), cut))


def test_interrupted_it_ends_with_the_same_bytes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses, _ = _regions(Path("raw"))
    _extracted(Path("raw"), addresses)
    whole = outputs(folder)
    (paths.extracted("tiny", "small") / "meta.json").unlink()
    (paths.extracted("tiny", "small") / "features.npy").unlink()
    left, run = [9], Forward.__call__

    def stopped(self: Forward, batch):
        left[0] -= 1
        if left[0] % 4 == 0:
            raise KeyboardInterrupt
        return run(self, batch)

    monkeypatch.setattr(Forward, "__call__", stopped)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            _extracted(Path("raw"), addresses)
    monkeypatch.setattr(Forward, "__call__", run)
    _extracted(Path("raw"), addresses)
    assert outputs(folder) == whole


def test_a_box_outside_its_picture_has_a_reason(folder: Path) -> None:
    names = project.pictures(Path("raw"), 2)
    files = [Box(0, 0, 5, 5).address(names[0]), Box(30, 30, 11, 6).address(names[0]), names[1]]
    digests = [hashlib.sha256((Path("raw") / name.partition("#")[0]).read_bytes()).hexdigest() for name in files]
    project.prepared(Path("raw"), files, digests, ids=[1, 2, 3])
    params = project.params("random_filters", batch_size=2, filters=8)
    node = replace(params.features["small"], on_error="skip", max_errors=0.9)
    stage.extract(replace(params, features={"small": node}), "small", "cpu")
    found = images.read_unreadable(paths.extracted("tiny", "small")).to_pylist()
    assert [(row["image_id"], row["file"]) for row in found] == [(2, files[1])]
    assert found[0]["reason"] == "names a box (11 x 6 at 30,30) that reaches outside the picture of 40 x 36"
