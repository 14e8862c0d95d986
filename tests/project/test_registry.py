"""What members say of themselves is what their modules hold, and it is told without torch."""

import subprocess
import sys

import pytest

from tests.rules.sources import ROOT
from vse_pipe.core.errors import PipelineError, UnknownMember
from vse_pipe.project import registry
from vse_pipe.project.registry import (
    IMAGE_ENCODERS,
    INFERENCES,
    LOSSES,
    PROTOCOLS,
    RUN_FAMILIES,
    SCHEMES,
    SIMILARITIES,
    TEXT_ENCODERS,
    TEXT_FEATURES,
)

# A function that some members of the family have, and the trait that says so.
TOLD = [
    (LOSSES, "stuck", "stuck"),
    (LOSSES, "learns", "network"),
    (SIMILARITIES, "learns", "network"),
    (SIMILARITIES, "fragments", "pairs"),
    (INFERENCES, "item_bias", "item_bias"),
    (INFERENCES, "matches", "match"),
    (TEXT_FEATURES, "terms", "terms"),
]
_READ = """
import sys
from pathlib import Path
from vse_pipe.project.params.load import load
from vse_pipe.papers import overlay
assert load(Path("params.yaml"), further=[overlay.row_problems]).runs
"""
_NAMED = "\nprint(' '.join(sorted({'torch', 'numba', 'pandas', 'PIL', 'pyarrow'} & set(sys.modules))))"


@pytest.mark.parametrize(("family", "trait", "function"), TOLD)
def test_a_function_is_there_where_the_traits_say_so(family, trait, function):
    said = {name: getattr(family.traits(name), trait) for name in family.names()}
    assert said == {name: hasattr(family.load(name), function) for name in family.names()}
    assert len(set(said.values())) == 2


def test_traits_name_members_that_exist():
    named = [(LOSSES, LOSSES.traits(name).similarities, SIMILARITIES) for name in LOSSES.names()]
    for name in SCHEMES.names():
        traits = SCHEMES.traits(name)
        named += [(SCHEMES, traits.losses, LOSSES), (SCHEMES, traits.similarities, SIMILARITIES)]
    assert [one for _, one, other in named if not set(one or ()) <= set(other.names())] == []


def test_a_member_that_says_nothing_has_the_traits_of_its_family():
    assert LOSSES.traits("sum") == LOSSES.defaults
    assert SCHEMES.traits("l2rm").parts == 2
    assert PROTOCOLS.traits("as_is").decides_by == "nothing"
    assert IMAGE_ENCODERS.traits("finetune").reads == "pixels"
    assert TEXT_ENCODERS.traits("gru").words
    assert all(
        isinstance(family.traits(name), type(family.defaults))
        for family in RUN_FAMILIES.values()
        for name in family.names()
    )


def test_the_former_name_of_a_scheme_names_the_present_one():
    with pytest.raises(UnknownMember, match=r"^scheme 'none' is now called 'zero_shot'; write 'zero_shot'$"):
        SCHEMES.check("none")


def test_a_member_without_options_is_named(monkeypatch):
    monkeypatch.setattr(registry, "_names", lambda *_: ("circle",))
    with pytest.raises(
        PipelineError, match=r"^loss 'circle' has a file and no class .* add CircleOptions to .*options.py$"
    ):
        LOSSES.options("circle")


def _imported(script: str, *arguments: str) -> str:
    command = [sys.executable, "-c", script + _NAMED, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().rpartition("\n")[2]


def test_params_yaml_is_read_without_torch_and_tables():
    assert _imported(_READ) == ""


def test_options_of_every_member_are_read_without_torch():
    families = ", ".join(
        [
            "LOSSES",
            "SCHEMES",
            "SIMILARITIES",
            "TEXT_ENCODERS",
            "IMAGE_ENCODERS",
            "INFERENCES",
            "BACKBONES",
            "FORMATS",
            "PROPOSALS",
        ]
    )
    script = f"import sys\nfrom vse_pipe.project.registry import {families}\n"
    script += f"[family.options(name) for family in ({families}) for name in family.names()]"
    assert _imported(script) == ""
