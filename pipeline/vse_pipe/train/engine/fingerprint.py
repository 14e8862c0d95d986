"""What a checkpoint belongs to: resume only when nothing that decides the result has changed."""

import hashlib
import json
from importlib.metadata import version
from pathlib import Path

import torch

from vse_pipe.core.files import sha256
from vse_pipe.project import code
from vse_pipe.project.params.schema import NO_WEIGHT
from vse_pipe.project.params.typed import Run
from vse_pipe.project.registry import RUN_FAMILIES
from vse_pipe.train.engine.model import describe

_STAGE = "vse_pipe.train.stage"


def of(run: Run, seed: int, inputs: list[Path], device: torch.device, backbone: dict | None = None) -> str:
    """Digest of the run's parameters, the seed, the input files, this package's training code and torch's version.

    backbone: what an image encoder that reads pixels depends on besides, as ``extract`` describes it: images, weights,
    transform, its code and its libraries.
    """
    parts = {
        "run": {key: describe(getattr(run, key)) for key in RUN_FAMILIES},
        # A killed run may go on with another number of processes, which changes rounding alone. The rest changes no weight.
        "train": run.train.model_dump(exclude=NO_WEIGHT),
        "seed": seed,
        "inputs": [sha256(path) for path in inputs],
        "code": code_of(run),
        "libraries": {name: version(name) for name in ("torch", "numba", "numpy", "scipy")},
        "device": device.type,
    }
    if backbone is not None:
        parts["backbone"] = backbone
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def code_of(run: Run) -> str:
    """Digest of the training code: what the stage imports, and the members that the run names."""
    members = {family: getattr(run, key).name for key, family in RUN_FAMILIES.items()}
    return code.digest(code.closure([_STAGE, *(family.module(name) for family, name in members.items())]))
