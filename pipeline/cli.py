"""The command line: one Typer function per stage, its docstring is the help. Nothing heavy is imported at start."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from pipeline.commands import audit, evaluate, export, extract, papers, plots, search, serve
from pipeline.commands._project import Device, RunName
from pipeline.commands._project import chosen as _chosen
from pipeline.commands._project import chosen_runs as _chosen_runs
from pipeline.commands._project import enter_root as _enter_root
from pipeline.commands._project import overrides as _overrides
from pipeline.commands._project import params as _params
from pipeline.commands.compare import compare
from pipeline.errors import PipelineError, UsageError

# The overlays that ship with the package: pipeline.params.overlay, which takes long to import, finds them there.
_OVERLAYS = sorted(path.stem for path in (Path(__file__).parent / "params" / "overlays").glob("*.yaml"))


class _Interrupted(BaseException):
    """Ctrl-C; the message is what to say. Typer would end a KeyboardInterrupt without a word."""


class _Commands(TyperGroup):
    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            goes_on = ctx.invoked_subcommand in ("extract", "train")
            advice = "; the same command goes on where it was" if goes_on else ""
            raise _Interrupted(f"interrupted{advice}") from error


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Image-text retrieval as a pipeline: prepare, extract, inject, train, embed, evaluate, report. "
    "Run a stage by hand with the commands below, or all of them, cached, with `dvc repro`.",
)


@app.callback()
def settings(
    overrides: Annotated[
        list[str],
        typer.Option(
            "--set", "-S", metavar="KEY=VALUE", help="override a value of params.yaml for this call"
        ),
    ] = [],  # noqa: B006 (typer never changes it)
) -> None:
    """Options that come before the command."""
    _overrides[:] = overrides


@app.command()
def prepare(
    dataset: Annotated[
        str | None, typer.Option(help="a name under datasets:; all of them when left out")
    ] = None,
) -> None:
    """Read a data set into images.parquet and captions.parquet."""
    params = _params()
    from pipeline.prepare import stage

    for name in _chosen(dataset, params.datasets, "data set"):
        stage.prepare(params, name)


app.command()(extract.extract)


@app.command()
def inject(
    noise: Annotated[str | None, typer.Option(help="a name under noises:; all of them when left out")] = None,
) -> None:
    """Write the pairs to train on, with mismatches injected at the rate asked for."""
    params = _params()
    from pipeline.inject import stage

    for name in _chosen(noise, params.noises, "noise"):
        stage.inject(params, name)


@app.command()
def train(
    run: RunName = None,
    loss: Annotated[str | None, typer.Option(help="all runs with this loss")] = None,
    device: Device = "auto",
) -> None:
    """Train a run; one that was killed goes on from its last epoch."""
    params = _params()
    names = _chosen_runs(run, params)
    if loss is not None:
        from pipeline.registry import LOSSES

        LOSSES.check(loss)
        names = [name for name in names if params.runs[name].loss.name == loss]
        if not names:
            raise UsageError(f"no run in params.yaml has loss '{loss}'")
    from pipeline.train import stage

    stage.flush_denormals()
    for name in names:
        stage.train(params, name, device)


@app.command()
def embed(run: RunName = None, device: Device = "auto") -> None:
    """Export the embeddings of a trained run to Parquet."""
    params = _params()
    from pipeline.embed import stage

    for name in _chosen_runs(run, params):
        stage.embed(params, name, device)


app.command()(evaluate.evaluate)
app.command()(export.export)
app.command()(audit.audit)
app.command()(search.search)


@app.command()
def report() -> None:
    """Write reports/index.html and reports/metrics.json from all evaluations."""
    params = _params()
    from pipeline.report import stage

    stage.report(params)


@app.command()
def apply(
    overlay: Annotated[
        str, typer.Argument(help=f"a packaged overlay ({', '.join(_OVERLAYS)}) or a YAML file")
    ],
) -> None:
    """Write an overlay, and the values of --set, into params.yaml; `dvc repro` then runs what it describes."""
    from pipeline.console import say
    from pipeline.params import overlay as overlays
    from pipeline.paths import PARAMS

    source = str(Path(overlay).resolve()) if Path(overlay).is_file() else overlay
    _enter_root()
    overlays.apply(PARAMS, source, _overrides)
    say(f"{PARAMS} now describes {overlay}; `dvc repro` runs it, `git checkout {PARAMS}` takes it back")


@app.command()
def timings(
    as_json: Annotated[
        bool, typer.Option("--json", help="one JSON document on stdout instead of a table")
    ] = False,
) -> None:
    """Show the seconds each stage took when it last ran here."""
    import json

    from pipeline import timing

    _enter_root()
    seconds = timing.collect()
    if as_json:
        typer.echo(json.dumps(seconds, indent=2))
        return
    for name, spent in seconds.items():
        typer.echo(f"{spent:10.1f} s  {name}")


app.command()(compare)
app.command()(papers.papers)
app.command()(serve.serve)
app.command()(plots.plots)


def main() -> None:
    """Run the command; errors become one message on stderr and the exit status of their class, others stay tracebacks."""
    from pipeline.locks import die_with_parent

    if "DVC_STAGE" in os.environ:
        die_with_parent()
    try:
        app()
    except PipelineError as error:
        sys.exit(_failed(str(error), error.exit_status))
    except _Interrupted as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(130)
    except MemoryError as error:
        sys.exit(_failed("out of memory" + (f": {error}" if str(error) else ""), 1))
    except OSError as error:
        sys.exit(_failed(f"{error.filename or 'input/output'}: {error.strerror or error}", 1))


def _failed(message: str, status: int) -> int:
    for line in message.splitlines():
        sys.stderr.write(f"error: {line}\n")
    return status
