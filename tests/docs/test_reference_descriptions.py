"""How docstrings become meanings."""

from pydantic import Field

from pipeline.core.strict import Strict
from tests.docs.reference import descriptions


class Base(Strict):
    """What both have.

    first: of the base; second, third: of
    both, see ``x``. Any text may follow.
    """

    first: int = 1
    second: int = 2
    third: int = 3


class Model(Base):
    """No keys here. first: its own; Defaults: the paper's."""

    first: int = 4
    fourth: int = Field(default=5, description="of the field")


def test_keys_share_a_meaning_and_the_model_wins_over_its_base():
    assert descriptions.of_keys(Model) == {
        "first": "its own",
        "second": "of both, see `x`. Any text may follow",
        "third": "of both, see `x`. Any text may follow",
        "fourth": "of the field",
    }


def test_what_stands_before_the_keys_is_about_the_model():
    assert descriptions.of_model(Base) == "What both have."
    assert descriptions.of_model(Model) == "No keys here. Defaults: the paper's."


def test_a_model_without_keys_is_all_text():
    class Empty(Strict):
        """Nothing: to set; here."""

    assert descriptions.of_keys(Empty) == {}
    assert descriptions.of_model(Empty) == "Nothing: to set; here."


def test_a_description_of_a_base_holds_for_its_models_and_loses_its_full_stop():
    class Described(Strict):
        """about: said in the docstring."""

        about: int = Field(default=1, description="Said at the ``field``.")

    class Further(Described):
        """Another default. about: its own"""

        about: int = 2

    class Same(Described):
        """Nothing of its own."""

    assert descriptions.of_keys(Described) == {"about": "Said at the `field`"}
    assert descriptions.of_keys(Same) == {"about": "Said at the `field`"}
    assert descriptions.of_keys(Further) == {"about": "its own"}
