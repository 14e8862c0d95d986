"""Checks of the arguments of the Python door, and options of members."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ValidationError

from vse_pipe.core.errors import InputError, UsageError, missing
from vse_pipe.core.strict import Strict
from vse_pipe.project.registry import Family

if TYPE_CHECKING:
    import torch

Options = TypeVar("Options", bound=Strict)


def array(name: str, value: ArrayLike) -> np.ndarray:
    """The value as a numpy array, on the CPU. Raises InputError where it is none."""
    detach = getattr(value, "detach", None)
    if detach is not None:
        value = detach().cpu()
        value = value.float().numpy() if str(value.dtype) == "torch.bfloat16" else value.numpy()  # type: ignore[union-attr]
    try:
        found = np.asarray(value)
    except ValueError as error:
        raise InputError(f"{name}: rows of different lengths; give an array") from error
    if found.dtype == object:
        raise InputError(f"{name}: an array of objects, or rows of different lengths; give numbers")
    return found


def matrix(name: str, value: ArrayLike, columns: str = "dim") -> np.ndarray:
    """The value as (rows, columns) of floats, without a copy where it is one."""
    found = array(name, value)
    if found.ndim != 2:
        raise InputError(f"{name} has shape {found.shape}; expected (rows, {columns})")
    if found.dtype not in (np.float16, np.float32, np.float64):
        if found.dtype.kind not in "iu":
            raise InputError(f"{name} holds {found.dtype}; expected floating-point numbers")
        found = found.astype(np.float32)
    return found


def integers(name: str, value: ArrayLike, count: int, things: str) -> np.ndarray:
    """The value as int64 (count,). things: what it has an entry for, in the plural, for messages."""
    found = array(name, value)
    if found.ndim != 1 or len(found) != count:
        entries = f"shape {found.shape}" if found.ndim != 1 else f"{len(found):,} entries"
        raise InputError(f"{name} has {entries} for {count:,} {things}")
    if found.dtype.kind not in "iu":
        raise InputError(f"{name} holds {found.dtype}; expected integers")
    return found.astype(np.int64)


def device(*values: ArrayLike) -> "torch.device":
    """The device of the tensors among the values, the CPU where it has no float64. Raises InputError for several."""
    import torch

    from vse_pipe.core.devices import WITHOUT_FLOAT64

    found = {value.device for value in values if isinstance(value, torch.Tensor)}
    if len(found) > 1:
        raise InputError(f"tensors on {' and '.join(sorted(map(str, found)))}; move them to one device")
    place = next(iter(found), torch.device("cpu"))
    return torch.device("cpu") if place.type in WITHOUT_FLOAT64 else place


def image_rows(owners: ArrayLike | None, images: int, captions: int) -> np.ndarray:
    """``owners`` as int64 (captions,), the row of each caption's image; None: caption i describes image i."""
    if owners is None:
        if images != captions:
            advice = "give each caption's image"
            raise InputError(f"owners is missing: {captions:,} captions for {images:,} images; {advice}")
        return np.arange(captions)
    rows = integers("owners", owners, captions, "captions")
    outside = np.flatnonzero((rows < 0) | (rows >= images))
    if len(outside):
        raise InputError(f"owners: entry {outside[0]} is {rows[outside[0]]}, and there are {images:,} images")
    return rows


def require_one_width(**sides: "np.ndarray | torch.Tensor") -> None:
    """Raises InputError where vectors (rows, dim) have other dimensions than the first."""
    (first, base), *others = sides.items()
    for name, value in others:
        if value.shape[1] != base.shape[1]:
            widths = f"{name} has {value.shape[1]:,} dimensions and {first} {base.shape[1]:,}"
            raise InputError(f"{widths}; both must come from one model")


def chosen(name: str, value: str, known: Iterable[str]) -> str:
    """The value if it is known. Raises UsageError with the near miss."""
    names = list(known)
    if value not in names:
        raise UsageError(missing(f"unknown {name} '{value}'", str(value), names))
    return value


def member(family: Family[Any], title: str) -> str:
    """The member with this name in other letters: ``hal_emnlp`` for ``HAL_EMNLP``. Raises AttributeError with the near miss,
    because modules are asked for many names."""
    names = {name.replace("_", ""): name for name in family.names()}
    found = names.get(title.replace("_", "").lower())
    if found is None:
        raise AttributeError(missing(f"unknown {family.kind} '{title}'", title.lower(), names.values()))
    return found


def configured(title: str, options: Callable[..., Options], values: dict[str, object]) -> Options:
    """The options of a member. Raises UsageError, one line with the name of each wrong value."""
    try:
        return options(**values)
    except ValidationError as error:
        known = list(getattr(options, "model_fields", {}))
        problems = [_problem(str(".".join(map(str, each["loc"]))), each["msg"], known) for each in error.errors()]
        raise UsageError(f"{title}: {'; '.join(problems)}") from error


def _problem(address: str, message: str, known: list[str]) -> str:
    if message.startswith("Extra inputs"):
        return missing(f"unknown option '{address}'", address, known)
    message = message.removeprefix("Value error, ")
    return f"{address}: {message[:1].lower()}{message[1:]}" if address else message
