"""extract as a whole: features, restarts, images that cannot be read, and boxes in pictures."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image
from torchvision import models
from torchvision.transforms import v2

from tests.extract import project
from tests.extract.project import OUT, extract, outputs, weights
from tests.naive import extract as naive
from vse_pipe.artifacts import features, images
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.extract import stage
from vse_pipe.extract.compute import Forward
from vse_pipe.pictures import images as pictures_images
from vse_pipe.pictures.address import Box
from vse_pipe.pictures.images import Item
from vse_pipe.project import paths

RAW = Path("raw")
NAMES = [f"{number:03d}.png" for number in range(9)]


def literal(name: str, weights_file: str) -> list[float]:
    """One image through torchvision's own transforms and network, no batch, no layout, no stage."""
    model = models.shufflenet_v2_x0_5().eval()
    model.load_state_dict(torch.load(weights_file, weights_only=True))
    model.fc = torch.nn.Identity()
    pixels = [v2.Resize(37), v2.CenterCrop(32), v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)]
    steps = v2.Compose([*pixels, v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    with torch.inference_mode(), Image.open(RAW / name) as image:
        return model(steps(image)[None])[0].tolist()


def meta() -> dict:
    return json.loads((OUT / "meta.json").read_text())


def test_features_equal_the_literal_pipeline_and_meta_says_what_they_are(tiny: Path) -> None:
    pinned = weights()
    assert stage.extract(project.params(resize=37, precision="float32", **pinned), "small", "cpu") == OUT
    found = features.read(OUT)
    table = images.read(Path("data/prepare/tiny"))
    assert (found.array.shape, found.array.dtype) == ((9, 1024), np.float32)
    assert found.image_ids.tolist() == table["image_id"].to_pylist()
    assert found.rows.tolist() == list(range(9))
    for row, file in enumerate(table["file"].to_pylist()):
        assert found.array[row] == pytest.approx(np.array(naive.unit(literal(file, "own.pth"))), abs=2e-6)
    said = meta()
    assert said["network"] == "torchvision shufflenet_v2_x0_5"
    assert said["weights"] == {"origin": "file", "file": "own.pth", "sha256": pinned["sha256"], "pinned": True}
    assert (said["precision"], said["dimensions"]) == ("float32", 1024)
    assert (said["transform"]["image_size"], said["transform"]["resize"]) == (32, 37)
    assert said["libraries"].keys() == {"numpy", "pillow", "torch", "torchvision"}
    assert "seconds" not in json.dumps(said)
    assert sorted(outputs()) == project.WRITTEN


def test_finished_features_are_left_as_they_are(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extract("random_filters")
    before = {path.name: path.stat().st_mtime_ns for path in OUT.iterdir()}
    monkeypatch.setattr(Forward, "begin", lambda self, batch: pytest.fail("computed again"))
    extract("random_filters")
    assert {path.name: path.stat().st_mtime_ns for path in OUT.iterdir()} == before


@pytest.mark.parametrize("name", ["features.npy", "index.parquet", "meta.json"])
def test_features_damaged_in_any_way_are_made_again(tiny: Path, name: str) -> None:
    first = extract("random_filters")
    whole = first[name]
    cut = [b"", whole[:20], whole[: len(whole) // 2], b"[]"]
    for damaged in [*cut, whole[:20] + b"(" + whole[21:], whole[:-1] + b"\x7f"]:
        (OUT / name).write_bytes(damaged)
        assert extract("random_filters") == first, damaged


@pytest.mark.parametrize(("content", "digests", "error", "message"), [
    (lambda: (RAW / "005.png").read_bytes()[:90], [""] * 9, InputError,
     r"005.png \(image_id 24\) does not decode"),
    (lambda: (RAW / "004.png").read_bytes(), None, IntegrityError,
     r"raw/005.png \(image_id 24\): the file changed after prepare"),
], ids=["broken", "changed"])  # fmt: skip
def test_a_broken_or_changed_image_is_named_and_nothing_is_half_written(tiny, content, digests, error, message) -> None:
    project.prepared(RAW, NAMES, digests)
    (RAW / "005.png").write_bytes(content())
    with pytest.raises(error, match=message):
        extract("random_filters")
    assert not (OUT / "features.npy").exists()
    assert not (OUT / "meta.json").exists()


def test_features_too_large_for_half_precision(tiny: Path) -> None:
    model = models.shufflenet_v2_x0_5()
    model.conv5[1].bias.data.fill_(1e6)
    torch.save(model.state_dict(), "big.pth")
    message = r"row 0: the features of image_id 59 are NaN or infinite as float16; .*store: float32"
    with pytest.raises(InputError, match=message):
        extract(weights="big.pth", normalise=False, store="float16")
    assert not (OUT / "features.npy").exists()


BROKEN = {2: b"", 5: b"<html>"}
WHOLE = [number for number in range(9) if number not in (2, 5, 8)]


def skipping(max_errors: float = 0.5, on_error: str = "skip", **options) -> dict[str, bytes]:
    return extract("random_filters", on_error=on_error, max_errors=max_errors, **options)


@pytest.fixture
def broken(folder: Path) -> list[str]:
    """Nine images in three batches, two of which are no images and one of which is missing."""
    names = project.pictures(RAW, 9)
    for number, content in BROKEN.items():
        (RAW / names[number]).write_bytes(content)
    digests = [hashlib.sha256((RAW / name).read_bytes()).hexdigest() for name in names[:8]]
    (RAW / names[8]).unlink()
    project.prepared(RAW, names, [*digests, images.UNREAD])
    return names


def test_the_first_stops_it_and_names_the_way_on(broken: list[str]) -> None:
    way = "to leave such images out, set on_error: skip in datasets.tiny$"
    for _ in range(2):
        with pytest.raises(
            InputError, match=rf"extract small: 002.png \(image_id 45\) is empty \(0 bytes\); {way}"
        ) as it:
            skipping(on_error="fail")
        assert it.value.exit_status == 3
    assert not (OUT / "features.npy").exists()
    assert not (OUT / "meta.json").exists()


def test_a_picture_that_is_there_again_is_read(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = project.pictures(RAW, 3)
    project.prepared(RAW, names)
    (RAW / names[1]).rename("away.png")
    with pytest.raises(InputError, match="does not exist"):
        skipping(on_error="fail")
    Path("away.png").rename(RAW / names[1])
    skipping(on_error="fail")
    assert len(features.read(OUT).array) == 3


def test_skipped_images_are_recorded_and_the_others_have_the_features_they_had(broken: list[str], capsys) -> None:
    first = skipping(batch_size=1)
    assert "6 of 9 images, 3 unreadable" in capsys.readouterr().err
    found = features.read(OUT)
    assert features.read_contents(OUT)[1] == {
        45: "is empty (0 bytes)",
        24: "is no image in a known format (6 bytes, the first are b'<html>')",
        3: "does not exist",
    }
    assert (found.array.shape, sorted(found.failed.tolist())) == ((6, 16), [3, 24, 45])
    ids = [59 - 7 * number for number in WHOLE]
    skipped = np.array(found.array)[found.rows_of(np.array(ids))]
    (OUT / features.INDEX).unlink()
    assert skipping(batch_size=1) == first, "a damaged record is made again"
    project.prepared(RAW, [broken[number] for number in WHOLE], ids=ids)
    skipping(on_error="fail", batch_size=1)
    clean = features.read(OUT)
    assert np.array_equal(skipped, np.array(clean.array)[clean.rows_of(np.array(ids))])
    assert features.read_contents(OUT)[1] == {}


def test_shards_survive_a_change_of_mind(broken: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked, own = [], stage.computed_shards
    with pytest.raises(InputError):
        skipping(on_error="fail")
    monkeypatch.setattr(stage, "computed_shards", lambda job, some, *rest: asked.append(some) or own(job, some, *rest))
    first = skipping()["features.npy"]
    assert asked == [[0, 1, 2]], "a refused shard is computed again: its picture may be repaired"
    with pytest.raises(InputError, match=r"002\.png"):
        skipping(on_error="fail")
    assert skipping()["features.npy"] == first
    assert asked == [[0, 1, 2]]


@pytest.mark.parametrize(("max_errors", "allowed", "seen"), [(2, 2, 3), (0, 0, 1), (0.2, 2, 3)])
def test_more_than_allowed_stop_it_at_once(broken: list[str], max_errors, allowed, seen) -> None:
    with pytest.raises(InputError) as caught:
        skipping(max_errors)
    counts = f"{seen} of 9 images cannot be read, max_errors {max_errors} allows {allowed}"
    assert str(caught.value).startswith(f"extract small: {counts}: 002.png (image_id 45) is empty")
    assert not (OUT / "features.npy").exists()


def test_those_that_prepare_listed_are_allowed_beside_max_errors(broken: list[str]) -> None:
    folder = paths.prepared("tiny")
    index = images.read(folder)
    listed = pa.array([0 if number in BROKEN else 40 for number in range(9)], pa.int32())
    column = index.schema.get_field_index("width")
    images.write(folder, index.set_column(column, index.schema.field("width"), listed), "raw")
    with pytest.raises(InputError, match=r"3 of 9 .* max_errors 0 allows 0 beside 2 of prepare's: 002\.png"):
        skipping(0)
    skipping(1)
    assert len(features.read_contents(OUT)[1]) == 3


BOXES = [Box(x, y, 10 + 5 * x, 12 + y // 2) for x in range(3) for y in range(0, 20, 7)]


def boxed(files: list[str], ids: list[int] | None = None, **options) -> np.ndarray:
    digests = [hashlib.sha256((RAW / name.partition("#")[0]).read_bytes()).hexdigest() for name in files]
    project.prepared(RAW, files, digests, ids)
    extract("random_filters", **options)
    return np.array(features.read(OUT).array)


def test_boxes_have_the_features_of_what_is_in_them_interrupted_or_not(folder: Path) -> None:
    addresses = [box.address(name) for name in project.pictures(RAW, 3) for box in BOXES]
    cut = [f"cut{number}.png" for number in range(len(addresses))]
    for address, name in zip(addresses, cut, strict=True):
        pictures_images.load(RAW, Item(0, address, "", "")).save(RAW / name)
    expected = boxed(cut)
    found = boxed(addresses)
    assert len(found) == len(addresses)
    assert np.array_equal(found, expected)
    whole = outputs()
    for name in ("meta.json", "features.npy"):
        (OUT / name).unlink()
    for batches in (5, 0):
        project.interrupted(batches, project.params("random_filters"))
    boxed(addresses)
    assert outputs() == whole
