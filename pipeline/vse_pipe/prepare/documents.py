"""Json files of data sets: read whole, checked by pydantic dataclasses."""

import codecs
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, TypeAdapter, ValidationError

from vse_pipe.core import memory
from vse_pipe.core.errors import InputError

_NUMBER, _TEXT = "number", "text"
_Whole = BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value)
Id = Annotated[
    Annotated[int, _Whole, Field(ge=-(2**63), lt=2**63), Tag(_NUMBER)] | Annotated[str, Tag(_TEXT)],
    Discriminator(lambda value: _TEXT if isinstance(value, str) else _NUMBER),
]
Kind = TypeVar("Kind")

# Bytes that a byte of the json takes at most as entries: an estimate for the shortest possible
# entries.
_BYTES_OF_JSON = 16
STRICT = ConfigDict(strict=True, extra="ignore")


def parse(document: Path, kind: type[Kind]) -> Kind:
    """The content of a json as a pydantic dataclass. Raises InputError with the first problem."""
    memory.require(str(document), document.stat().st_size * _BYTES_OF_JSON)
    try:
        return TypeAdapter(kind).validate_json(document.read_bytes().removeprefix(codecs.BOM_UTF8))
    except ValidationError as error:
        problems = error.errors(include_url=False)
        parts = [part for part in problems[0]["loc"] if part not in (_NUMBER, _TEXT)]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")
        more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
        raise InputError(f"{' '.join([str(document), place]).strip()}: {problems[0]['msg']}{more}") from error
