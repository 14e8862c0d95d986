"""The command line: one Typer function per stage, its docstring is the help. Nothing heavy is
imported at start."""

import atexit
import gc
import io
import os
import re
import signal
import sys
import traceback
from types import FrameType
from typing import Annotated

import typer
from typer import Option

from vse_pipe.commands import _help, _project, export, pages, project, results, search, stages, vectors
from vse_pipe.commands._help import WIDEST, Command, Commands
from vse_pipe.commands._project import AsJson, Device, RunName
from vse_pipe.core import console
from vse_pipe.core.errors import PipelineError, UsageError, first_line, out_of_memory
from vse_pipe.project import paths
from vse_pipe.project.registry import LOSSES

_STAGES = "Stages, in their order"
_PANELS = {
    "Results": (
        *(vectors.rank, results.choose, results.compare, vectors.compose, results.claims, results.audit, pages.review),
        *(results.localize, project.papers, project.plots),
    ),
    "Search and export": (
        *(search.index, search.search, pages.serve, export.encode),
        *(export.export, export.pairs, export.pack),
    ),
    "Project and machine": (project.init, project.apply, project.check, project.code, project.sources),
}


class _Terminated(KeyboardInterrupt):
    """SIGTERM; code that handles Ctrl-C handles it in the same way."""


class _Interrupted(BaseException):
    """Ctrl-C or SIGTERM with a message. Typer would end silently on a KeyboardInterrupt."""

    def __init__(self, cause: KeyboardInterrupt, advice: str) -> None:
        word, self.status = ("terminated", 143) if isinstance(cause, _Terminated) else ("interrupted", 130)
        super().__init__(word + advice)


class _Commands(Commands):
    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            resumes = ctx.invoked_subcommand in ("extract", "train", "choose", "index")
            raise _Interrupted(error, "; the same command goes on where it was" if resumes else "") from error


app = typer.Typer(
    cls=_Commands,
    rich_markup_mode=None,  # importing rich takes as long as all other imports together
    context_settings={"max_content_width": WIDEST},
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Image-text retrieval as a pipeline: prepare, extract, inject, train, embed, evaluate, report. "
    "Run one stage with a command below, or all stages with `dvc repro`, which skips what is up to date.",
)


def _version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        console.line(f"vse-pipe {version('vse-pipe')}")
        raise typer.Exit


@app.callback()
def settings(
    overrides: Annotated[
        list[str],
        Option("--set", "-S", metavar="KEY=VALUE", help="set a value of params.yaml for this call; repeat for several"),
    ] = [],  # noqa: B006 (typer does not change it)
    quiet: Annotated[
        bool, Option("--quiet", "-q", help="print warnings, errors and results, no log lines and no progress")
    ] = False,
    verbose: Annotated[bool, Option("--verbose", "-v", help="print where an error came from")] = False,
    version: Annotated[
        bool, Option("--version", is_eager=True, callback=_version, help="print the version and exit")
    ] = False,
) -> None:
    """Options that come before the command."""
    if quiet and verbose:
        raise UsageError("--quiet and --verbose exclude each other")
    console.set_level(console.QUIET if quiet else console.VERBOSE if verbose else console.NORMAL)
    _project.overrides[:] = overrides


@app.command(cls=Command, rich_help_panel=_STAGES)
def prepare(
    dataset: Annotated[str | None, _help.option("a name under datasets: (default: all)", "datasets")] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Read a data set into images.parquet and captions.parquet."""
    params = _project.params()
    names = _project.chosen(dataset, params.datasets, "data set")
    from vse_pipe.prepare import stage

    _project.wrote([stage.prepare(params, name, device) for name in names], as_json)


app.command(cls=Command, rich_help_panel=_STAGES)(stages.extract)
app.command(cls=Command, rich_help_panel=_STAGES)(stages.inject)


@app.command(cls=Command, rich_help_panel=_STAGES)
def train(
    run: RunName = None,
    loss: Annotated[
        str | None, Option(help="train the runs with this loss", autocompletion=_help.members(LOSSES))
    ] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Train a run. A killed training goes on after its last epoch."""
    params = _project.params()
    names = _project.chosen_runs(run, params)
    if loss is not None:
        LOSSES.check(loss)
        names = [name for name in names if params.runs[name].loss.name == loss]
        if not names:
            raise UsageError(f"no run in params.yaml has loss '{loss}'")
    follows = _project.follows()
    from vse_pipe.train import stage

    outs = []
    for name in names:  # a comprehension is a frame more in every traceback
        outs.append(stage.train(params, name, device))
    if not follows:
        _project.settle(params.groups, names, paths.trained)
        _project.wrote(outs, as_json)


app.command(cls=Command, rich_help_panel=_STAGES)(stages.embed)
app.command(cls=Command, rich_help_panel=_STAGES)(stages.evaluate)


@app.command(cls=Command, rich_help_panel=_STAGES)
def report(as_json: AsJson = False) -> None:
    """Write the report, reports/index.html and reports/metrics.json, from all evaluations."""
    params = _project.params()
    from vse_pipe.report import stage

    _project.wrote([stage.report(params)], as_json)


for _panel, _member in [(panel, member) for panel, members in _PANELS.items() for member in members]:
    app.command(cls=Command, rich_help_panel=_panel)(_member)


def main() -> None:
    """Run the command. Known errors become one message on stderr and an exit status; other errors
    stay tracebacks."""
    from vse_pipe.core.locks import die_with_parent

    signal.signal(signal.SIGTERM, _terminate)
    if "DVC_STAGE" in os.environ:
        die_with_parent()
    # Imported modules stay: collections among them would take a third of a short command's time.
    gc.set_threshold(100_000, 50, 100)
    atexit.register(_leave)
    _escape_unknown_letters()
    try:
        app(prog_name="vse-pipe")
    except PipelineError as error:
        sys.exit(_failed(*map(str, error.args or [""]), status=error.exit_status))
    except _Interrupted as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.status)
    except UnicodeEncodeError as error:  # a path that a document would name
        if error.reason != "surrogates not allowed":
            raise
        before, after = error.object[: error.start], error.object[error.start :]
        name = re.split('["\n]', before)[-1] + re.split('["\n]', after)[0]
        sys.exit(_failed(f"{name[:200]!a}: its name is not UTF-8; rename it", status=2))
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        sys.exit(_failed(f"out of memory: {first_line(error)}"))
    except OSError as error:
        sys.exit(_failed(f"{error.filename or 'input/output'}: {error.strerror or error}"))


def _leave() -> None:
    if "triton" not in sys.modules:  # its bindings report objects that are not collected as leaks
        gc.freeze()


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)  # a second signal ends the process at once
    raise _Terminated


def _escape_unknown_letters() -> None:
    """Characters outside of the terminal's encoding are printed as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors="backslashreplace")


def _failed(*lines: str, status: int = 1) -> int:
    if console.level() == console.VERBOSE:
        traceback.print_exc()
    for line in lines:
        sys.stderr.write(f"error: {console.plain(line)}\n")
    return status
