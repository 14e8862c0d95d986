"""vse-pipe compare."""

import os
from pathlib import Path
from typing import Annotated

import typer

from vse_pipe.commands import _completion
from vse_pipe.commands._project import AsJson
from vse_pipe.core.errors import UsageError

_RANKED = _completion.section("runs", "ensembles")
RunA = Annotated[
    str,
    typer.Argument(metavar="RUN_A", help="a run, or a folder that `vse-pipe evaluate` wrote", autocompletion=_RANKED),
]
RunsB = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN_B",
        help="the run or runs to compare with RUN_A (with --base the default is RUN_A)",
        show_default=False,
        autocompletion=_RANKED,
    ),
]
Inference = Annotated[
    str | None,
    typer.Option(help="one criterion (default: every criterion that both have)", autocompletion=_completion.inferences),
]
Base = Annotated[str | None, typer.Option(metavar="REV", help="take RUN_A from this git revision, through DVC")]
AsMarkdown = Annotated[bool, typer.Option("--md", help="print Markdown instead of a table")]
MaxDrop = Annotated[
    float | None,
    typer.Option(
        help="exit with status 1 where R@K, mrr, map or rsum of RUN_B is lower by more than this many points, with p < 0.05"
    ),
]
Resamples = Annotated[int, typer.Option(min=1, help="number of bootstrap draws")]
Seed = Annotated[int, typer.Option(help="seed of the bootstrap draws")]


def compare(
    context: typer.Context,
    run_a: RunA,
    runs_b: RunsB = None,
    inference: Inference = None,
    base: Base = None,
    as_markdown: AsMarkdown = False,
    as_json: AsJson = False,
    max_drop: MaxDrop = None,
    resamples: Resamples = 1000,
    seed: Seed = 1,
) -> None:
    """Compare evaluations query by query: differences with 95% intervals and p-values.

    A run with seeds counts as the mean of its models; its interval includes the chance of training. Each RUN_B is compared
    with RUN_A, and p-values are corrected for the number of comparisons (Holm).
    """
    _check(as_markdown, as_json, max_drop, resamples)
    start = Path.cwd()
    from vse_pipe.core.console import stdout
    from vse_pipe.tools.compare import compare, revisions

    folders = base is None and all(revisions.is_evaluation(name) for name in (run_a, *(runs_b or [])))
    params = None if folders else _params(context.find_root().params.get("overrides", []))
    found = compare.compare(
        run_a, runs_b or [], start, params, inference=inference, base=base, resamples=resamples, seed=seed
    )
    if as_markdown or as_json:
        stdout.file.write((compare.document if as_json else compare.markdown)(found, resamples, seed))
    else:
        compare.terminal(found, resamples, seed)
    if max_drop is not None:
        compare.check(found, max_drop)


def _check(as_markdown: bool, as_json: bool, max_drop: float | None, resamples: int) -> None:
    from vse_pipe.tools.compare.compare import FEWEST_RESAMPLES

    if as_markdown and as_json:
        raise UsageError("--md and --json exclude each other")
    if max_drop is not None and not 0 <= max_drop < float("inf"):
        raise UsageError(f"--max-drop {max_drop}: expected a number of points, 0 or more")
    if max_drop is not None and resamples < FEWEST_RESAMPLES:
        raise UsageError(
            f"--max-drop needs --resamples {FEWEST_RESAMPLES} or more: with fewer no p-value can be below 0.05"
        )


def _params(overrides: list[str]):
    """Of the project around the working directory, which becomes its root; None outside a project."""
    from vse_pipe.papers import overlay
    from vse_pipe.project.params.load import load
    from vse_pipe.project.paths import PARAMS, root_around

    root = root_around()
    if root is None:
        return None
    os.chdir(root)
    return load(PARAMS, overrides, further=[overlay.row_problems])
