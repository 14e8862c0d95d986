"""The base of every parameter model."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# Of a layer, a word vector, an embedding: a million is far more than any model has, and far less than memory.
Width = Annotated[int, Field(ge=1, le=2**20)]


class Strict(BaseModel):
    """Unknown keys, wrong types, NaN and infinity are errors; values never change after loading.

    What a key means is said in the docstring under its field, which is also its description in pydantic."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )
