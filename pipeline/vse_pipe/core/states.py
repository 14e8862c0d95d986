"""Weight files to parameters: tensors only, every key accounted for."""

import contextlib
import io
import mmap
import pickletools
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError  # noqa: TID251 (what torch raises where it refuses to unpickle)
from typing import IO, TypeVar, cast

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from vse_pipe.core import memory, seeds
from vse_pipe.core.errors import Damage, InputError, IntegrityError

State = dict[str, Tensor]
Network = TypeVar("Network", bound=nn.Module)
_WRAPPERS = ("state_dict", "model_state_dict", "model")
_PREFIX = "module."
_SHOWN = 4
# Of an object in a file of old torch: a number, a version, the machine, the object; then the storages.
_PICKLES = 4
_LONGEST_NAME = 1000
_DAMAGE = Damage(IntegrityError, "fetch it again")


def seeded(make: Callable[[], Network], seed: int, *names: str) -> Network:
    """Build a module whose initial values follow from ``seed`` and ``names``; torch's global generator stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seeds.derive_seed(seed, "weights", *names))
        return make()


def read(path: Path) -> State:
    """Tensors by name from .safetensors, or from .pth/.pt through torch's weights-only reader.

    Unwraps ``{"state_dict": ...}`` and the ``module.`` prefix of DataParallel. Raises InputError for a pickle that
    holds anything but tensors (nothing in it is run, and there is no second, unsafe attempt) and for files that are
    no state dict; IntegrityError for damaged ones.
    """
    content = _safetensors(path) if path.suffix == ".safetensors" else _pickled(path)
    for wrapper in _WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
    if not isinstance(content, dict) or not content or not all(isinstance(value, Tensor) for value in content.values()):
        raise InputError(f"{path}: not a state dict: expected names with tensors, got {_describe(content)}")
    if all(name.startswith(_PREFIX) for name in content):
        content = {name.removeprefix(_PREFIX): tensor for name, tensor in content.items()}
    return dict(content)


def load(model: nn.Module, state: State, path: Path) -> None:
    """Copy ``state`` into ``model``, all of it and nothing left over. Raises InputError naming the keys that differ."""
    own = model.state_dict()
    shapes = [
        f"{k} is {_shape(state[k])}, expected {_shape(own[k])}"
        for k in own
        if k in state and state[k].shape != own[k].shape
    ]
    problems = {
        "missing": [k for k in own if k not in state],
        "unexpected": [k for k in state if k not in own],
        "shapes": shapes,
    }
    found = [f"{kind}: {', '.join(keys[:_SHOWN])}{_more(keys)}" for kind, keys in problems.items() if keys]
    if found:
        raise InputError(f"{path} does not fit {type(model).__name__}: {'; '.join(found)}")
    model.load_state_dict(state)


def _safetensors(path: Path) -> State:
    with _DAMAGE.named(path, "damaged safetensors file"):
        return load_file(path)


def _pickled(path: Path) -> object:
    with _DAMAGE.named(path, "damaged weights file"), warnings.catch_warnings():
        # TorchScript archives and old storages warn before they are refused or read; the outcome says enough.
        warnings.simplefilter("ignore")
        if zipfile.is_zipfile(path):  # its members may be packed, and then of any size
            with zipfile.ZipFile(path) as file:
                memory.require(str(path), sum(member.file_size for member in file.infolist()))
                for name in file.namelist():
                    if name.endswith("data.pkl"):
                        _require_short_names(path, io.BytesIO(file.read(name)))
        elif path.stat().st_size:
            with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
                _require_short_names(path, content)
        try:
            return torch.load(path, map_location="cpu", weights_only=True)  # noqa: TID251 (the one place)
        except UnpicklingError as error:
            reason = (str(error).strip() or "not a pickle").splitlines()[0]
            raise InputError(f"{path}: holds more than tensors, refused ({reason}); save it as safetensors") from error


def _require_short_names(path: Path, pickled: io.BytesIO | mmap.mmap) -> None:
    """torch searches its message about a name that it refuses in a time that grows with the square of the name's length:
    100 kB take minutes. Nothing is run here; what else is wrong, torch says.
    """
    with contextlib.suppress(ValueError):  # no pickle, or no more of them
        for _ in range(_PICKLES):
            for opcode, name, _ in pickletools.genops(cast(IO[bytes], pickled)):
                if opcode.name in ("GLOBAL", "INST") and len(str(name)) > _LONGEST_NAME:
                    raise InputError(
                        f"{path}: names a class of {len(str(name))} characters, refused; save it as safetensors"
                    )


def _describe(content: object) -> str:
    if not isinstance(content, dict):
        return type(content).__name__
    odd = [f"{name!r}: {type(value).__name__}" for name, value in content.items() if not isinstance(value, Tensor)]
    return f"a dictionary with {', '.join(odd[:_SHOWN])}{_more(odd)}" if odd else "an empty dictionary"


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a number"


def _more(keys: list) -> str:
    return f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
