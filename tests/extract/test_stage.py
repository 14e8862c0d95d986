"""The stage from prepared images to features on disk."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import models
from torchvision.transforms import v2

from tests.extract import project
from tests.naive import extract as naive
from vse_pipe.artifacts import features, images
from vse_pipe.core import devices
from vse_pipe.core.errors import InputError, IntegrityError, LockedError
from vse_pipe.core.locks import claim
from vse_pipe.extract import stage
from vse_pipe.extract.compute import Forward

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
