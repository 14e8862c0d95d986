"""A project in a temporary folder: a few images, their images.parquet and an entry under features."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image
from torch import nn
from torchvision import models

from vse_pipe.artifacts import images
from vse_pipe.extract import stage
from vse_pipe.extract.compute import Forward
from vse_pipe.extract.job import Backbone
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.project.params.typed import FeatureSet, Member, Params
from vse_pipe.project.registry import BACKBONES

PARAMS = """
seed: 1
grid: {inferences: []}
datasets: {tiny: {format: shapes, source: raw}}
features: {}
texts: {}
noises: {}
runs: {}
train: {}
evaluate: {}
report: {}
"""
SHARDS = {"batch_size": 4, "shard_size": 4}
DEFAULTS = {
    "torchvision": {"model": "shufflenet_v2_x0_5", "weights": "random", "image_size": 32, **SHARDS},
    "random_filters": {"filters": 8, **SHARDS},
    "grid": {"model": "random_filters", "image_size": 16, "rows": 2, "columns": 3, **SHARDS},
}


def pictures(folder: Path, count: int, size: tuple[int, int] = (40, 36)) -> list[str]:
    """Write PNGs of seeded noise; their names."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    names = [f"{number:03d}.png" for number in range(count)]
    for name in names:
        Image.fromarray(random.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)).save(folder / name)
    return names


def prepared(root: Path, files: list[str], digests: list[str] | None = None, ids: list[int] | None = None) -> None:
    """data/prepare/tiny/images.parquet over ``files`` below ``root``."""
    count = len(files)
    digests = digests or [hashlib.sha256((root / file).read_bytes()).hexdigest() for file in files]
    columns = {
        "image_id": ids or [7 * number + 3 for number in reversed(range(count))],
        "file": files,
        "split": ["train"] * count,
        "width": [40] * count,
        "height": [36] * count,
        "sha256": digests,
    }
    folder = paths.prepared("tiny")
    folder.mkdir(parents=True, exist_ok=True)
    images.write(folder, pa.table(columns, images.SCHEMA), str(root))


def params(backbone: str = "torchvision", seed: int = 1, **options) -> Params:
    """params.yaml with features.small: ``backbone`` with ``options``, among them on_error and max_errors; for torchvision on top
    of a small network, for random filters of few."""
    Path("params.yaml").write_text(PARAMS.replace("inferences: []", "inferences: [nns]"))
    told = {key: options.pop(key) for key in ("max_errors",) if key in options}
    on_error = options.pop("on_error", "fail")
    options = DEFAULTS.get(backbone, {}) | options
    small = FeatureSet(dataset="tiny", backbone=Member(backbone, BACKBONES.options(backbone)(**options)), **told)
    loaded = load(Path("params.yaml"))
    datasets = {name: node.model_copy(update={"on_error": on_error}) for name, node in loaded.datasets.items()}
    return replace(loaded, seed=seed, datasets=datasets, features={"small": small})


OUT = Path("data/extract/tiny/small")
WRITTEN = ["features.npy", "index.parquet", "made_from.json", "meta.json"]
NOTHING = Backbone(read=lambda root, item: None, module=nn.Identity())


def weights(name: str = "own.pth") -> dict:
    """Real weights for the small network, other than those the seed gives."""
    torch.manual_seed(9)
    torch.save(models.shufflenet_v2_x0_5().state_dict(), name)
    return {"weights": name, "sha256": hashlib.sha256(Path(name).read_bytes()).hexdigest()}


def extract(backbone: str = "torchvision", **options) -> dict[str, bytes]:
    """The stage with these options; what there is then."""
    stage.extract(params(backbone, **options), "small", "cpu")
    return outputs()


def outputs() -> dict[str, bytes]:
    return {str(path.relative_to(OUT)): path.read_bytes() for path in sorted(OUT.rglob("*")) if path.is_file()}


def interrupted(after: int, given: Params, *rest) -> None:
    """An extraction that is stopped once its network has seen ``after`` batches."""
    run, left = Forward.begin, [after]

    def stopping(self: Forward, batch):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return run(self, batch)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Forward, "begin", stopping)
        stage.extract(given, "small", "cpu", *rest)
