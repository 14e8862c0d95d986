"""Images that cannot be read, and features of boxes in pictures."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.extract import project
from tests.extract.project import OUT
from tests.extract.test_resume import outputs
from vse_pipe.artifacts import features, images
from vse_pipe.artifacts.images import UNREAD
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.extract import stage
from vse_pipe.extract.compute import Forward
from vse_pipe.pictures import images as pictures_images
from vse_pipe.pictures.address import Box
from vse_pipe.pictures.images import Item
from vse_pipe.project import paths
from vse_pipe.project.params.typed import FeatureSet, Params

BROKEN = {2: b"", 5: b"<html>"}


def _params(on_error: str, max_errors: float = 0.5, **options) -> Params:
    made = project.params(**options)
    node = made.features["small"]
    return replace(made, features={"small": FeatureSet(node.dataset, node.backbone, on_error, max_errors)})


@pytest.fixture
def broken(folder: Path) -> list[str]:
    """Nine images in three batches, two of which are no images and one of which is missing."""
    names = project.pictures(Path("raw"), 9)
    for number, content in BROKEN.items():
        (Path("raw") / names[number]).write_bytes(content)
    project.prepared(Path("raw"), names)
    index = images.read(paths.prepared("tiny"))
    digests = [*index["sha256"].to_pylist()[:-1], UNREAD]
    project.prepared(Path("raw"), names, digests)
    (Path("raw") / names[8]).unlink()
    return names


def test_the_first_stops_it_and_names_the_way_on(broken: list[str]) -> None:
    message = r"extract small: 002.png \(image_id 45\) is empty \(0 bytes\); to leave such images out, set on_error: skip in datasets.tiny$"
    for _ in range(2):
        with pytest.raises(InputError, match=message) as caught:
            stage.extract(_params("fail"), "small", "cpu")
        assert caught.value.exit_status == 3
    assert not (OUT / "features.npy").exists()
    assert not (OUT / "meta.json").exists()


def test_skipped_images_are_recorded_and_the_others_have_the_features_they_had(broken: list[str], capsys) -> None:
    stage.extract(_params("skip", batch_size=1), "small", "cpu")
    assert "6 of 9 images, 3 unreadable" in capsys.readouterr().err
    found = features.read(OUT)
    recorded = images.read_unreadable(OUT)
    assert recorded.to_pylist() == [
        {"image_id": 45, "file": "002.png", "reason": "is empty (0 bytes)"},
        {
            "image_id": 24,
            "file": "005.png",
            "reason": "is no image in a known format (6 bytes, the first are b'<html>')",
        },
        {"image_id": 3, "file": "008.png", "reason": "does not exist"},
    ]
    assert found.array.shape == (6, 1024)
    assert sorted(found.failed.tolist()) == [3, 24, 45]
    kept = [name for number, name in enumerate(broken) if number not in (2, 5, 8)]
    ids = [59 - 7 * number for number in range(9) if number not in (2, 5, 8)]
    skipped = np.array(found.array)[found.rows_of(np.array(ids))]
    project.prepared(Path("raw"), kept, ids=ids)
    stage.extract(_params("fail", batch_size=1), "small", "cpu")
    clean = features.read(OUT)
    assert np.array_equal(skipped, np.array(clean.array)[clean.rows_of(np.array(ids))])
    assert images.read_unreadable(OUT).num_rows == 0


def test_shards_survive_a_change_of_mind(broken: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError):
        stage.extract(_params("fail"), "small", "cpu")
    asked = []
    own = stage.computed_shards

    def noted(job, numbers, *rest):
        asked.append(numbers)
        return own(job, numbers, *rest)

    monkeypatch.setattr(stage, "computed_shards", noted)
    stage.extract(_params("skip"), "small", "cpu")
    first = (OUT / "features.npy").read_bytes()
    assert asked == [[1, 2]]
    with pytest.raises(InputError, match=r"002\.png"):
        stage.extract(_params("fail"), "small", "cpu")
    stage.extract(_params("skip"), "small", "cpu")
    assert (OUT / "features.npy").read_bytes() == first
    assert asked == [[1, 2]]


@pytest.mark.parametrize(("max_errors", "allowed", "seen"), [(2, 2, 3), (0, 0, 1), (0.2, 2, 3)])
def test_more_than_allowed_are_listed_and_stop_it_at_once(
    broken: list[str], max_errors: float, allowed: int, seen: int
) -> None:
    with pytest.raises(InputError) as caught:
        stage.extract(_params("skip", max_errors), "small", "cpu")
    assert str(caught.value).startswith(
        f"extract small: {seen} of 9 images cannot be read, max_errors {max_errors} allows {allowed}: 002.png (image_id 45) is empty"
    )
    assert str(caught.value).endswith("008.png (image_id 3) does not exist") == (seen == 3)
    assert not (OUT / "features.npy").exists()


def test_those_that_prepare_listed_are_allowed_beside_max_errors(broken: list[str]) -> None:
    folder = paths.prepared("tiny")
    index = images.read(folder)
    listed = pa.array([0 if number in BROKEN else 40 for number in range(9)], pa.int32())
    column = index.schema.get_field_index("width")
    images.write(folder, index.set_column(column, index.schema.field("width"), listed), "raw")
    with pytest.raises(InputError, match=r"3 of 9 .* max_errors 0 allows 0 beside 2 of prepare's: 002\.png"):
        stage.extract(_params("skip", 0), "small", "cpu")
    stage.extract(_params("skip", 1), "small", "cpu")
    assert images.read_unreadable(OUT).num_rows == 3


@pytest.mark.parametrize("max_errors", [3, 0.23, 0.99])
def test_as_many_as_allowed(broken: list[str], max_errors: float) -> None:
    stage.extract(_params("skip", max_errors), "small", "cpu")
    assert images.read_unreadable(OUT).num_rows == 3


def test_something_must_be_left(broken: list[str]) -> None:
    project.prepared(Path("raw"), ["002.png", "005.png"])
    with pytest.raises(InputError, match="2 of 2 images cannot be read, none is left"):
        stage.extract(_params("skip", 2), "small", "cpu")


def test_a_file_that_came_after_prepare_is_not_taken(broken: list[str]) -> None:
    (Path("raw") / broken[8]).write_bytes((Path("raw") / broken[0]).read_bytes())
    with pytest.raises(IntegrityError, match=r"008.png \(image_id 3\): the file changed after prepare"):
        stage.extract(_params("skip"), "small", "cpu")


def test_a_damaged_record_is_made_again(broken: list[str]) -> None:
    stage.extract(_params("skip"), "small", "cpu")
    whole = (OUT / images.UNREADABLE).read_bytes()
    (OUT / images.UNREADABLE).unlink()
    stage.extract(_params("skip"), "small", "cpu")
    assert (OUT / images.UNREADABLE).read_bytes() == whole


BOXES = [Box(x, y, 10 + 5 * x, 12 + y // 2) for x in range(3) for y in range(0, 20, 7)]


def _regions(folder: Path) -> tuple[list[str], list[str]]:
    """Addresses of the boxes in three pictures, and the names of as many files that hold what is in them."""
    names = project.pictures(folder, 3)
    addresses = [box.of(name) for name in names for box in BOXES]
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
    files = [Box(0, 0, 5, 5).of(names[0]), Box(30, 30, 11, 6).of(names[0]), names[1]]
    digests = [hashlib.sha256((Path("raw") / name.partition("#")[0]).read_bytes()).hexdigest() for name in files]
    project.prepared(Path("raw"), files, digests, ids=[1, 2, 3])
    params = project.params("random_filters", batch_size=2, filters=8)
    node = replace(params.features["small"], on_error="skip", max_errors=0.9)
    stage.extract(replace(params, features={"small": node}), "small", "cpu")
    found = images.read_unreadable(paths.extracted("tiny", "small")).to_pylist()
    assert [(row["image_id"], row["file"]) for row in found] == [(2, files[1])]
    assert found[0]["reason"] == "names a box (11 x 6 at 30,30) that reaches outside the picture of 40 x 36"
