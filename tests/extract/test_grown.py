"""Features of a collection that changed: those that computing all anew gives, byte for byte, and only new pictures computed."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.extract import project
from tests.extract.project import OUT, interrupted, outputs
from vse_pipe.extract import stage
from vse_pipe.project.params.typed import Params

NAMES = [f"{number:03d}.png" for number in range(14)]
# What a collection of the first nine becomes, and how many of it are new.
CHANGES = {
    "added": (NAMES, 5),
    "added in front": ([*NAMES[9:12], *NAMES[:9]], 3),
    "removed": ([NAMES[0], *NAMES[3:8]], 0),
    "in another order": (NAMES[8::-1], 0),
    "one twice": ([*NAMES[:9], NAMES[4]], 0),
    "all of it": ([NAMES[12], *NAMES[7:2:-1], NAMES[0], NAMES[13]], 2),
}


def filters(**options) -> Params:
    return project.params("random_filters", **options)


def extracted(given: Params, names: Sequence[str], changed: bool = False) -> dict[str, bytes]:
    """Of a collection of these pictures."""
    everything = project.pictures(Path("raw"), len(NAMES))
    Path("raw/broken.png").write_bytes(b"no picture")
    if changed:
        (Path("raw") / names[1]).write_bytes((Path("raw") / everything[-1]).read_bytes())
    project.prepared(Path("raw"), list(names))
    stage.extract(given, "small", "cpu")
    return outputs()


def fresh(given: Params, names: Sequence[str], changed: bool = False) -> dict[str, bytes]:
    """What there is after all of the collection has been computed; nothing of it stays."""
    found = extracted(given, names, changed)
    shutil.rmtree(OUT)
    return found


def grown(given: Params, names: Sequence[str], computed: list[int], first=NAMES[:9], changed: bool = False) -> int:
    """How many pictures are computed when the first ones become these; the result is that of computing all."""
    wanted = fresh(given, names, changed)
    extracted(given, first)
    computed.clear()
    assert extracted(given, names, changed) == wanted
    return sum(computed)


@pytest.mark.parametrize(("names", "new"), CHANGES.values(), ids=CHANGES)
def test_only_new_pictures_are_computed(folder: Path, computed: list[int], capsys, names: list[str], new: int) -> None:
    assert grown(filters(), names, computed) == new
    assert f"extract small: {len(names) - new} of {len(names)} pictures computed before" in capsys.readouterr().err


_TIMM = {"model": "vit_tiny_patch16_224", "weights": "random", "image_size": 224, "batch_size": 3}


@pytest.mark.parametrize(("backbone", "options"), [
    pytest.param("grid", {}, marks=pytest.mark.acceptance),
    ("torchvision", {"precision": "float32"}),
    ("torchvision", {"precision": "bfloat16"}),
    ("torchvision", {"model": "mobilenet_v3_small", "precision": "float32", "batch_size": 3}),
    pytest.param("torchvision", {"model": "resnet18", "precision": "float32", "store": "float16"},
                 marks=pytest.mark.acceptance),
    pytest.param("timm", {**_TIMM, "precision": "float32"}, marks=pytest.mark.acceptance),
], ids=["grid", "float32", "bfloat16", "mobilenet", "resnet", "timm"])  # fmt: skip
def test_bits_do_not_depend_on_place_or_batch(folder: Path, computed: list[int], backbone: str, options: dict) -> None:
    names, new = CHANGES["all of it"]
    assert grown(project.params(backbone, **options), names, computed) == new


def test_other_options_or_damage_compute_all(folder: Path, computed: list[int], capsys) -> None:
    extracted(filters(filters=4), NAMES[:9])
    wanted = fresh(filters(), NAMES)
    extracted(filters(), NAMES[:9])
    array = OUT / "features.npy"
    array.write_bytes(array.read_bytes()[:-1] + b"\0")
    computed.clear()
    assert extracted(filters(), NAMES) == wanted
    assert sum(computed) == len(NAMES)
    assert "does not match the digest" in capsys.readouterr().err
    computed.clear()
    extracted(filters(filters=4), NAMES)
    assert sum(computed) == len(NAMES)


def test_interrupted_while_it_grows_and_grown_again(folder: Path, computed: list[int]) -> None:
    """The features from before are not lost; shards of another list of pictures are computed again."""
    wanted = fresh(filters(), NAMES)
    before = extracted(filters(), NAMES[:5])
    project.prepared(Path("raw"), NAMES[:13])
    interrupted(1, filters())
    assert {name: outputs()[name] for name in before} == before
    project.prepared(Path("raw"), NAMES[::-1])
    interrupted(0, filters())
    computed.clear()
    assert extracted(filters(), NAMES) == wanted
    assert sum(computed) == 14 - 5
