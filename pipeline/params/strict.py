"""The base of every parameter model."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Unknown keys and wrong types are errors; values never change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
