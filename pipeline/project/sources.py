"""Source files of the package as syntax trees, and what they import from it."""

import ast
from collections.abc import Iterable, Set
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def imports(path: Path, root: Path = ROOT) -> frozenset[Path]:
    """Files of the package that ``path`` imports anywhere in it, the packages' ``__init__`` left out.

    root: the folder that holds ``pipeline/``.
    """
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {_file(alias.name, root) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {
                _file(f"{node.module}.{alias.name}", root) or _file(node.module, root) for alias in node.names
            }
    return frozenset(file for file in found if file is not None)


def closure(start: Iterable[Path], stop: Set[Path] = frozenset(), root: Path = ROOT) -> set[Path]:
    """Everything reachable from ``start`` by imports, itself included; not ``stop``, nor what only they lead to."""
    seen, waiting = set(), list(start)
    while waiting:
        path = waiting.pop()
        if path not in seen and path not in stop:
            seen.add(path)
            waiting.extend(imports(path, root))
    return seen


def _file(module: str, root: Path) -> Path | None:
    if not module.startswith("pipeline."):
        return None
    path = root.joinpath(*module.split(".")).with_suffix(".py")
    return path if path.is_file() else None
