import ast

import pytest
from ruamel.yaml import YAML

from pipeline.core.errors import UnknownMember
from pipeline.core.strict import Strict
from pipeline.project.registry import (
    BACKBONES,
    FORMATS,
    IMAGE_ENCODERS,
    INFERENCES,
    LOSSES,
    PROTOCOLS,
    RUN_FAMILIES,
    SAMPLERS,
    SCHEMES,
    SIMILARITIES,
    TEXT_ENCODERS,
    TEXT_FEATURES,
)
from tests.rules.sources import ROOT, tree

FAMILIES = [BACKBONES, FORMATS, IMAGE_ENCODERS, INFERENCES, LOSSES, PROTOCOLS]
FAMILIES += [SAMPLERS, SCHEMES, SIMILARITIES, TEXT_ENCODERS, TEXT_FEATURES]
# What only some members of a family have, and others look for.
OPTIONAL = {
    "loss": {"stuck"},
    "inference criterion": {"item_bias"},
    "text features": {"fit", "terms"},
    "similarity": {"network"},
}
MEMBERS = [(family, name) for family in FAMILIES for name in family.names()]


@pytest.mark.parametrize(("family", "name"), MEMBERS, ids=lambda value: getattr(value, "kind", value))
def test_every_member_has_params_a_docstring_and_a_test(family, name):
    module = family.load(name)
    assert issubclass(module.Params, Strict)
    assert module.__doc__, "the first line of a member says what it is"
    mirrored = ROOT / "tests" / family.folder.relative_to(ROOT / "pipeline") / f"test_{name}.py"
    assert mirrored.is_file(), f"{mirrored.relative_to(ROOT)} is missing"


@pytest.mark.parametrize(("family", "name"), MEMBERS, ids=lambda value: getattr(value, "kind", value))
def test_a_member_exports_params_and_the_callable_of_its_family(family, name):
    path = family.folder / f"{name}.py"
    functions = [
        n.name for n in tree(path).body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")
    ]
    required = set(functions) - OPTIONAL.get(family.kind, set())
    assert len(required) == 1, functions


def test_a_typo_gets_the_near_miss_and_the_list():
    with pytest.raises(
        UnknownMember, match=r"unknown loss 'maxx'; did you mean 'max'\? known: hal, hal_emnlp, "
    ):
        LOSSES.check("maxx")
    with pytest.raises(UnknownMember, match=r"unknown loss 'zzz'; known: hal"):
        LOSSES.check("zzz")


@pytest.mark.parametrize("key", RUN_FAMILIES)
def test_params_yaml_lists_every_member_of_a_run(key):
    """DVC refuses a stage whose parameter is not in the file, so a run of any member needs its entry."""
    written = YAML(typ="safe").load((ROOT / "params.yaml").read_text())
    assert set(written[key]) == set(RUN_FAMILIES[key].names())
