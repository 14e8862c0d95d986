"""How docstrings become meanings."""

from pydantic import Field

from tests.docs.reference import descriptions
from vse_pipe.core.strict import Strict


class Base(Strict):
    """What both have,
    see ``x``."""

    first: int = 1
    """of the base"""
    second: int = 2
    """of the base too,
    see ``x``. Any text may follow."""
    third: int = 3


class Model(Base):
    first: int = 4
    """its own"""
    second: int = 5
    fourth: int = Field(default=5, description="of the field")


def test_the_model_wins_over_its_base_where_it_says_anything():
    assert descriptions.of_keys(Model) == {
        "first": "its own",
        "second": "of the base too, see `x`. Any text may follow",
        "fourth": "of the field",
    }


def test_a_model_is_told_by_its_own_docstring():
    assert descriptions.of_model(Base) == "What both have, see `x`."
    assert descriptions.of_model(Model) == ""
