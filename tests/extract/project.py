"""A project in a temporary folder: a few images, their images.parquet and an entry under features."""

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image
from torch import nn

from vse_pipe.artifacts import images
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
SMALL = {"model": "shufflenet_v2_x0_5", "weights": "random", "image_size": 32, "batch_size": 4, "shard_size": 4}


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


def params(backbone: str = "torchvision", **options) -> Params:
    """params.yaml with features.small: ``backbone`` with ``options``; for torchvision on top of a small network."""
    Path("params.yaml").write_text(PARAMS.replace("inferences: []", "inferences: [nns]"))
    options = {**SMALL, **options} if backbone == "torchvision" else options
    member = Member(backbone, BACKBONES.options(backbone)(**options))
    return Params(**{**vars(load(Path("params.yaml"))), "features": {"small": FeatureSet("tiny", member)}})


OUT = Path("data/extract/tiny/small")


NOTHING = Backbone(read=lambda root, item: None, module=nn.Identity())
