"""The source files of this repository."""

from pathlib import Path

from pipeline.project.sources import ROOT, closure, imports, tree

PACKAGE = ROOT / "pipeline"

__all__ = ["PACKAGE", "ROOT", "closure", "imports", "modules", "tree"]


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py"))
