"""The base of every parameter model, and its problems in words."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

# Size of a layer, word vector or embedding: a million is far more than any model has.
Width = Annotated[int, Field(ge=1, le=2**20)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
WEIGHT_FILES = (".pth", ".pt", ".safetensors")

# A misspelt name would otherwise be taken for a path and be reported as a missing file.
WeightsName = Annotated[str, StringConstraints(pattern=r"^(imagenet|random|[A-Z][A-Z0-9_]*|.*\.(pth|pt|safetensors))$")]


class Strict(BaseModel):
    """Unknown keys, wrong types, NaN and infinity are errors; values never change after loading. The
    docstring under a field explains its key."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


# A problem of a value: its place in the model, and the text.
Problem = tuple[tuple[str | int, ...], str]
_IN_WORDS = "in_words"


def invalid(problems: Iterable[Problem]) -> ValidationError:
    """A validator's error for several problems, each at its place below the value."""
    errors = [
        InitErrorDetails(type=PydanticCustomError(_IN_WORDS, text), loc=place, input=None) for place, text in problems
    ]
    return ValidationError.from_exception_data("values", errors)


def in_words(error: ValidationError) -> list[Problem]:
    """Place and text of each problem of a validation."""
    return [(problem["loc"], _phrase(problem)) for problem in error.errors()]


def _phrase(problem: Mapping[str, Any]) -> str:
    kind, message, value = problem["type"], problem["msg"].removeprefix("Value error, "), problem["input"]
    if kind == _IN_WORDS:
        return message
    if kind == "extra_forbidden":
        return "unknown key"
    message = message[:1].lower() + message[1:]
    is_named = isinstance(value, str) and repr(value) in message
    return message if kind == "missing" or is_named or isinstance(value, dict) else f"{message}, got {value!r}"
