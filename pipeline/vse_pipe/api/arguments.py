"""Checks of the arguments of the Python door, and options of members."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from pydantic import ValidationError
from torch import Tensor

from vse_pipe.core.errors import InputError, UsageError, unknown
from vse_pipe.core.strict import Strict, in_words
from vse_pipe.project.registry import Family
from vse_pipe.ranking.rows import checked

Arguments = ParamSpec("Arguments")
Built = TypeVar("Built")
# Characters of numpy's types. Numbers of one byte are codes of vectors.
_TYPES = {"numbers": "efdhilq", "integers": "bhilqBHILQ", "truths": "?"}


def array(name: str, value: ArrayLike | None, *shape: int | str, kind: str = "numbers") -> np.ndarray:
    """The value as a numpy array on the CPU. shape: a text stands for any length; without one any
    shape fits. kind: a key of ``_TYPES``. Raises InputError for others, and for masked values."""
    if np.ma.is_masked(value):
        raise InputError(f"{name}: values are masked; fill them, or leave their rows out")
    try:
        if isinstance(value, Tensor):
            value = value.detach().cpu()
            value = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
        values = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name}: no array of rows of one length") from error
    pairs = zip(values.shape, shape, strict=False)
    is_alike = all(isinstance(expected, str) or length == expected for length, expected in pairs)
    if not is_alike or len(shape) not in (0, values.ndim) or values.dtype.char not in _TYPES[kind]:
        expected = f"({', '.join(map(str, shape))}) {kind}" if shape else kind
        raise InputError(f"{name} has shape {values.shape} of {values.dtype}; expected {expected}")
    return values


def matrix(name: str, value: ArrayLike | None, rows: int | str = "rows", columns: int | str = "dim") -> np.ndarray:
    """The value as (rows, columns) of floats, without a copy where it is one."""
    values = array(name, value, rows, columns)
    dtype = values.dtype.newbyteorder("=") if values.dtype.kind == "f" else np.float64
    return values.astype(dtype, copy=False)


def cells(
    name: str, value: ArrayLike | None, place: torch.device, rows: int | str = "rows", columns: int | str = "columns"
) -> Tensor:
    """Scores (rows, columns) on the device, without a copy where torch takes them as they are."""
    numbers = np.require(matrix(name, value, rows, columns), requirements=["C", "W"])
    return torch.from_numpy(numbers).to(place)


def device(*values: ArrayLike) -> torch.device:
    """The device of the tensors, or the CPU. Raises InputError for several."""
    devices = {value.device for value in values if isinstance(value, Tensor)}
    if len(devices) > 1:
        names = " and ".join(sorted(map(str, devices)))
        raise InputError(f"tensors on {names}; move them to one device")
    return next(iter(devices), torch.device("cpu"))


def rows(name: str, value: ArrayLike | None, similarity: str, width: int | str = "dim") -> np.ndarray:
    """Checked float32 vectors, of length 1 under cosine."""
    return checked(name, matrix(name, value, columns=width), similarity)


def image_rows(owners: ArrayLike | None, images: int, captions: int) -> np.ndarray:
    """``owners`` as int64 (captions,), the row of each caption's image; None: caption i describes
    image i."""
    if owners is None:
        if images != captions:
            raise InputError(f"owners is missing: {captions:,} captions for {images:,} images")
        return np.arange(captions)
    numbers = array("owners", owners, captions, kind="integers").astype(np.int64)
    outside = np.flatnonzero((numbers < 0) | (numbers >= images))
    if len(outside):
        entry = f"owners: entry {outside[0]} is {numbers[outside[0]]}"
        raise InputError(f"{entry}, and there are {images:,} images; give rows of images")
    return numbers


def number(name: str, value: object, least: int = 1) -> int:
    """The value if it is an integer of at least ``least``. Raises UsageError."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise UsageError(f"{name} is {value!r}; expected {least} or more")
    return int(value)


def chosen(name: str, value: str, members: Iterable[str]) -> str:
    """The value if it is a member. Raises UsageError."""
    names = list(members)
    if value not in names:
        raise UsageError(unknown(name, str(value), names))
    return value


def member(family: Family[Any], title: str) -> str:
    """The member with this name in other letters: ``hal_emnlp`` for ``HAL_EMNLP``. Raises
    AttributeError, because modules are asked for many names."""
    names = {name.replace("_", ""): name for name in family.names()}
    name = names.get(title.replace("_", "").lower())
    if name is None:
        raise AttributeError(unknown(family.kind, title, names.values()))
    return name


def factory(
    family: Family[Any], title: str, options: Callable[Arguments, Strict], build: Callable[[str, Strict], Built]
) -> Callable[Arguments, Built]:
    """A function of a member's options, with its documentation. title: the member's name in other
    letters; build: the result of the function, from the member's name and options."""
    name = member(family, title)

    def built(*args: Arguments.args, **values: Arguments.kwargs) -> Built:
        if args:
            raise TypeError(f"{family.kind} {name}: give its options by name")
        return build(name, configured(f"{family.kind} {name}", options, dict(values)))

    module = family.load(name)
    work = next(getattr(module, verb) for verb in ("loss", "match", "rerank") if hasattr(module, verb))
    built.__name__ = built.__qualname__ = title
    built.__module__ = build.__module__
    built.__doc__ = f"{inspect.getdoc(module)}\n\n{inspect.getdoc(work)}"
    built.__signature__ = inspect.signature(options)  # type: ignore[attr-defined]
    return built


def configured(title: str, options: Any, values: dict[str, object]) -> Any:
    """The options of a member. Raises UsageError, one line with the name of each wrong value."""
    scalars = {key: value.item() for key, value in values.items() if isinstance(value, np.generic)}
    try:
        return options(**{**values, **scalars})
    except ValidationError as error:
        problems = [": ".join([*map(str, place), text]) for place, text in in_words(error)]
        raise UsageError(f"{title}: {'; '.join(problems)}") from error
