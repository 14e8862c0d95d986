"""extract as a whole: features, restarts, images that cannot be read, and boxes in pictures."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image
from torchvision import models
from torchvision.transforms import v2

from tests.extract import project
from tests.extract.project import OUT as project_OUT
from tests.extract.test_resume import outputs
from tests.naive import extract as naive
from vse_pipe.artifacts import features, images
from vse_pipe.artifacts.images import UNREAD
from vse_pipe.core import devices
from vse_pipe.core.errors import InputError, IntegrityError, LockedError
from vse_pipe.core.locks import claim
from vse_pipe.extract import stage
from vse_pipe.extract.compute import Forward
from vse_pipe.pictures import images as pictures_images
from vse_pipe.pictures.address import Box
from vse_pipe.pictures.images import Item
from vse_pipe.project import paths
from vse_pipe.project.params.typed import FeatureSet, Params

OUT = project.OUT


def weights(name: str = "own.pth") -> dict:
    """Real weights for the small network, other than those the seed gives."""
    torch.manual_seed(9)
    model = models.shufflenet_v2_x0_5()
    torch.save(model.state_dict(), name)
    return {"weights": name, "sha256": hashlib.sha256(Path(name).read_bytes()).hexdigest()}


def literal(name: str, weights_file: str) -> list[float]:
    """One image through torchvision's own transforms and network, no batch, no layout, no stage."""
    model = models.shufflenet_v2_x0_5().eval()
    model.load_state_dict(torch.load(weights_file, weights_only=True))
    model.fc = torch.nn.Identity()
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    steps = [
        v2.Resize(37),
        v2.CenterCrop(32),
        v2.PILToTensor(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(mean, std),
    ]
    with torch.inference_mode(), Image.open(Path("raw") / name) as image:
        return model(v2.Compose(steps)(image)[None])[0].tolist()


def contents(out: Path = OUT) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def test_features_equal_the_literal_pipeline(tiny: Path) -> None:
    params = project.params(resize=37, precision="float32", **weights())
    assert stage.extract(params, "small", "cpu") == OUT
    found = features.read(OUT)
    table = images.read(Path("data/prepare/tiny"))
    assert found.array.shape == (9, 1024)
    assert found.array.dtype == np.float32
    assert found.image_ids.tolist() == table["image_id"].to_pylist()
    assert found.rows.tolist() == list(range(9))
    for row, file in enumerate(table["file"].to_pylist()):
        assert found.array[row] == pytest.approx(np.array(naive.unit(literal(file, "own.pth"))), abs=2e-6)


@pytest.mark.parametrize("native", [True, False])
def test_auto_says_and_records_what_it_chose(tiny: Path, monkeypatch, capsys, native) -> None:
    chosen = "bfloat16" if native else "float32"
    monkeypatch.setattr(devices, "native_bfloat16", lambda device: native)
    stage.extract(project.params(**weights()), "small", "cpu")
    assert f"extract small: precision auto is {chosen} on this machine" in capsys.readouterr().err
    assert features.read(OUT).meta["precision"] == chosen


def test_meta_says_what_they_are(tiny: Path) -> None:
    pinned = weights()
    stage.extract(project.params(**pinned, precision="float32"), "small", "cpu")
    meta = json.loads((OUT / "meta.json").read_text())
    assert meta["network"] == "torchvision shufflenet_v2_x0_5"
    assert meta["weights"] == {"origin": "file", "file": "own.pth", "sha256": pinned["sha256"], "pinned": True}
    assert meta["precision"] == "float32"
    assert meta["transform"]["image_size"] == 32
    assert meta["transform"]["resize"] == 37
    assert meta["dimensions"] == 1024
    assert meta["libraries"].keys() == {"numpy", "pillow", "torch", "torchvision"}
    assert "seconds" not in json.dumps(meta)
    assert sorted(contents()) == ["contents.parquet", "errors.parquet", "features.npy", "index.parquet", "meta.json"]


def test_random_weights_follow_the_seed_and_are_called_random(tiny: Path) -> None:
    params = project.params()
    stage.extract(params, "small", "cpu")
    first = contents()
    assert json.loads(first["meta.json"])["weights"] == {"origin": "random", "seed": 1}
    (OUT / "meta.json").unlink()
    torch.manual_seed(123)
    stage.extract(params, "small", "cpu")
    assert contents() == first
    stage.extract(type(params)(**{**vars(params), "seed": 2}), "small", "cpu")
    assert contents()["features.npy"] != first["features.npy"]


def test_finished_features_are_left_as_they_are(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params = project.params()
    stage.extract(params, "small", "cpu")
    before = {path.name: path.stat().st_mtime_ns for path in OUT.iterdir()}
    monkeypatch.setattr(Forward, "__call__", lambda self, batch: pytest.fail("computed again"))
    stage.extract(params, "small", "cpu")
    assert {path.name: path.stat().st_mtime_ns for path in OUT.iterdir()} == before


@pytest.mark.parametrize(
    "change", [{"image_size": 40}, {"batch_size": 5}, {"normalise": False}, {"resize_mode": "exact"}]
)
def test_other_options_are_other_features(tiny: Path, change: dict) -> None:
    stage.extract(project.params(), "small", "cpu")
    fingerprint = json.loads((OUT / "meta.json").read_text())["fingerprint"]
    stage.extract(project.params(**change), "small", "cpu")
    assert json.loads((OUT / "meta.json").read_text())["fingerprint"] != fingerprint


def test_a_data_set_prepared_anew_is_extracted_anew(tiny: Path) -> None:
    params = project.params()
    stage.extract(params, "small", "cpu")
    first = np.load(OUT / "features.npy")
    project.prepared(Path("raw"), [f"{number:03d}.png" for number in reversed(range(9))], ids=list(range(9)))
    stage.extract(params, "small", "cpu")
    found = features.read(OUT)
    assert found.image_ids.tolist() == list(range(9))
    assert np.asarray(found.array) == pytest.approx(first[::-1], abs=1e-6)


def test_damaged_features_are_made_again(tiny: Path) -> None:
    params = project.params()
    stage.extract(params, "small", "cpu")
    first = contents()
    (OUT / "features.npy").write_bytes(first["features.npy"][:-1] + b"\x7f")
    stage.extract(params, "small", "cpu")
    assert contents() == first


@pytest.mark.parametrize("name", ["features.npy", "index.parquet", "meta.json"])
def test_features_damaged_in_any_way_are_made_again(tiny: Path, name: str) -> None:
    params = project.params()
    stage.extract(params, "small", "cpu")
    first = contents()
    whole = first[name]
    for damaged in [b"", whole[:20], whole[:20] + b"(" + whole[21:], whole[: len(whole) // 2], b"[]"]:
        (OUT / name).write_bytes(damaged)
        stage.extract(params, "small", "cpu")
        assert contents() == first


@pytest.mark.parametrize("size", [5, 8, 1024])
def test_the_size_of_shards_changes_nothing(tiny: Path, size: int) -> None:
    params = project.params()
    stage.extract(params, "small", "cpu")
    first = contents()
    (OUT / "meta.json").unlink()
    stage.extract(project.params(shard_size=size), "small", "cpu")
    assert contents() == first


def test_half_precision_on_disk(tiny: Path) -> None:
    stage.extract(project.params(), "small", "cpu")
    exact = np.load(OUT / "features.npy")
    stage.extract(project.params(store="float16"), "small", "cpu")
    half = np.load(OUT / "features.npy")
    assert half.dtype == np.float16
    assert np.array_equal(half, exact.astype(np.float16))


def test_a_broken_image_is_named_and_nothing_is_half_written(tiny: Path) -> None:
    project.prepared(Path("raw"), [f"{number:03d}.png" for number in range(9)], digests=[""] * 9)
    Path("raw/005.png").write_bytes(Path("raw/005.png").read_bytes()[:90])
    with pytest.raises(InputError, match=r"005.png \(image_id 24\) does not decode"):
        stage.extract(project.params(), "small", "cpu")
    assert not (OUT / "features.npy").exists()
    assert not (OUT / "meta.json").exists()


def test_a_changed_image_is_noticed(tiny: Path) -> None:
    Path("raw/005.png").write_bytes(Path("raw/004.png").read_bytes())
    with pytest.raises(IntegrityError, match=r"raw/005.png \(image_id 24\): the file changed after prepare"):
        stage.extract(project.params(), "small", "cpu")


def test_features_too_large_for_half_precision(tiny: Path) -> None:
    torch.manual_seed(0)
    model = models.shufflenet_v2_x0_5()
    model.conv5[1].bias.data.fill_(1e6)
    torch.save(model.state_dict(), "big.pth")
    options = {"weights": "big.pth", "normalise": False, "store": "float16"}
    with pytest.raises(
        InputError, match=r"row 0: the features of image_id 59 are NaN or infinite as float16; .*store: float32"
    ):
        stage.extract(project.params(**options), "small", "cpu")
    assert not (OUT / "features.npy").exists()


def test_one_writer_at_a_time(tiny: Path) -> None:
    with claim(OUT), pytest.raises(LockedError, match="is being written by process"):
        stage.extract(project.params(), "small", "cpu")


def test_the_stage_refuses_what_is_not_prepared(folder: Path) -> None:
    with pytest.raises(InputError, match="vse-pipe prepare --dataset tiny"):
        stage.extract(project.params(), "small", "cpu")


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
    assert not (project_OUT / "features.npy").exists()
    assert not (project_OUT / "meta.json").exists()


def test_skipped_images_are_recorded_and_the_others_have_the_features_they_had(broken: list[str], capsys) -> None:
    stage.extract(_params("skip", batch_size=1), "small", "cpu")
    assert "6 of 9 images, 3 unreadable" in capsys.readouterr().err
    found = features.read(project_OUT)
    recorded = images.read_unreadable(project_OUT)
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
    clean = features.read(project_OUT)
    assert np.array_equal(skipped, np.array(clean.array)[clean.rows_of(np.array(ids))])
    assert images.read_unreadable(project_OUT).num_rows == 0


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
    first = (project_OUT / "features.npy").read_bytes()
    assert asked == [[1, 2]]
    with pytest.raises(InputError, match=r"002\.png"):
        stage.extract(_params("fail"), "small", "cpu")
    stage.extract(_params("skip"), "small", "cpu")
    assert (project_OUT / "features.npy").read_bytes() == first
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
    assert not (project_OUT / "features.npy").exists()


def test_those_that_prepare_listed_are_allowed_beside_max_errors(broken: list[str]) -> None:
    folder = paths.prepared("tiny")
    index = images.read(folder)
    listed = pa.array([0 if number in BROKEN else 40 for number in range(9)], pa.int32())
    column = index.schema.get_field_index("width")
    images.write(folder, index.set_column(column, index.schema.field("width"), listed), "raw")
    with pytest.raises(InputError, match=r"3 of 9 .* max_errors 0 allows 0 beside 2 of prepare's: 002\.png"):
        stage.extract(_params("skip", 0), "small", "cpu")
    stage.extract(_params("skip", 1), "small", "cpu")
    assert images.read_unreadable(project_OUT).num_rows == 3


@pytest.mark.parametrize("max_errors", [3, 0.23, 0.99])
def test_as_many_as_allowed(broken: list[str], max_errors: float) -> None:
    stage.extract(_params("skip", max_errors), "small", "cpu")
    assert images.read_unreadable(project_OUT).num_rows == 3


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
    whole = (project_OUT / images.UNREADABLE).read_bytes()
    (project_OUT / images.UNREADABLE).unlink()
    stage.extract(_params("skip"), "small", "cpu")
    assert (project_OUT / images.UNREADABLE).read_bytes() == whole


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
