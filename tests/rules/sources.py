"""The source files as syntax trees, and what they import from the package."""

import ast
from collections.abc import Set
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pipeline"


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py"))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imports(path: Path) -> set[Path]:
    """Files of the package that ``path`` imports anywhere in it, the packages' ``__init__`` left out."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {_file(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {_file(f"{node.module}.{alias.name}") or _file(node.module) for alias in node.names}
    return {file for file in found if file is not None}


def closure(start: list[Path], stop: Set[Path] = frozenset()) -> set[Path]:
    """Everything reachable from ``start`` by imports, itself included; not ``stop``, nor what only they lead to."""
    seen, waiting = set(), list(start)
    while waiting:
        path = waiting.pop()
        if path not in seen and path not in stop:
            seen.add(path)
            waiting.extend(imports(path))
    return seen


def _file(module: str) -> Path | None:
    if not module.startswith("pipeline."):
        return None
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    return path if path.is_file() else None
