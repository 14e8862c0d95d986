"""--dry-run: the plans of a command's nodes, shown; nothing is computed and nothing written."""

from collections.abc import Sequence
from pathlib import Path


def of_nodes(params, named: dict[str, Sequence[str]], as_json: bool) -> None:
    """named: the nodes by the group of their declaration."""
    from vse_pipe.commands._plan_table import show
    from vse_pipe.project.nodes import declarations
    from vse_pipe.project.step import waiting

    modules = {group: declarations()[group].beside(declarations()[group].plan) for group in named}
    nodes = [(group, name) for group, names in named.items() for name in names]
    show([waiting(params, *node) or modules[node[0]].plan(params, node[1]) for node in nodes], as_json)


def of_evaluation(params, runs: Sequence[str], inferences: Sequence[str], as_json: bool) -> None:
    from vse_pipe.commands._plan_table import show
    from vse_pipe.evaluate import plan
    from vse_pipe.project.params.criteria import ranked_under

    show([plan.plan(params, run, list(inferences) or ranked_under(params, run)) for run in runs], as_json)


def of_files(
    stage: str, images: Path, captions: Path, criteria: Sequence[str], out: Path | None, as_json: bool
) -> None:
    from vse_pipe.commands._plan_table import show
    from vse_pipe.evaluate.external import plan

    show([plan.plan(stage, images, captions, list(criteria), out)], as_json)


def of_export(params, run: str, direction: str, out: Path, as_json: bool) -> None:
    from vse_pipe.commands._plan_table import show
    from vse_pipe.tools.export import plan

    show([plan.plan(params, run, direction, out)], as_json)


def of_report(params, as_json: bool) -> None:
    from vse_pipe.commands._plan_table import show
    from vse_pipe.report import plan

    show([plan.plan(params)], as_json)
