"""How many images may be left out."""

import json
from pathlib import Path

import pytest
import torch

from tests.extract import project
from tests.extract.test_stage import weights
from vse_pipe.artifacts import features
from vse_pipe.extract import assemble, stage
from vse_pipe.extract.assemble import limit
from vse_pipe.extract.job import plan
from vse_pipe.project.params.typed import FeatureSet


@pytest.mark.parametrize(("on_error", "max_errors", "images", "expected"), [
    ("fail", 5, 100, 0),
    ("skip", 5, 100, 5),
    ("skip", 0, 100, 0),
    ("skip", 0.01, 123_287, 1233),
    ("skip", 0.01, 1, 1),
])  # fmt: skip
def test_limit(on_error: str, max_errors: float, images: int, expected: int) -> None:
    assert limit(FeatureSet("d", None, on_error, max_errors), images) == expected


def settled(about: dict, params, seed: int = 1, device: str = "cpu") -> bool:
    return assemble.is_settled(about, params.features["small"], seed, device)


def found() -> dict:
    meta = json.loads((project.OUT / "meta.json").read_text())
    return {key: value for key, value in meta.items() if key not in features.WRITTEN}


def about(params, seed: int = 1) -> dict:
    """As meta.json has it: what the network says, through JSON."""
    return json.loads(json.dumps(plan(params.features["small"], seed, torch.device("cpu")).about))


def test_what_extract_wrote_is_settled(tiny: Path) -> None:
    params = project.params()
    stage.extract(params, "small", "cpu")
    assert found() == about(params)
    assert settled(found(), params)


@pytest.mark.parametrize("options", [{}, {"weights": "own.pth"}, {"precision": "float32"}])
def test_the_same_options_are_the_same(tiny: Path, options: dict) -> None:
    if "weights" in options:
        options = weights()
    params = project.params(**options)
    assert settled(about(params), params)
    assert settled(about(params), project.params(**options, shard_size=40))


@pytest.mark.parametrize("change", [{"image_size": 40}, {"batch_size": 5}, {"normalise": False}, {"store": "float16"}])
def test_other_options_are_not(tiny: Path, change: dict) -> None:
    first = about(project.params())
    assert not settled(first, project.params(**change))


def test_another_seed_only_matters_for_random_weights(tiny: Path) -> None:
    params = project.params()
    assert not settled(about(params), params, seed=2)
    given = project.params(**weights())
    assert settled(about(given), given, seed=2)


def test_a_weights_file_is_read_again(tiny: Path) -> None:
    params = project.params(**weights())
    first = about(params)
    Path("own.pth").write_bytes(Path("own.pth").read_bytes() + b"\0")
    assert not settled(first, params)
    Path("own.pth").unlink()
    assert not settled(first, params)


def test_other_images_code_and_libraries(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params = project.params()
    first = about(params)
    for key, value in [
        ("code_sha256", "0" * 64),
        ("libraries", {**first["libraries"], "torch": "1.0"}),
        ("libraries", {"no-such-library": "1"}),
        ("libraries", None),
        ("precision", "bfloat16" if first["precision"] == "float32" else "float32"),
        ("device", "cuda"),
        ("files", [{"file": "a.tsv", "sha256": "0" * 64}]),
    ]:
        assert not settled({**first, key: value}, params), key
    assert not settled({}, params)
    project.prepared(Path("raw"), ["001.png"])
    assert not settled(first, params)
    Path("data/prepare/tiny/images.parquet").unlink()
    assert not settled(first, params)


def test_precision_auto_is_what_torch_makes_of_it(tiny: Path) -> None:
    from vse_pipe.core import devices

    node = project.params().features["small"]
    told = assemble._precision(node, "cpu", "?")
    assert told == devices.resolve_precision("auto", torch.device("cpu"))
    assert assemble._precision(project.params("random_filters").features["small"], "cpu", "x") == "x"
    assert assemble._precision(node, "cuda", "bfloat16") is None


def test_device_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "_GPUS", ())
    assert assemble._kind("auto") == "cpu"
    monkeypatch.setattr(assemble, "_GPUS", ("null",))  # a machine with such a file may have a GPU: torch is asked
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert assemble._kind("auto") == expected
