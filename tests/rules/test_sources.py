"""House rules that a machine can check and ruff does not, also of families: each lists everything that breaks it."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

from tests.rules.sources import PACKAGE, ROOT, modules, tree
from vse_pipe.core.errors import UnknownMember
from vse_pipe.core.strict import Strict
from vse_pipe.project import code, registry
from vse_pipe.project.registry import BACKBONES, LOSSES, RUN_FAMILIES, Family, options_class

TESTS = sorted((ROOT / "tests").rglob("*.py"))
# Folders of pure maths: no I/O; that it imports no artefacts is a contract in pyproject.toml.
MATHS = [
    *(f"ranking/{name}" for name in ("inference", "similarities")),
    *(f"train/{name}" for name in ("encoders", "losses", "samplers")),
    "inject/protocols",
]
_FILES = r"\bopen\(|\bPath\(|np\.save|np\.load|torch\.save|torch\.load|\bpq\."
_COMPARISONS = ("allclose", "isclose", "equal", "array_equal")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    return {path: tree(path) for path in modules()}


def test_files_and_functions_stay_short_and_modules_say_what_they_are(trees):
    lines = {_name(path): path.read_text(encoding="utf-8").count("\n") for path in modules()}
    long = {name: count for name, count in lines.items() if count > 500}
    assert long == {}, "split them by subjects"
    found = ((path, node) for path, module in trees.items() for node in ast.walk(module))
    functions = [
        (f"{_name(path)}: {node.name}", node.end_lineno - node.lineno + 1)
        for path, node in found
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert len(functions) > 1000
    assert [(name, lines) for name, lines in functions if lines > 60] == []
    own = {path: module for path, module in trees.items() if path.name != "__init__.py"}
    assert [_name(path) for path, module in own.items() if not ast.get_docstring(module)] == []
    # Members of the same name in two families each have their options.
    files = defaultdict(set)
    for path, module in trees.items():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef) and not node.name.endswith("Options"):
                files[node.name].add(_name(path))
    assert {name: sorted(found) for name, found in files.items() if len(found) > 1} == {}


def test_maths_touches_no_files():
    paths = [path for folder in MATHS for path in sorted((PACKAGE / folder).rglob("*.py"))]
    assert len({path.parent for path in paths}) >= len(MATHS)
    used = {_name(path): re.findall(_FILES, path.read_text(encoding="utf-8")) for path in paths}
    assert {name: what for name, what in used.items() if what} == {}


def _discarded(module: ast.Module) -> Iterator[int]:
    for node in ast.walk(module):
        called = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
        if getattr(called, "attr", "") in _COMPARISONS:
            yield node.lineno


def test_no_comparison_is_discarded(trees):
    """An assertion that was forgotten."""
    assert list(_discarded(ast.parse("x = np.allclose(a, b)\nnp.allclose(a, b)\n"))) == [2]
    called = re.compile(rf"^ *(?!assert |return )\S.*\.({'|'.join(_COMPARISONS)})\(", re.M)
    tests = [path for path in TESTS if called.search(path.read_text(encoding="utf-8"))]
    every = {**trees, **{path: tree(path) for path in tests}}
    assert [f"{_name(path)}:{line}" for path, one in every.items() for line in _discarded(one)] == []


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("try:\n    print()\nexcept:\n    pass\n", "E722"),
        ("import pickle\n", "TID251"),
        ("import pickle\n\npickle.loads(b'')\n", "S301"),
        ("from pickle import loads\n", "TID251"),
    ],
)
def test_ruff_refuses_what_is_unsafe(code, rule):
    """In the package; among tests a pickle is allowed where one is planted."""
    command = [sys.executable, "-m", "ruff", "check", "--output-format=concise", "-"]
    command += ["--stdin-filename", "pipeline/vse_pipe/core/probe.py"]
    done = subprocess.run(command, cwd=ROOT, input=code, capture_output=True, text=True)
    assert rule in done.stdout, done.stdout + done.stderr


def test_ruff_finds_nothing():
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "."], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_command_line_starts_light():
    code = "import sys, vse_pipe.cli; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT).split()
    assert "typer" in loaded, "the probe itself must see imports"
    assert (HEAVY | {"numpy", "pyarrow", "pydantic"}) & set(loaded) == set()


def test_every_contract_is_kept(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True) == EXIT_STATUS_SUCCESS, capsys.readouterr().out


HEAVY = {
    "altair", "dvc", "faiss", "grimp", "nltk", "pandas", "scipy", "sklearn", "timm", "torch", "torchvision",
    "transformers", "vl_convert",
}  # fmt: skip
NEEDED = {"prepare": set(), "extract": set(), "inject": set(), "train": {"torch"}, "embed": {"torch"}}
NEEDED |= {"evaluate": {"torch"}, "report": {"pandas"}}
PROBE = """
import importlib, sys
from pathlib import Path
from vse_pipe.project.params.load import load
load(Path("params.yaml"), [])
importlib.import_module(f"vse_pipe.{sys.argv[1]}.stage")
print(*{name.partition(".")[0] for name in sys.modules})
"""


@pytest.mark.acceptance
def test_stages_import_what_they_need_and_no_more():
    command = [sys.executable, "-c", PROBE]
    loaded = {stage: subprocess.check_output([*command, stage], cwd=ROOT, text=True).split() for stage in NEEDED}
    found = {stage: HEAVY.intersection(names) for stage, names in loaded.items()}
    assert found == NEEDED


_ENTRY = re.compile(r"([A-Za-z0-9._-]+)==(\S+)(?: ; [^\\]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")
_TEXT = (ROOT / "constraints.txt").read_text(encoding="utf-8")
_PINNED = {canonicalize_name(name): version for name, version, _ in _ENTRY.findall(_TEXT)}


def test_all_that_is_needed_is_pinned_with_digests_at_a_version_that_fits():
    assert _ENTRY.sub("", _TEXT) == ""
    assert len(_PINNED) > 100
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    waiting = [
        *project["build-system"]["requires"],
        *project["dependency-groups"]["setup"],
        *project["project"]["dependencies"],
        *extras["test"],
        *extras["dev"],
        *extras["docs"],
    ]
    wrong, seen = [], set()
    while waiting:
        text = waiting.pop()
        one = Requirement(text)
        name = canonicalize_name(one.name)
        if name not in _PINNED or not one.specifier.contains(_PINNED[name], prereleases=True):
            wrong.append(text)
        elif text not in seen and name != "uv":  # uv needs nothing, and a clone may have been set up without it
            seen.add(text)
            waiting += [
                str(needed)
                for needed in map(Requirement, requires(name) or [])
                if needed.marker is None or any(needed.marker.evaluate({"extra": of}) for of in ["", *one.extras])
            ]
    assert wrong == []
    assert len(seen) > 100


def test_the_citation_is_of_this_version_licence_and_address():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = YAML(typ="safe").load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    said = {"version": project["version"], "license": project["license"], "authors": project["authors"]}
    said |= {"abstract": project["description"], "keywords": project["keywords"], "title": project["name"]}
    said["repository-code"] = project["urls"]["Homepage"]
    assert {key: cited[key] for key in said} == said
    assert all(address.startswith(said["repository-code"]) for address in project["urls"].values())


def test_hooks_run_the_checks_of_make_lint_by_the_tools_of_setup():
    (local,) = YAML(typ="safe").load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert local["repo"] == "local"
    assert {hook["language"] for hook in local["hooks"]} == {"system"}
    entries = [hook["entry"].replace(" --force-exclude", " .") for hook in local["hooks"]]
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlint: setup\n")[2].partition("\n\n")[0]
    assert [entry.removeprefix(".venv/bin/") for entry in entries] == [line.strip() for line in recipe.splitlines()]
    assert all(entry.startswith(".venv/bin/") for entry in entries)


# Engines and sections of the page have no options.
FAMILIES = [one for one in vars(registry).values() if isinstance(one, Family)]
MEMBERS = [(family, name) for family in FAMILIES for name in family.names()]
# The function of each family, or the two of which a member has one.
FUNCTIONS = {
    "format": {"read"}, "proposals": {"proposer"}, "backbone": {"build"}, "text features": {"transform"},
    "noise protocol": {"corrupt", "apply"}, "loss": {"loss"}, "scheme": {"scheme", "untrained"}, "sampler": {"batches"},
    "similarity": {"score"}, "text encoder": {"build_text"}, "image encoder": {"build_image"},
    "inference criterion": {"rerank", "match"},
}  # fmt: skip


def test_every_member_has_params_a_docstring_a_test_and_the_function_of_its_family():
    assert len(MEMBERS) > 60
    wrong = []
    for family, name in MEMBERS:
        options = family.options(name)
        if not issubclass(options, Strict):
            wrong.append(f"{options.__module__}: {options.__name__} are not strict")
        wrong += [] if ast.get_docstring(_tree(family.module(name))) else [f"{family.kind} {name}: no docstring"]
        if not _is_tested(family, name):
            wrong.append(f"{family.kind} {name}: no test_{name}.py, and no test names it in its folder or above")
    assert wrong == []
    # Beside it may stand functions that the family's traits name, and helpers.
    wrong = []
    for family, name in MEMBERS:
        body = _tree(family.module(name)).body
        functions = {node.name for node in body if isinstance(node, ast.FunctionDef)}
        assigned = [leaf for node in body if isinstance(node, ast.Assign) for leaf in ast.walk(node)]
        functions |= {leaf.id for leaf in assigned if isinstance(leaf, ast.Name) and isinstance(leaf.ctx, ast.Store)}
        if not functions & FUNCTIONS[family.kind]:
            wrong.append(f"{family.kind} {name}: none of {sorted(FUNCTIONS[family.kind])}")
    assert wrong == []


def _is_tested(family: Family, name: str) -> bool:
    """A member has a test file of its name, or similar members share a file that names it."""
    folder = ROOT / "tests" / family.folder.relative_to(PACKAGE)
    files = [*folder.glob("test_*.py"), *folder.parent.glob("test_*.py")]
    return any(path.name == f"test_{name}.py" or f'"{name}"' in path.read_text() for path in files)


def _tree(module: str) -> ast.Module:
    return tree(code.file(module))


def test_a_typo_gets_the_near_miss_and_params_yaml_lists_every_member_of_a_run():
    known = ", ".join(LOSSES.names())
    with pytest.raises(UnknownMember, match=rf"unknown loss 'maxx'; did you mean 'max'\? known: {known}"):
        LOSSES.check("maxx")
    with pytest.raises(UnknownMember, match=f"unknown loss 'zzz'; known: {known}"):
        LOSSES.check("zzz")
    # DVC refuses a stage whose parameter is not in the file, so a run of any member needs its entry.
    written = YAML(typ="safe").load((ROOT / "params.yaml").read_text())
    differences = {key: sorted(set(family.names()) ^ set(written[key])) for key, family in RUN_FAMILIES.items()}
    assert {key: names for key, names in differences.items() if names} == {}, "in params.yaml or a folder, not in both"


def test_a_folder_of_members_and_its_options_hold_nothing_else():
    """The folder is the registry; ``_name`` is no member."""
    members = {family.folder / name for family in FAMILIES for name in family.names()}
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
    wrong = []
    for folder in {family.folder for family in FAMILIES}:
        page = folder / "options.py"
        classes = {node.name for node in tree(page).body if isinstance(node, ast.ClassDef)}
        classes = {name for name in classes if name.endswith("Options")}
        members = {options_class(family.side + name) for family, name in MEMBERS if family.folder == folder}
        wrong += [f"{page.relative_to(ROOT)}: {name}" for name in sorted(members ^ classes)]
    assert wrong == []


def test_a_member_imports_its_own_options_as_params():
    """``from <family>.options import HalOptions as Params``, where it needs them: every member's file reads alike."""
    wrong = [
        f"{family.kind} {name}"
        for family, name in MEMBERS
        if getattr(family.load(name), "Params", family.options(name)) is not family.options(name)
    ]
    assert wrong == []
