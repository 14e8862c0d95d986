"""The state from which a killed training goes on, and the mark of a finished one.

last/state.pt is replaced after every epoch: fingerprint, model, optimizer and ``Progress``. Batch
orders follow from (seed, epoch), so no generator state is saved, and a resumed run is bit-equal to
an uninterrupted one.

last/finished.json has the fingerprint of a finished run and the digests of its files. ``train`` with the same inputs reads it and
returns; DVC calls ``train`` after every edit of a file that only some runs import.
"""

import hashlib
import json
import shutil
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vse_pipe.artifacts import identity, model_files
from vse_pipe.core import processes
from vse_pipe.core.console import warn
from vse_pipe.core.errors import IntegrityError, damaged
from vse_pipe.core.files import (
    partial_folder,
    read_json,
    replace_folder,
    sha256,
    whole_file,
    write_json,
)
from vse_pipe.project import code, paths
from vse_pipe.project.params.schema import NO_WEIGHT
from vse_pipe.project.params.typed import Run
from vse_pipe.project.registry import RUN_FAMILIES
from vse_pipe.train.model import describe

STATE = Path("last") / "state.pt"
FINISHED = Path("last") / "finished.json"
_STAGE = "vse_pipe.train.stage"


def fingerprint_of(
    name: str, run: Run, inputs: identity.Inputs, device: torch.device, backbone: dict | None = None
) -> str:
    """Digest of the run's name and parameters, its inputs, the training code and library versions.

    backbone: description of the network that an encoder holds.
    """
    parts = {
        "name": name,
        "run": {key: describe(getattr(run, key)) for key in RUN_FAMILIES},
        # Another number of processes changes only rounding.
        "train": run.train.model_dump(exclude=NO_WEIGHT),
        "seed": run.seed,
        "inputs": inputs,
        "code": code_of(run),
        "libraries": {name: version(name) for name in ("torch", "numpy", "scipy")},
        "device": device.type,
        "backbone": backbone,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def code_of(run: Run) -> str:
    """Digest of the training code: the imports of the stage, and the members that the run names."""
    members = {family: getattr(run, key).name for key, family in RUN_FAMILIES.items()}
    modules = [family.module(name) for family, name in members.items()]
    return code.digest(code.closure([_STAGE, *modules]))


def begin(out: Path, mark: str) -> Path:
    """The folder beside ``out`` to build a model in. The first process removes it unless it holds a
    state of the run with the fingerprint ``mark``."""
    building = partial_folder(out)
    if processes.is_first() and read(building, mmap=True).get("fingerprint") != mark:
        shutil.rmtree(building, ignore_errors=True)
    return building


def finish(building: Path, out: Path, mark: str, inputs: identity.Inputs) -> None:
    """Mark the model in ``building`` as finished and put it in the place of ``out``, with any seeds
    in it. The state is removed after that: a call that is killed before goes on from it. Raises
    LockedError where a process still writes a seed."""
    identity.write(building, inputs, model_files.parts(building))
    write_json(building / FINISHED, _ended(building, mark))
    with paths.claimed_seeds(out):
        replace_folder(building, out)
    drop_state(out)


def is_finished(folder: Path, mark: str) -> bool:
    """Whether the run with this fingerprint is finished and every file in ``folder`` is as it was
    written."""
    path = folder / FINISHED
    return path.is_file() and read_json(path) == _ended(folder, mark)


def _ended(folder: Path, mark: str) -> dict:
    files = {
        path.relative_to(folder).as_posix(): sha256(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path not in (folder / FINISHED, folder / STATE)
    }
    return {"fingerprint": mark, "files": files}


def drop_state(folder: Path) -> None:
    """Remove the state of a finished run."""
    (folder / STATE).unlink(missing_ok=True)


@dataclass
class Progress:
    """State of a run after ``epoch`` epochs.

    best: weights of the scheme's models, one or two, at the epoch of the highest validation rsum;
    records: one record of the scheme for each epoch; scheme: its state; average: averaged weights;
    stuck: why the last epoch stood still at chance, if it did.
    """

    epoch: int = 0
    best_rsum: float = -1.0
    best_epoch: int = -1
    best: list[dict[str, Tensor]] = field(default_factory=list)
    history: list[dict] = field(default_factory=list)
    records: list[dict] = field(default_factory=list)
    scheme: dict[str, Any] = field(default_factory=dict)
    average: dict[str, Tensor] = field(default_factory=dict)
    stuck: str | None = None


def save(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, progress: Progress, mark: str) -> None:
    """Write the state. mark: the fingerprint of the run."""
    state = {"fingerprint": mark, "trained": state_of(model, optimizer), "progress": vars(progress)}
    # An open file, because torch's own has no OSError for a full disk.
    with whole_file(folder / STATE) as path, path.open("wb") as file:
        torch.save(state, file)


def resume(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, mark: str) -> Progress:
    """Load the state into ``model`` and ``optimizer``; a fresh Progress when there is none for this
    fingerprint."""
    state = read(folder)
    if state.get("fingerprint") != mark:
        return Progress()
    load_into(model, optimizer, state["trained"])
    return Progress(**state["progress"])


def read(folder: Path, mmap: bool = False) -> dict:
    """The state; empty without one, or with a damaged one (after a warning). mmap: tensors are read
    when they are used."""
    path = folder / STATE
    if not path.is_file():
        return {}
    try:
        with damaged(path, "is no state of a training"):
            return torch.load(path, "cpu", weights_only=True, mmap=mmap)  # noqa: TID251 (as there)
    except IntegrityError as error:
        warn(f"{error}; training starts from the beginning")
        return {}


def state_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Weights and moments, as input of ``load_into``."""
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()["state"]}


def load_into(model: torch.nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Restore the result of ``state_of``."""
    model.load_state_dict(state["model"])
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state["optimizer"]})
