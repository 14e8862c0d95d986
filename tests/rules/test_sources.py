"""House rules that a machine can check and ruff does not: each lists everything that breaks it."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rules.sources import PACKAGE, ROOT, modules, tree

TESTS = sorted((ROOT / "tests").rglob("*.py"))
# Folders of pure maths: no I/O; that it imports no artefacts is a contract in pyproject.toml.
MATHS = [
    *(f"ranking/{name}" for name in ("compiled", "confidence", "inference", "metrics", "similarities")),
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


def test_files_stay_short():
    lines = {_name(path): path.read_text(encoding="utf-8").count("\n") for path in modules()}
    long = {name: count for name, count in lines.items() if count > 500}
    assert long == {}, "split them by subjects"


def test_functions_stay_short(trees):
    found = ((path, node) for path, module in trees.items() for node in ast.walk(module))
    functions = [
        (f"{_name(path)}: {node.name}", node.end_lineno - node.lineno + 1)
        for path, node in found
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert len(functions) > 1000
    assert [(name, lines) for name, lines in functions if lines > 60] == []


def test_modules_say_what_they_are(trees):
    own = {path: module for path, module in trees.items() if path.name != "__init__.py"}
    assert [_name(path) for path, module in own.items() if not ast.get_docstring(module)] == []


def test_a_class_has_one_file(trees):
    """Members of the same name in two families each have their options."""
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
    every = {**trees, **{path: tree(path) for path in TESTS}}
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
    done = subprocess.run(
        [*command, "--stdin-filename", "pipeline/vse_pipe/core/probe.py"],
        cwd=ROOT,
        input=code,
        capture_output=True,
        text=True,
    )
    assert rule in done.stdout, done.stdout + done.stderr


def test_ruff_finds_nothing():
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "."], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_command_line_starts_light():
    code = "import sys, vse_pipe.cli; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert "typer" in loaded, "the probe itself must see imports"
    heavy = [
        "torch",
        "torchvision",
        "timm",
        "pandas",
        "pyarrow",
        "numpy",
        "numba",
        "scipy",
        "sklearn",
        "dvc",
        "altair",
        "pydantic",
        "grimp",
    ]
    assert set(heavy) & set(loaded) == set()
