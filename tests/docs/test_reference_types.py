"""Types, bounds and defaults in words."""

from typing import Annotated, Literal

import pytest
from pydantic import Field, PositiveInt, StringConstraints

from tests.docs.reference import types
from vse_pipe.core.strict import Strict, Width


class Model(Strict):
    """One field of each sort."""

    count: PositiveInt
    share: Annotated[float, Field(ge=0, lt=1)] = 1e-7
    width: Width = 3
    choice: Literal["a", "b"] = "a"
    maybe: Annotated[int, Field(ge=2)] | None = None
    several: list[PositiveInt] = Field(min_length=1, default_factory=lambda: [1, 2])
    many: list[float] = Field(default_factory=lambda: [step / 4 for step in range(37)])
    digest: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")] | None = None
    nested: dict[str, dict] = Field(default_factory=dict)
    switch: bool = False
    words: str = ""


@pytest.mark.parametrize(
    ("name", "kind", "default"),
    [
        ("count", "whole number > 0", None),
        ("share", "number ≥ 0 and < 1", "1e-07"),
        ("width", "whole number ≥ 1 and ≤ 2^20", "3"),
        ("choice", "one of `a`, `b`", "a"),
        ("maybe", "whole number ≥ 2, or null", "null"),
        ("several", "list of whole number > 0, at least 1", "[1, 2]"),
        ("many", "list of number", "[0.0, 0.25, ..., 9.0]"),
        ("digest", "text like `^[0-9a-f]{64}$`, or null", "null"),
        ("nested", "mapping", "{}"),
        ("switch", "true or false", "false"),
        ("words", "text", '""'),
    ],
)
def test_a_field_in_words(name, kind, default):
    field = Model.model_fields[name]
    assert types.describe(field) == kind
    assert field.is_required() if default is None else types.default(field) == default
