"""What a checkpoint belongs to: resume only when nothing that decides the result has changed."""

import hashlib
import json
from importlib.metadata import version
from pathlib import Path

import torch

from pipeline.artifacts._files import sha256
from pipeline.params.typed import Run
from pipeline.registry import IMAGE_ENCODERS, LOSSES, SIMILARITIES, TEXT_ENCODERS
from pipeline.train.model import describe


def of(run: Run, seed: int, inputs: list[Path], device: torch.device) -> str:
    """Digest of the run's parameters, the seed, the input files, this package's training code and torch's version."""
    members = {"loss": LOSSES, "similarity": SIMILARITIES, "text": TEXT_ENCODERS, "image": IMAGE_ENCODERS}
    code = [*Path(__file__).parent.glob("*.py"), *Path(__file__).parent.rglob("_*.py")]
    code += [family.folder / f"{getattr(run, key).name}.py" for key, family in members.items()]
    parts = {
        "run": {key: describe(getattr(run, key)) for key in members},
        "train": run.train.model_dump(),
        "seed": seed,
        "inputs": [sha256(path) for path in inputs],
        "code": [sha256(path) for path in sorted(set(code))],
        "torch": version("torch"),
        "device": device.type,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
