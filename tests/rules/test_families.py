"""A family is a folder of members that all look alike; each rule lists every member that breaks it."""

import ast
import re

import pytest
from ruamel.yaml import YAML

from tests.rules.sources import PACKAGE, ROOT, tree
from vse_pipe.core.errors import UnknownMember
from vse_pipe.core.strict import Strict
from vse_pipe.project import code, registry
from vse_pipe.project.registry import BACKBONES, ENGINES, LOSSES, RUN_FAMILIES, Family, options_class

# Engines and sections of the page have no options.
FAMILIES = [one for one in vars(registry).values() if isinstance(one, Family) and one is not ENGINES]
MEMBERS = [(family, name) for family in FAMILIES for name in family.names()]
# The function of each family, or the two of which a member has one.
FUNCTIONS = {
    "format": {"read"},
    "proposals": {"proposer"},
    "backbone": {"build"},
    "text features": {"transform"},
    "noise protocol": {"corrupt"},
    "loss": {"loss"},
    "scheme": {"scheme", "untrained"},
    "sampler": {"batches"},
    "similarity": {"score"},
    "text encoder": {"build_text"},
    "image encoder": {"build_image"},
    "inference criterion": {"rerank", "match"},
}


def test_every_member_has_params_a_docstring_and_a_test():
    assert len(MEMBERS) > 60
    wrong = []
    for family, name in MEMBERS:
        options = family.options(name)
        if not issubclass(options, Strict):
            wrong.append(f"{options.__module__}: {options.__name__} are not strict")
        wrong += [] if ast.get_docstring(_tree(family.module(name))) else [f"{family.kind} {name}: no docstring"]
        if not _is_tested(family, name):
            wrong.append(
                f"{family.kind} {name}: no test_{name}.py, and no test names it in the family's folder or above"
            )
    assert wrong == []


def _is_tested(family: Family, name: str) -> bool:
    """A member has a test file of its name, or similar members share a file that names it."""
    folder = ROOT / "tests" / family.folder.relative_to(PACKAGE)
    files = [*folder.glob("test_*.py"), *folder.parent.glob("test_*.py")]
    return any(path.name == f"test_{name}.py" or f'"{name}"' in path.read_text() for path in files)


def _tree(module: str) -> ast.Module:
    return tree(code.file(module))


def test_a_member_has_the_function_of_its_family():
    """Beside it may stand functions that the family's traits name, and helpers."""
    wrong = []
    for family, name in MEMBERS:
        functions = {node.name for node in _tree(family.module(name)).body if isinstance(node, ast.FunctionDef)}
        if not functions & FUNCTIONS[family.kind]:
            wrong.append(f"{family.kind} {name}: none of {sorted(FUNCTIONS[family.kind])}")
    assert wrong == []


def test_a_typo_gets_the_near_miss_and_the_list():
    known = ", ".join(LOSSES.names())
    expected = re.escape(f"unknown loss 'maxx'; did you mean 'max'? known: {known}")
    with pytest.raises(UnknownMember, match=expected):
        LOSSES.check("maxx")
    with pytest.raises(UnknownMember, match=f"unknown loss 'zzz'; known: {known}"):
        LOSSES.check("zzz")


def test_params_yaml_lists_every_member_of_a_run():
    """DVC refuses a stage whose parameter is not in the file, so a run of any member needs its entry."""
    written = YAML(typ="safe").load((ROOT / "params.yaml").read_text())
    differences = {key: sorted(set(family.names()) ^ set(written[key])) for key, family in RUN_FAMILIES.items()}
    assert {key: names for key, names in differences.items() if names} == {}, "in params.yaml or a folder, not in both"


def test_a_folder_of_members_holds_nothing_else():
    """The folder is the registry; ``_name`` is no member."""
    members = {family.folder / name for family in [*FAMILIES, ENGINES] for name in family.names()}
    odd = [
        str(path.relative_to(ROOT))
        for folder in {member.parent for member in members}
        for path in folder.iterdir()
        if path.name not in ("__init__.py", "__pycache__", "options.py")
        and path.with_suffix("") not in members
        and not path.name.startswith(("_", "."))
        and (path.is_file() or any(path.rglob("*.py")))  # compiled modules of an earlier commit may remain
    ]
    assert odd == []
    assert "resnet152" in BACKBONES.names()


def test_each_class_of_options_has_its_member_and_each_member_its_class():
    """Bases that several members share have names that do not end with Options."""
    wrong = []
    for folder in {family.folder for family in FAMILIES}:
        page = folder / "options.py"
        classes = {
            node.name: node.lineno
            for node in tree(page).body
            if isinstance(node, ast.ClassDef) and node.name.endswith("Options")
        }
        members = {options_class(family.side + name) for family, name in MEMBERS if family.folder == folder}
        wrong += [f"{page.relative_to(ROOT)}: {name}" for name in sorted(members ^ set(classes))]
    assert wrong == []


def test_a_member_imports_its_own_options_as_params():
    """``from <family>.options import HalOptions as Params``, where it needs them: every member's file reads alike."""
    wrong = [
        f"{family.kind} {name}"
        for family, name in MEMBERS
        if getattr(family.load(name), "Params", family.options(name)) is not family.options(name)
    ]
    assert wrong == []
