"""What a checkpoint belongs to: resume only when nothing that decides the result has changed."""

import hashlib
import json
from importlib.metadata import version
from pathlib import Path

import torch

from pipeline.core.files import sha256
from pipeline.project.params.typed import Run
from pipeline.project.registry import RUN_FAMILIES
from pipeline.train.engine.model import describe

PACKAGE = Path(__file__).parents[1]
# Other code that decides which numbers go into a batch, what a run trains on, or which epoch is the best.
OUTSIDE = (
    "artifacts/features.py",
    "artifacts/texts.py",
    "tokens.py",
    "seeds.py",
    # Losses that the scheme l2rm has of its own.
    "train/losses/infonce.py",
    "train/losses/infonce_rce.py",
    "train/losses/max.py",
    "evaluate/counting.py",
    "evaluate/fragments.py",
    "evaluate/kept.py",
    "evaluate/metrics/ranks.py",
    "evaluate/metrics/recall.py",
    "evaluate/metrics/truth.py",
    "evaluate/ragged.py",
    "evaluate/scores.py",
)


def of(run: Run, seed: int, inputs: list[Path], device: torch.device, backbone: dict | None = None) -> str:
    """Digest of the run's parameters, the seed, the input files, this package's training code and torch's version.

    backbone: what an image encoder that reads pixels depends on besides, as ``extract`` describes it: images, weights,
    transform, its code and its libraries.
    """
    parts = {
        "run": {key: describe(getattr(run, key)) for key in RUN_FAMILIES},
        "train": run.train.model_dump(),
        "seed": seed,
        "inputs": [sha256(path) for path in inputs],
        "code": [sha256(path) for path in sorted(code(run))],
        "libraries": {name: version(name) for name in ("torch", "numba", "numpy", "scipy")},
        "device": device.type,
    }
    if backbone is not None:
        parts["backbone"] = backbone
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def code(run: Run) -> set[Path]:
    """The files of this package that decide what the run becomes."""
    here = Path(__file__).parent
    found = {*here.glob("*.py"), *here.rglob("_*.py")}
    found |= {path for folder in ("mixture", "transport") for path in here.glob(f"{folder}/*.py")}
    found |= {PACKAGE / name for name in OUTSIDE}
    return found | {family.folder / f"{getattr(run, key).name}.py" for key, family in RUN_FAMILIES.items()}
