"""--dry-run: the plans of a command's nodes, shown; nothing is computed and nothing written."""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType


def of_nodes(params, named: dict[str, Sequence[str]], as_json: bool) -> None:
    """named: the nodes by the module of pipeline.plan that knows their stage."""
    from pipeline.plan.show import show

    show([_module(stage).plan(params, name) for stage, names in named.items() for name in names], as_json)


def of_evaluation(params, runs: Sequence[str], inferences: Sequence[str], as_json: bool) -> None:
    from pipeline.plan import evaluate
    from pipeline.plan.show import show

    show([evaluate.plan(params, run, list(inferences)) for run in runs], as_json)


def of_files(
    stage: str, images: Path, captions: Path, criteria: Sequence[str], out: Path | None, as_json: bool
) -> None:
    from pipeline.plan import files
    from pipeline.plan.show import show

    show([files.plan(stage, images, captions, list(criteria), out)], as_json)


def of_export(params, run: str, direction: str, out: Path, as_json: bool) -> None:
    from pipeline.plan import export
    from pipeline.plan.show import show

    show([export.plan(params, run, direction, out)], as_json)


def of_report(params, as_json: bool) -> None:
    from pipeline.plan import report
    from pipeline.plan.show import show

    show([report.plan(params)], as_json)


def _module(stage: str) -> ModuleType:
    import importlib

    return importlib.import_module(f"pipeline.plan.{stage}")
