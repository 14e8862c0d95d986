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
    either: Literal["all"] | PositiveInt = "all"
    channels: Annotated[list[float], Field(min_length=3, max_length=3)] | None = None
    several: list[PositiveInt] = Field(min_length=1, default_factory=lambda: [1, 2])
    many: list[float] = Field(default_factory=lambda: [step / 4 for step in range(37)])
    digest: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")] | None = None
    nested: dict[str, dict] = Field(default_factory=dict)
    switch: bool = False
    words: str = ""


@pytest.mark.parametrize(
    ("name", "kind", "default", "beside"),
    [
        ("count", "integer > 0", None, None),
        ("share", "number in [0, 1)", "1e-07", "in [0, 1)"),
        ("width", "integer in [1, 2^20]", "3", "in [1, 2^20]"),
        ("choice", "one of `a`, `b`", "a", "or `b`"),
        ("maybe", "integer ≥ 2, or null", "null", "integer ≥ 2"),
        ("either", "one of `all`, or integer > 0", "all", "or integer > 0"),
        ("several", "list of integer > 0", "[1, 2]", "list of integer > 0"),
        ("channels", "list of number, 3 of them, or null", "null", "list of number, 3 of them"),
        ("many", "list of number", "[0.0, 0.25, ..., 9.0]", "list of number"),
        ("digest", "SHA-256, or null", "null", "SHA-256"),
        ("nested", "mapping", "{}", ""),
        ("switch", "boolean", "false", ""),
        ("words", "text", '""', ""),
    ],
)
def test_a_field_in_words(name, kind, default, beside):
    field = Model.model_fields[name]
    assert types.describe(field) == kind
    if default is None:
        assert field.is_required()
    else:
        assert (types.default(field), types.beside_default(field)) == (default, beside)
