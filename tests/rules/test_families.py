"""A family is a folder of members that all look alike; each rule lists every member that breaks it."""

import ast

import pytest
from ruamel.yaml import YAML

from tests.rules.sources import PACKAGE, ROOT, tree
from vse_pipe.core.errors import UnknownMember
from vse_pipe.core.strict import Strict
from vse_pipe.project import code, registry
from vse_pipe.project.registry import BACKBONES, ENGINES, LOSSES, RUN_FAMILIES, SECTIONS, Family

# Engines and sections of the page have no options.
FAMILIES = [one for one in vars(registry).values() if isinstance(one, Family) and one not in (ENGINES, SECTIONS)]
MEMBERS = [(family, name) for family in FAMILIES for name in family.names()]
# What only some members of a family have, and others look for.
OPTIONAL = {
    "loss": {"network", "stuck"},
    "inference criterion": {"item_bias"},
    "text features": {"fit", "terms"},
    "similarity": {"network", "pairs"},
}


def test_every_member_has_params_a_docstring_and_a_test():
    assert len(MEMBERS) > 60
    wrong = []
    for family, name in MEMBERS:
        module = family.options(name)
        if not issubclass(module.Params, Strict):
            wrong.append(f"{module.__name__}: Params are not strict")
        wrong += [f"{one}: no docstring" for one in family.modules(name) if not ast.get_docstring(_tree(one))]
        mirrored = ROOT / "tests" / family.folder.relative_to(PACKAGE) / f"test_{name}.py"
        wrong += [] if mirrored.is_file() else [f"{mirrored.relative_to(ROOT)} is missing"]
    assert wrong == []


def _tree(module: str) -> ast.Module:
    return tree(code.file(module))


def test_a_member_exports_the_one_callable_of_its_family():
    called: dict[str, set[str]] = {}
    for family, name in MEMBERS:
        public = [
            node.name
            for node in _tree(family.modules(name)[-1]).body
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        ]
        called.setdefault(family.kind, set()).add(" ".join(sorted(set(public) - OPTIONAL.get(family.kind, set()))))
    assert called.pop("inference criterion") == {"rerank", "match"}  # bias or scores, or pairs
    assert called.pop("scheme") == {"scheme", "untrained"}  # what trains, or what takes its place
    assert {kind: names for kind, names in called.items() if len(names) != 1 or " " in "".join(names)} == {}


def test_a_typo_gets_the_near_miss_and_the_list():
    expected = r"unknown loss 'maxx'; did you mean 'max'\? known: crcl, decl, hal, hal_emnlp, "
    with pytest.raises(UnknownMember, match=expected):
        LOSSES.check("maxx")
    with pytest.raises(UnknownMember, match=r"unknown loss 'zzz'; known: crcl"):
        LOSSES.check("zzz")


def test_params_yaml_lists_every_member_of_a_run():
    """DVC refuses a stage whose parameter is not in the file, so a run of any member needs its entry."""
    written = YAML(typ="safe").load((ROOT / "params.yaml").read_text())
    assert {key: set(written[key]) for key in RUN_FAMILIES} == {
        key: set(family.names()) for key, family in RUN_FAMILIES.items()
    }


def test_a_folder_of_members_holds_nothing_else():
    """So that the folder is the registry; ``_name`` is no member."""
    odd = [
        str(path.relative_to(ROOT))
        for family in [*FAMILIES, ENGINES, SECTIONS]
        for path in family.folder.iterdir()
        if path.name not in ("__init__.py", "__pycache__")
        and path.stem not in family.names()  # a section of the page has its template beside it
        and not path.name.startswith(("_", "."))
    ]
    assert odd == []
    assert "resnet152" in BACKBONES.names()
