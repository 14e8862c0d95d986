"""Fingerprint of a run, the mark of a finished run, and the state from which a killed run continues."""

import hashlib
import json
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from vse_pipe.core.console import warn
from vse_pipe.core.files import save_tensors, sha256, write_json
from vse_pipe.project import code
from vse_pipe.project.params.schema import NO_WEIGHT
from vse_pipe.project.params.typed import Run
from vse_pipe.project.registry import RUN_FAMILIES
from vse_pipe.train.model import describe

_STAGE = "vse_pipe.train.stage"


def run_fingerprint(run: Run, seed: int, inputs: list[Path], device: torch.device, backbone: dict | None = None) -> str:
    """Digest of the run's parameters, the seed, the input files, the training code and library versions.

    backbone: for image encoders that read pixels, the description by ``extract``: images, weights, transform, code, libraries.
    """
    parts = {
        "run": {key: describe(getattr(run, key)) for key in RUN_FAMILIES},
        # The left-out keys change no weight; another number of processes changes only rounding.
        "train": run.train.model_dump(exclude=NO_WEIGHT),
        "seed": seed,
        "inputs": [sha256(path) for path in inputs],
        "code": code_of(run),
        "libraries": {name: version(name) for name in ("torch", "numpy", "scipy")},
        "device": device.type,
    }
    if backbone is not None:
        parts["backbone"] = backbone
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def code_of(run: Run) -> str:
    """Digest of the training code: the imports of the stage, and the members that the run names."""
    members = {family: getattr(run, key).name for key, family in RUN_FAMILIES.items()}
    return code.digest(code.closure([_STAGE, *(family.module(name) for family, name in members.items())]))


# last/finished.json marks a finished run: its fingerprint and a digest of every file.
#
# ``train`` with the same inputs reads it and returns; DVC calls ``train`` after every edit of a file that only some runs
# import. The state of a killed run is no part of a finished run, unless ``keep_state`` is set.

FINISHED = Path("last") / "finished.json"


def record(folder: Path, mark: str, keep_state: bool = False) -> None:
    """Mark the run as finished, after all other files are written.

    mark: the run's fingerprint; keep_state: whether the state counts as a file of the run.
    """
    write_json(folder / FINISHED, _content(folder, mark, keep_state))


def is_finished(folder: Path, mark: str, keep_state: bool = False) -> bool:
    """Whether the run with this fingerprint is finished and every file in ``folder`` is unchanged."""
    path = folder / FINISHED
    if not path.is_file() or (keep_state and not (folder / STATE).is_file()):
        return False
    try:
        content = json.loads(path.read_bytes())
    except ValueError:
        return False  # damaged: the run is written again
    return content == _content(folder, mark, keep_state)


def drop_state(folder: Path) -> None:
    """Remove the state of a finished run."""
    (folder / STATE).unlink(missing_ok=True)


def _content(folder: Path, mark: str, keep_state: bool) -> dict:
    skipped = {FINISHED} if keep_state else {FINISHED, STATE}
    names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {
        "fingerprint": mark,
        "files": {name.as_posix(): sha256(folder / name) for name in names if name not in skipped},
    }


# The state of a run is one safetensors file, replaced after every epoch.
#
# Model, optimizer, best model and the scheme's state are its tensors. Its header has epoch, history, fingerprint and a digest
# of the content as JSON, so that a changed bit is noticed. Batch orders follow from (seed, epoch), so no generator state is
# saved, and a resumed run is bit-equal to an uninterrupted one.

STATE = Path("last") / "state.safetensors"
# Fields of Progress that are no tensors.
_NUMBERS = ("epoch", "best_rsum", "best_epoch", "history", "records")
_TENSORS = ("best", "best_peer", "scheme", "average")


@dataclass
class Progress:
    """State of a run after ``epoch`` epochs; ``best`` is the model of the highest validation rsum so far.

    best_peer: the scheme's second model at that epoch, if any. records: one record of the scheme for each epoch; scheme: its
    state; average: averaged weights. processes: the largest number of processes in an epoch.
    """

    epoch: int = 0
    best_rsum: float = -1.0
    best_epoch: int = -1
    best: dict[str, Tensor] = field(default_factory=dict)
    history: list[dict] = field(default_factory=list)
    records: list[dict] = field(default_factory=list)
    scheme: dict[str, Tensor] = field(default_factory=dict)
    best_peer: dict[str, Tensor] = field(default_factory=dict)
    average: dict[str, Tensor] = field(default_factory=dict)
    processes: int = 1


def save(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, progress: Progress, mark: str) -> None:
    tensors = tensors_of(model, optimizer)
    for kind in _TENSORS:
        tensors |= {f"{kind}/{name}": tensor for name, tensor in getattr(progress, kind).items()}
    header = {"fingerprint": mark} | {key: getattr(progress, key) for key in _NUMBERS}
    if progress.processes > 1:
        header["processes"] = progress.processes
    owned = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    header["sha256"] = _digest(header, owned)
    save_tensors(folder / STATE, owned, {"progress": json.dumps(header, sort_keys=True, allow_nan=False)})


def fingerprint(folder: Path) -> str | None:
    """Fingerprint of the state in ``folder``; None without a state, or with a damaged one (after a warning)."""
    state = _read(folder)
    return state[0]["fingerprint"] if state else None


def resume(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, mark: str) -> Progress:
    """Load the state into ``model`` and ``optimizer``; a fresh Progress when there is none for this fingerprint."""
    state = _read(folder)
    if state is None or state[0]["fingerprint"] != mark:
        return Progress()
    header, tensors = state
    load_into(model, optimizer, tensors)
    parts: dict[str, Any] = {kind: tensors_under(tensors, f"{kind}/") for kind in _TENSORS}
    return Progress(**{key: header[key] for key in _NUMBERS}, **parts, processes=header.get("processes", 1))


def tensors_under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors with this prefix, by their names without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _read(folder: Path) -> tuple[dict, dict[str, Tensor]] | None:
    """Header and tensors; None without a state, or with a damaged one (after a warning)."""
    path = folder / STATE
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get("progress", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        if header.pop("sha256", None) != _digest(header, tensors):
            raise ValueError("its content does not match its digest")
        return header, tensors
    except (SafetensorError, ValueError) as error:
        warn(f"{path} is damaged ({error}); training starts from the beginning")
        return None


def _digest(header: dict, tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True, allow_nan=False).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def tensors_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Weights and moments by name, as input of ``load_into``."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    for parameter, moments in optimizer.state.items():
        tensors |= {f"optimizer/{names[parameter]}/{key}": value for key, value in moments.items()}
    return tensors


def load_into(model: torch.nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Restore the result of ``tensors_of``; other names are ignored."""
    model.load_state_dict(tensors_under(tensors, "model/"))
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    places = {parameter: place for place, parameter in enumerate(parameters)}
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer/"):
            _, owner, key = name.split("/")
            parameter = model.get_parameter(owner)
            state.setdefault(places[parameter], {})[key] = _laid_out_as(parameter, tensor)
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _laid_out_as(parameter: Tensor, moment: Tensor) -> Tensor:
    """The moment in the memory order of its parameter, which the fused optimizer needs; the file has plain order."""
    return torch.empty_like(parameter).copy_(moment) if moment.shape == parameter.shape else moment
