"""House rules that a machine can check."""

import ast
import re
import subprocess
import sys

import pytest

from tests.rules.sources import PACKAGE, ROOT, modules, tree

TESTS = sorted((ROOT / "tests").rglob("*.py"))
FAMILY_FOLDERS = [
    "train/losses",
    "train/similarities",
    "train/encoders",
    "train/samplers",
    "evaluate/inference",
    "evaluate/metrics",
    "inject/protocols",
]


def _name(path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", modules(), ids=_name)
def test_files_stay_short(path):
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= 300, f"{_name(path)} has {lines} lines; split it by ideas"


@pytest.mark.parametrize("path", modules(), ids=_name)
def test_functions_stay_short(path):
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef):
            length = node.end_lineno - node.lineno + 1
            assert length <= 60, f"{_name(path)}: {node.name} has {length} lines"


@pytest.mark.parametrize("path", modules(), ids=_name)
def test_modules_say_what_they_are(path):
    if path.name != "__init__.py":
        assert ast.get_docstring(tree(path)), f"{_name(path)} has no docstring"


@pytest.mark.parametrize(
    "path", [p for f in FAMILY_FOLDERS for p in sorted((PACKAGE / f).rglob("*.py"))], ids=_name
)
def test_maths_touches_no_files(path):
    text = path.read_text(encoding="utf-8")
    for forbidden in (
        r"\bopen\(",
        r"\bPath\(",
        r"np\.save",
        r"np\.load",
        r"torch\.save",
        r"torch\.load",
        r"\bpq\.",
    ):
        assert not re.search(forbidden, text), f"{_name(path)} uses {forbidden}"
    assert "pipeline.artifacts" not in text, f"{_name(path)} must not know artefacts"


@pytest.mark.parametrize("path", [*modules(), *TESTS], ids=_name)
def test_nothing_unsafe_and_no_discarded_comparison(path):
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            assert all(alias.name != "pickle" for alias in node.names), f"{_name(path)} imports pickle"
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"{_name(path)}:{node.lineno}: bare except"
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = getattr(node.value.func, "attr", "")
            assert called not in ("allclose", "isclose", "equal", "array_equal"), (
                f"{_name(path)}:{node.lineno}: result unused"
            )


def test_the_command_line_starts_light():
    code = "import sys, pipeline.cli; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert "typer" in loaded, "the probe itself must see imports"
    for heavy in (
        "torch",
        "torchvision",
        "timm",
        "pandas",
        "pyarrow",
        "numpy",
        "numba",
        "dvc",
        "altair",
        "pydantic",
    ):
        assert heavy not in loaded, f"pipeline.cli imports {heavy}"
