"""The state from which a killed training goes on, and the mark of a finished one.

last/<fingerprint>.pt is replaced after every epoch: model, optimizer and ``Progress``. Batch orders
follow from (seed, epoch), so no generator state is saved, and a resumed run is bit-equal to an
uninterrupted one.

The part ``training`` in made_from.json of a finished run is a digest of its fingerprint and files.
``train`` with the same inputs compares it and returns; DVC calls ``train`` after every edit of a
file that only some runs import.
"""

import contextlib
import shutil
import zipfile
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from vse_pipe.artifacts import digests, identity, model_files, pairs
from vse_pipe.core import processes
from vse_pipe.core.console import say, warn
from vse_pipe.core.errors import IntegrityError, PipelineError, damaged
from vse_pipe.core.files import partial_folder, replace_folder, whole_file
from vse_pipe.project import code, paths
from vse_pipe.project.params.schema import NO_WEIGHT
from vse_pipe.project.params.typed import Run
from vse_pipe.project.registry import RUN_FAMILIES
from vse_pipe.train.model import describe

_LAST, _TRAINING = "last", "training"
_PEER = [f"{model_files.PEER}/{name}" for name in model_files.FILES]
_WRITTEN = (*model_files.FILES, *_PEER, model_files.HISTORY, pairs.REMATCHING)
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
        # Another number of processes changes only rounding and the numbers of dropout.
        "train": run.train.model_dump(exclude=NO_WEIGHT),
        "seed": run.seed,
        "inputs": inputs,
        "code": code_of(run),
        "libraries": {name: version(name) for name in ("torch", "numpy", "scipy", "scikit-learn")},
        "device": device.type,
        "backbone": backbone,
    }
    return digests.of_values(parts)


def code_of(run: Run) -> str:
    """Digest of the training code: the imports of the stage, and the members that the run names."""
    members = {family: getattr(run, key).name for key, family in RUN_FAMILIES.items()}
    modules = [family.module(name) for family, name in members.items()]
    return code.digest(code.closure([_STAGE, *modules]))


@dataclass
class Progress:
    """State of a run after ``epoch`` epochs.

    best: weights of the scheme's models, one or two, at the epoch of the highest validation rsum, or
    at the last one for a scheme that keeps it; records: one record of the scheme for each epoch; scheme: its state; average: averaged weights;
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


class Checkpoint:
    """The state of an unfinished training, and the mark of a finished one. out: folder of the run;
    mark: fingerprint of the training."""

    def __init__(self, out: Path, mark: str) -> None:
        self.out, self.mark, self.building = out, mark, partial_folder(out)
        self.state = self.building / _LAST / f"{mark}.pt"

    def is_finished(self) -> bool:
        """Whether this training is finished and its files are as they were written. The state goes,
        which a killed call of ``finish`` may have left."""
        with contextlib.suppress(PipelineError):  # of a damaged made_from.json
            if identity.parts_of(self.out)[str(self.out)].get(_TRAINING) == self._ended(self.out):
                shutil.rmtree(self.out / _LAST, ignore_errors=True)
                return True
        return False

    def begin(self) -> None:
        """Prepare ``building``, the folder beside ``out`` for the new model; the state of another
        training is removed, with a message."""
        if processes.is_first() and not self.state.is_file():
            if list(self.building.glob(f"{_LAST}/*.pt")):
                say(f"{self.building}: removed, a state of other options, inputs, code or another kind of device")
            shutil.rmtree(self.building, ignore_errors=True)
        processes.wait()

    def save(self, model: nn.Module, optimizer: Optimizer, progress: Progress) -> None:
        content = {"trained": state_of(model, optimizer), "progress": vars(progress)}
        # An open file, because torch's own has no OSError for a full disk.
        with whole_file(self.state) as path, path.open("wb") as file:
            torch.save(content, file)

    def resume(self, model: nn.Module, optimizer: Optimizer) -> Progress:
        """Load the state into ``model`` and ``optimizer``; a fresh Progress without one, and after
        a warning where it is damaged. Raises PipelineError where processes do not share a folder."""
        is_there = self.state.is_file()
        if processes.first_answer(is_there) != is_there:
            raise PipelineError(f"{self.state}: not the same for all processes; they need a shared folder")
        if not is_there:
            return Progress()
        try:
            content = read(self.state)
        except IntegrityError as error:
            warn(f"{error}; training starts from the beginning")
            return Progress()
        load_into(model, optimizer, content["trained"])
        return Progress(**content["progress"])

    def finish(self, inputs: identity.Inputs) -> None:
        """Mark the model in ``building`` as finished and put it in the place of ``out``, with any
        seeds in it. The state is removed after that: a call that is killed before goes on from it.
        Raises LockedError where a process still writes a seed."""
        parts = model_files.parts(self.building) | {_TRAINING: self._ended(self.building)}
        identity.write(self.building, inputs, parts)
        with paths.claimed_seeds(self.out):
            replace_folder(self.building, self.out)
        shutil.rmtree(self.out / _LAST, ignore_errors=True)

    def _ended(self, folder: Path) -> str:
        """Digest of the training and of the model's files."""
        return digests.of_values([self.mark, identity.digest_of(folder, _WRITTEN)])


def read(path: Path) -> dict[str, Any]:
    """A state. Raises IntegrityError for another or a damaged file."""
    with damaged(path, "is no state of a training"):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                archive.read(name)  # compares its checksum, which torch does not
        content = torch.load(path, "cpu", weights_only=True)  # noqa: TID251 (as there)
        return {key: content[key] for key in ("trained", "progress")}


def state_of(model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Weights and moments, as input of ``load_into``."""
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()["state"]}


def load_into(model: nn.Module, optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Restore the result of ``state_of``."""
    model.load_state_dict(state["model"])
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state["optimizer"]})
