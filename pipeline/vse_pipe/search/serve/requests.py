"""What a request may ask for, and uploads of photos."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.requests import Request

from vse_pipe.core.errors import UsageError
from vse_pipe.core.text import LONGEST
from vse_pipe.search.serve.site import checked, require_post

MAX_TEXT, MAX_K, DEFAULT_K = 1000, 100, 10
# Bytes of an upload; a photo of a telephone has 3 to 12 MB.
MAX_UPLOAD = 20_000_000
# Last result that can be requested.
DEEPEST = 10_000
Condition = Annotated[str, Field(max_length=MAX_TEXT)]


class Query(BaseModel):
    """One search: exactly one of ``text``, ``image_id`` and ``photo`` is set. k: number of results
    after the first ``offset``; the other fields: as in ``vse_pipe.search.query.Limits``."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    text: Annotated[str, Field(max_length=MAX_TEXT)] | None = None
    image_id: Annotated[str, Field(max_length=LONGEST)] | None = None
    photo: bytes | None = None
    k: Annotated[int, Field(ge=1, le=MAX_K)] = DEFAULT_K
    offset: Annotated[int, Field(ge=0, le=DEEPEST)] = 0
    inference: str | None = None
    to: Literal["images", "captions"] | None = None
    where: tuple[Condition, ...] = ()

    @model_validator(mode="after")
    def _has_one_subject(self) -> Self:
        if sum(subject is not None for subject in (self.text, self.image_id, self.photo)) != 1:
            raise ValueError("search for what? give text, image_id or a photo, one of them")
        return self


# Values of a form or an address; ``where`` may stand in it several times.
Fields = dict[str, str | list[str]]


async def fields_of(request: Request) -> tuple[Fields, bytes | None]:
    """The fields of a request without the empty ones, and the content of an uploaded photo.

    Raises UsageError for a form without a photo, HTTPException for an upload that is too large or
    comes from another site."""
    values, photo = request.query_params.multi_items(), None
    if request.method == "POST":
        more, photo = await _upload(request)
        values += more
    fields: Fields = {name: value for name, value in values if name != "where" and value.strip()}
    if conditions := [value for name, value in values if name == "where" and value.strip()]:
        fields["where"] = conditions
    return fields, photo


def read(fields: Fields, photo: bytes | None = None) -> Query | None:
    """The query; None without anything to search for. Raises UsageError for a wrong value."""
    if photo is None and not {"text", "image_id"} & fields.keys():
        checked(Query, {"text": "-", **fields})
        return None
    return checked(Query, {**fields, "photo": photo})


async def _upload(request: Request) -> tuple[list[tuple[str, str]], bytes]:
    require_post(request, MAX_UPLOAD)
    async with request.form(max_files=1, max_fields=12, max_part_size=10_000) as form:
        values, photo = [], b""
        for name, value in form.multi_items():
            if isinstance(value, str):
                values.append((name, value))
            elif name == "photo":
                photo = await value.read()
    if not photo:
        raise UsageError("choose a photo to search with (multipart/form-data, field photo)")
    return values, photo
