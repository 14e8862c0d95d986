"""vse-pipe inject."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from vse_pipe.commands import _completion
from vse_pipe.commands._project import AsJson, chosen, reserved, wrote
from vse_pipe.commands._project import params as all_params
from vse_pipe.core.errors import UsageError
from vse_pipe.project import paths

Noise = Annotated[
    str | None,
    typer.Option(help="a name under noises: (default: all noises)", autocompletion=_completion.section("noises")),
]
TeacherName = Annotated[
    str | None,
    typer.Option(
        "--teacher",
        help="a name under teachers:, instead of --noise",
        autocompletion=_completion.section("teachers"),
    ),
]


def inject(noise: Noise = None, teacher: TeacherName = None, as_json: AsJson = False) -> None:
    """Write the pairs to train on: clean, with injected mismatches, or with trained runs as teachers."""
    if noise is not None and teacher is not None:
        raise UsageError("--noise and --teacher name different nodes; give one of them")
    params = all_params()
    nodes = params.noises if teacher is None else params.teachers
    names = chosen(noise or teacher, nodes, "noise" if teacher is None else "teacher")
    with reserved(paths.injected(nodes[name].dataset, name) for name in names):
        write = _stage(teacher is not None)
    return wrote([write(params, name) for name in names], as_json)


def _stage(teaches: bool) -> Callable[..., Path]:
    """Only what the nodes need is imported: a teacher's takes torch."""
    if teaches:
        from vse_pipe.inject.stage import teach

        return teach
    from vse_pipe.inject.stage import inject as write

    return write
