"""What a checkpoint belongs to: resume only when nothing that decides the result has changed."""

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


# That a run is finished: last/finished.json, what it was trained under and a digest of every file it left.
#
# ``train`` called again with the same inputs reads this and returns; DVC calls it again after every edit of a file that only
# some runs import. The state that a killed run goes on from is no part of a finished run, unless it is kept.

FINISHED = Path("last") / "finished.json"


def record(folder: Path, mark: str, keep_state: bool = False) -> None:
    """To be called when everything else is written. mark: the run's fingerprint; keep_state: the state counts as a file of the run."""
    write_json(folder / FINISHED, _content(folder, mark, keep_state))


def is_finished(folder: Path, mark: str, keep_state: bool = False) -> bool:
    """Whether every file in ``folder`` is as the run with this fingerprint left it."""
    path = folder / FINISHED
    if not path.is_file() or (keep_state and not (folder / STATE).is_file()):
        return False
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        return False  # damaged: it is written anew with the rest
    return found == _content(folder, mark, keep_state)


def drop_state(folder: Path) -> None:
    """Remove the state of a run that is finished and does not keep it."""
    (folder / STATE).unlink(missing_ok=True)


def _content(folder: Path, mark: str, keep_state: bool) -> dict:
    skipped = {FINISHED} if keep_state else {FINISHED, STATE}
    names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {
        "fingerprint": mark,
        "files": {name.as_posix(): sha256(folder / name) for name in names if name not in skipped},
    }


# The state a killed run goes on from: one file, replaced whole after every epoch.
#
# Model, optimizer, best model so far and what the scheme keeps are tensors of one safetensors file; epoch, history and the
# fingerprint of everything the run depends on are JSON in its header, beside a digest of all of it: a changed bit would else
# decide the weights unseen. Batch orders derive from (seed, epoch), so no generator state needs to be kept and a resumed run
# is bit-equal to one that never stopped.

STATE = Path("last") / "state.safetensors"
# What of a Progress is no tensor.
_NUMBERS = ("epoch", "best_rsum", "best_epoch", "history", "records")
_TENSORS = ("best", "best_peer", "scheme", "average")


@dataclass
class Progress:
    """Where a run stands: ``epoch`` epochs are done; ``best`` is the model of the best validation rsum so far.

    best_peer: the model that the scheme trains beside it, as it was then, if there is one. records: of the scheme, an epoch
    each; scheme: what it keeps from epoch to epoch; average: of the weights, where they are averaged. processes: the most that
    trained an epoch.
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
    if progress.processes > 1:  # the state of one process is what it was
        header["processes"] = progress.processes
    owned = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    header["sha256"] = _digest(header, owned)
    save_tensors(folder / STATE, owned, {"progress": json.dumps(header, sort_keys=True, allow_nan=False)})


def fingerprint(folder: Path) -> str | None:
    """Whose state lies in ``folder``; None when there is none, or a damaged one (said so)."""
    found = _read(folder)
    return found[0]["fingerprint"] if found else None


def resume(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, mark: str) -> Progress:
    """Load the state into ``model`` and ``optimizer``; a fresh start when there is none for this fingerprint."""
    found = _read(folder)
    if found is None or found[0]["fingerprint"] != mark:
        return Progress()
    header, tensors = found
    load_into(model, optimizer, tensors)
    kept: dict[str, Any] = {kind: _named(tensors, f"{kind}/") for kind in _TENSORS}
    return Progress(**{key: header[key] for key in _NUMBERS}, **kept, processes=header.get("processes", 1))


def _named(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _read(folder: Path) -> tuple[dict, dict[str, Tensor]] | None:
    """Header and tensors; None when there is no state, or a damaged one (said so)."""
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
    found = hashlib.sha256(json.dumps(header, sort_keys=True, allow_nan=False).encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def tensors_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Weights and moments by name, what ``load_into`` takes back."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    found = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    for parameter, moments in optimizer.state.items():
        found |= {f"optimizer/{names[parameter]}/{key}": value for key, value in moments.items()}
    return found


def load_into(model: torch.nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Other names than those of ``tensors_of`` are left alone."""
    model.load_state_dict(_named(tensors, "model/"))
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
    """The fused optimizer walks weight and moments in the order they lie in memory; the file holds plain order."""
    return torch.empty_like(parameter).copy_(moment) if moment.shape == parameter.shape else moment
