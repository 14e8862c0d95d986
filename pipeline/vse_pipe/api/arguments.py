"""Checks of the arguments of the Python door, and options of members."""

import warnings
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ValidationError

from vse_pipe.core.errors import InputError, UsageError, missing
from vse_pipe.core.strict import in_words
from vse_pipe.project.registry import Family

if TYPE_CHECKING:
    import torch

SIMILARITIES = ("cosine", "dot")


def array(name: str, value: ArrayLike | None) -> np.ndarray:
    """The value as a numpy array, on the CPU. Raises InputError where it is none, and for masked values."""
    if any(np.ma.is_masked(part) for part in [value, *(value if isinstance(value, list | tuple) else ())]):
        raise InputError(f"{name}: values are masked; fill them, or leave their rows out")
    detach = getattr(value, "detach", None)
    try:
        if detach is not None:
            value = detach().cpu()
            value = value.float().numpy() if str(value.dtype) == "torch.bfloat16" else value.numpy()  # type: ignore[union-attr]
        values = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{name}: no array of numbers with rows of one length ({reason})") from error
    if values.dtype == object:
        raise InputError(f"{name}: no array of numbers with rows of one length (objects)")
    return values


def matrix(name: str, value: ArrayLike | None, columns: str = "dim") -> np.ndarray:
    """The value as (rows, columns) of floats, without a copy where it is one."""
    values = array(name, value)
    if values.ndim != 2:
        raise InputError(f"{name} has shape {values.shape}; expected (rows, {columns})")
    if values.dtype.kind not in "fiu" or values.dtype.itemsize > np.dtype(np.float64).itemsize:
        raise InputError(f"{name} holds {values.dtype}; expected floating-point numbers")
    if values.dtype.kind != "f":
        return values.astype(np.float64)
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def writable(name: str, value: ArrayLike | None, columns: str) -> np.ndarray:
    """As ``matrix``; a copy where torch cannot take the array as it is."""
    return np.require(matrix(name, value, columns), requirements=["C", "W"])


def integers(name: str, value: ArrayLike, count: int, items: str) -> np.ndarray:
    """The value as int64 (count,). items: what it has an entry for, in the plural, for messages."""
    values = array(name, value)
    if values.shape != (count,) or values.dtype.kind not in "iu":
        raise InputError(f"{name} has shape {values.shape} of {values.dtype}; expected {count:,} integers, for {items}")
    return values.astype(np.int64)


def device(*values: ArrayLike) -> "torch.device":
    """The device of the tensors among the values, the CPU where it has no float64. Raises InputError for several."""
    import torch

    from vse_pipe.core.devices import WITHOUT_FLOAT64

    devices = {value.device for value in values if isinstance(value, torch.Tensor)}
    if len(devices) > 1:
        raise InputError(f"tensors on {' and '.join(sorted(map(str, devices)))}; move them to one device")
    place = next(iter(devices), torch.device("cpu"))
    return torch.device("cpu") if place.type in WITHOUT_FLOAT64 else place


def has_tensors(*values: ArrayLike) -> bool:
    return any(hasattr(value, "detach") for value in values)


def unpacked(name: str, value: ArrayLike | None) -> np.ndarray:
    """As ``matrix``. Raises InputError for codes, which pack or round vectors."""
    values = array(name, value)
    if values.dtype.kind == "u" or values.dtype == np.int8:
        advice = "decode codes to floats; signs: np.unpackbits(codes.view(np.uint8), axis=1) * 2.0 - 1"
        raise InputError(f"{name} holds {values.dtype}, as codes of vectors do; {advice}")
    return matrix(name, values)


def rows(name: str, value: ArrayLike | None, similarity: str) -> np.ndarray:
    """Checked float32 vectors, of length 1 under cosine."""
    from vse_pipe.ranking.files import Book
    from vse_pipe.ranking.rows import checked

    numbers = unpacked(name, value)
    return checked(name, np.arange(len(numbers)), numbers, similarity, partial(Book().label, "row"))


def vectors(name: str, value: ArrayLike | None, similarity: str, place: "torch.device") -> "torch.Tensor":
    """``rows`` on a device."""
    import torch

    return torch.from_numpy(rows(name, value, similarity)).to(place)


def warn(message: str | None, depth: int) -> None:
    """depth: frames up to the caller of the door."""
    if message:
        warnings.warn(message, stacklevel=depth)


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
        first = f"owners: entry {outside[0]} is {rows[outside[0]]}, and there are {images:,} images"
        raise InputError(f"{first}; give rows of images, of ids np.unique(ids, return_inverse=True)[1]")
    return rows


def require_one_width(**sides: "np.ndarray | torch.Tensor") -> None:
    """Raises InputError where vectors (rows, dim) have other dimensions than the first."""
    (first, base), *rest = sides.items()
    for name, value in rest:
        if value.shape[1] != base.shape[1]:
            widths = f"{name} has {value.shape[1]:,} dimensions and {first} {base.shape[1]:,}"
            raise InputError(f"{widths}; both must come from one model")


def number(name: str, value: object, least: int = 1) -> int:
    """The value if it is an integer of at least ``least``. Raises UsageError."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise UsageError(f"{name} is {value!r}; expected {least} or more")
    return int(value)


def chosen(name: str, value: str, members: Iterable[str]) -> str:
    """The value if it is a member. Raises UsageError with the near miss."""
    names = list(members)
    if not isinstance(value, str) or value not in names:
        raise UsageError(missing(f"unknown {name} '{value}'", str(value), names))
    return value


def member(family: Family[Any], title: str) -> str:
    """The member with this name in other letters: ``hal_emnlp`` for ``HAL_EMNLP``. Raises AttributeError with the near miss,
    because modules are asked for many names."""
    names = {name.replace("_", ""): name for name in family.names()}
    name = names.get(title.replace("_", "").lower())
    if name is None:
        raise AttributeError(missing(f"unknown {family.kind} '{title}'", title.lower(), names.values()))
    return name


def configured(title: str, options: Any, values: dict[str, object]) -> Any:
    """The options of a member. Raises UsageError, one line with the name of each wrong value."""
    plain = {key: value.item() if isinstance(value, np.generic) else value for key, value in values.items()}
    try:
        return options(**plain)
    except ValidationError as error:
        problems = [": ".join([*map(str, place), text]) for place, text in in_words(options, error)]
        raise UsageError(f"{title}: {'; '.join(problems)}") from error
