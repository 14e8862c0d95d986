"""Checks of the arguments of the Python door, and options of members."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from pydantic import ValidationError
from torch import Tensor

from vse_pipe.core.errors import InputError, UsageError, missing
from vse_pipe.core.strict import in_words
from vse_pipe.project.registry import Family
from vse_pipe.ranking.files import Book
from vse_pipe.ranking.rows import checked


def array(name: str, value: ArrayLike | None) -> np.ndarray:
    """The value as a numpy array, on the CPU. Raises InputError where it is none, and for masked
    values."""
    if np.ma.is_masked(value):
        raise InputError(f"{name}: values are masked; fill them, or leave their rows out")
    try:
        if isinstance(value, Tensor):
            value = value.detach().cpu()
            value = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
        values = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name}: no array of rows of one length") from error
    return values


def matrix(name: str, value: ArrayLike | None, columns: str = "dim") -> np.ndarray:
    """The value as (rows, columns) of floats, without a copy where it is one. Raises InputError for
    unsigned numbers and bytes too, which are codes of vectors."""
    values = array(name, value)
    if values.ndim != 2:
        raise InputError(f"{name} has shape {values.shape}; expected (rows, {columns})")
    if values.dtype.kind not in "fi" or not 1 < values.dtype.itemsize <= 8:
        raise InputError(f"{name} holds {values.dtype}; expected floating-point numbers")
    dtype = values.dtype.newbyteorder("=") if values.dtype.kind == "f" else np.float64
    return values.astype(dtype, copy=False)


def cells(name: str, value: ArrayLike | None, place: torch.device) -> Tensor:
    """Scores (rows, columns) on the device, without a copy where torch takes them as they are."""
    numbers = np.require(matrix(name, value, "columns"), requirements=["C", "W"])
    return torch.from_numpy(numbers).to(place)


def integers(name: str, value: ArrayLike, items: str, count: int | None = None) -> np.ndarray:
    """The value as int64 (count,). items: what it has an entry for, in the plural; count: None for
    any number of them."""
    values = array(name, value)
    if values.ndim != 1 or values.dtype.kind not in "iu" or len(values) != (count or len(values)):
        expected = f"{'' if count is None else f'{count:,} '}integers, for {items}"
        raise InputError(f"{name} has shape {values.shape} of {values.dtype}; expected {expected}")
    return values.astype(np.int64)


def device(*values: ArrayLike) -> torch.device:
    """The device of the tensors, or the CPU. Raises InputError for several."""
    devices = {value.device for value in values if isinstance(value, Tensor)}
    if len(devices) > 1:
        names = " and ".join(sorted(map(str, devices)))
        raise InputError(f"tensors on {names}; move them to one device")
    return next(iter(devices), torch.device("cpu"))


def rows(name: str, value: ArrayLike | None, similarity: str) -> np.ndarray:
    """Checked float32 vectors, of length 1 under cosine."""
    numbers = matrix(name, value)
    return checked(name, np.arange(len(numbers)), numbers, similarity, partial(Book().label, "row"))


def image_rows(owners: ArrayLike | None, images: int, captions: int) -> np.ndarray:
    """``owners`` as int64 (captions,), the row of each caption's image; None: caption i describes
    image i."""
    if owners is None:
        if images != captions:
            raise InputError(f"owners is missing: {captions:,} captions for {images:,} images")
        return np.arange(captions)
    rows = integers("owners", owners, "captions", captions)
    outside = np.flatnonzero((rows < 0) | (rows >= images))
    if len(outside):
        entry = f"owners: entry {outside[0]} is {rows[outside[0]]}"
        raise InputError(f"{entry}, and there are {images:,} images; give rows of images")
    return rows


def require_one_width(**sides: np.ndarray | Tensor) -> None:
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
    if value not in names:
        raise UsageError(missing(f"unknown {name} '{value}'", str(value), names))
    return value


def member(family: Family[Any], title: str) -> str:
    """The member with this name in other letters: ``hal_emnlp`` for ``HAL_EMNLP``. Raises
    AttributeError with the near miss, because modules are asked for many names."""
    names = {name.replace("_", ""): name for name in family.names()}
    name = names.get(title.replace("_", "").lower())
    if name is None:
        problem = f"unknown {family.kind} '{title}'"
        raise AttributeError(missing(problem, title.lower(), names.values()))
    return name


def configured(title: str, options: Any, values: dict[str, object]) -> Any:
    """The options of a member. Raises UsageError, one line with the name of each wrong value."""
    scalars = {key: value.item() for key, value in values.items() if isinstance(value, np.generic)}
    try:
        return options(**{**values, **scalars})
    except ValidationError as error:
        problems = [": ".join([*map(str, place), text]) for place, text in in_words(error)]
        raise UsageError(f"{title}: {'; '.join(problems)}") from error
