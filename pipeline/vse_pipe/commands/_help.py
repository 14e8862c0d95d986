"""Shell completion and help texts. Neither pydantic nor torch is imported.

A project that cannot be read completes to nothing; the command itself reports the error.
"""

from collections.abc import Callable
from inspect import cleandoc
from itertools import groupby
from pathlib import Path
from typing import Any

from typer import Option
from typer.core import TyperCommand, TyperGroup

from vse_pipe.core.errors import UsageError

TARGETS = "atlas", "clip-retrieval", "faiss", "npy", "parquet", "trec"
DEVICES = "auto", "cpu", "cuda", "mps"
_OVERLAYS = Path(__file__).parents[1] / "project" / "params" / "overlays"


def section(*names: str) -> Callable[[str], list[str]]:
    """A completion with the keys of these sections of params.yaml."""

    def complete(incomplete: str) -> list[str]:
        return _starting([key for name in names for key in _params().get(name) or {}], incomplete)

    return complete


def option(help: str, *sections: str, panel: str | None = None) -> Any:
    """An option with a name under these sections of params.yaml."""
    return Option(help=help, autocompletion=section(*sections), rich_help_panel=panel)


def choices(*names: str) -> Callable[[str], list[str]]:
    """A completion with these names."""
    return lambda incomplete: _starting([*names], incomplete)


def losses(incomplete: str) -> list[str]:
    """Losses of the runs in params.yaml."""
    runs = _params().get("runs") or {}
    return _starting([run.get("loss", "") for run in runs.values() if isinstance(run, dict)], incomplete)


def backbones(incomplete: str) -> list[str]:
    from vse_pipe.project.registry import BACKBONES

    return _starting(BACKBONES.names(), incomplete)


def inferences(incomplete: str) -> list[str]:
    """Criteria of grid.inferences and of the registry; after a comma those not named yet."""
    from vse_pipe.project.registry import INFERENCES

    prefix, comma, last = incomplete.rpartition(",")
    grid = (_params().get("grid") or {}).get("inferences") or []
    chosen = prefix.split(",")
    names = [name for name in [*grid, *INFERENCES.names()] if name not in chosen]
    return [f"{prefix}{comma}{name}" for name in _starting(names, last)]


def overlays(incomplete: str) -> list[str]:
    """Packaged overlays, and YAML files in the working directory."""
    files = [str(path) for path in Path().glob("*.yaml") if path.name not in ("params.yaml", "dvc.yaml")]
    return _starting([*(path.stem for path in _OVERLAYS.glob("*.yaml")), *files], incomplete)


def papers(incomplete: str) -> list[str]:
    folder = Path(__file__).parents[1] / "papers"
    names = [path.stem for path in folder.glob("*.yaml")] + [path.parent.name for path in folder.glob("*/paper.yaml")]
    return _starting([name for name in names if not name.startswith("_")], incomplete)


def _starting(names: list[str], incomplete: str) -> list[str]:
    return sorted({str(name) for name in names if name and str(name).startswith(incomplete)})


def _params() -> dict:
    from vse_pipe.core.errors import PipelineError
    from vse_pipe.project.params.document import read_document
    from vse_pipe.project.paths import PARAMS, find_root

    try:
        document = read_document(find_root(Path.cwd()) / PARAMS)
    except (PipelineError, OSError):
        return {}
    return {name: values for name, values in document.items() if isinstance(values, dict)}


# Maximum width of help in columns.
WIDEST = 120
# An example of each command.
EXAMPLES = {
    "prepare": "vse-pipe prepare --dataset mine",
    "extract": "vse-pipe extract --features photos",
    "inject": "vse-pipe inject --noise clean",
    "train": "vse-pipe -S loss.hal.gamma=60 train --run hal",
    "embed": "vse-pipe embed --run hal",
    "evaluate": "vse-pipe evaluate --run hal --inference nns,csls",
    "rank": "vse-pipe rank --images a.parquet --captions b.parquet --out results",
    "report": "vse-pipe report",
    "choose": "vse-pipe choose --grid grid.yaml --run hal --seeds 3",
    "compare": "vse-pipe compare sum hal --inference nns",
    "compose": "vse-pipe compose sets.csv --run hal",
    "claims": "vse-pipe claims claims.yaml",
    "audit": "vse-pipe audit --dataset mine",
    "review": "vse-pipe review --dataset mine --by anna",
    "localize": 'vse-pipe localize --run regions --image photo.jpg --phrase "a red car"',
    "papers": "vse-pipe papers hal-aaai2020 2.12 --apply",
    "plots": "vse-pipe plots",
    "index": "vse-pipe index ~/photos --run hal",
    "search": 'vse-pipe search "a red car" --run hal --inference csls',
    "serve": "vse-pipe serve --run hal --inference nns,csls --port 8080",
    "encode": "vse-pipe encode --run hal --images photos --out images.parquet",
    "export": "vse-pipe export --run hal --inference csls --to faiss --out index",
    "pairs": "vse-pipe pairs --dataset mine --to csv --out cleaned.csv",
    "pack": "vse-pipe pack --run hal --out models/hal --licence apache-2.0",
    "init": "vse-pipe init my-project --overlay strong",
    "apply": "vse-pipe -S train.epochs=20 apply flickr8k",
    "check": "vse-pipe check",
    "code": "vse-pipe code",
    "sources": "vse-pipe sources",
}
# Options of ``rank``, which people also give to ``evaluate``.
_OF_FILES = ("--images", "--captions", "--trec-run", "--qrels")
# Options of vse-pipe itself, each with the form of its value.
_BEFORE = dict.fromkeys(("-S", "--set"), " KEY=VALUE") | dict.fromkeys(("-q", "--quiet", "-v", "--verbose"), "")
_BEFORE["--version"] = ""
_SHORT = 2


class Command(TyperCommand):
    """One command, with its example."""

    def parse_args(self, ctx, args):
        """Raises UsageError for an option of vse-pipe itself that stands after the command, and for files of vectors
        in place of a run."""
        flags = {flag for param in self.params for flag in (*param.opts, *param.secondary_opts)}
        for place, arg in enumerate([] if ctx.resilient_parsing else args):  # the shell completes an unfinished line
            if arg == "--":
                break
            flag = arg.partition("=")[0] if arg.startswith("--") else arg[:_SHORT]
            if flag in _OF_FILES and self.name == "evaluate":
                raise UsageError(
                    f"{flag}: evaluate measures runs; `vse-pipe rank` measures vectors and rankings in files"
                )
            if flag in _BEFORE and flag not in flags:
                value = f" {args[place + 1]}" if arg in ("-S", "--set") and len(args) > place + 1 else _BEFORE[flag]
                option = arg + value if arg == flag else arg
                raise UsageError(f"{flag} stands before the command: vse-pipe {option} {ctx.info_name} ...")
        return super().parse_args(ctx, args)

    def format_options(self, ctx, formatter):
        """Write arguments, options, then the options of each panel."""
        records: dict[str, list] = {}
        for param in self.get_params(ctx):
            heading = "Arguments" if param.param_type_name == "argument" else "Options"
            record = param.get_help_record(ctx)
            if record is not None:
                records.setdefault(getattr(param, "rich_help_panel", None) or heading, []).append(record)
        first = [heading for heading in ("Arguments", "Options") if heading in records]
        for heading in dict.fromkeys([*first, *records]):
            with formatter.section(heading):
                formatter.write_dl(records[heading])

    def format_epilog(self, ctx, formatter):
        if self.name in EXAMPLES:
            with formatter.section("Example"):
                formatter.write(f"{'':>{formatter.current_indent}}{EXAMPLES[self.name]}\n")


class Commands(TyperGroup):
    """All commands under the headings of their panels, each with the first paragraph of its docstring."""

    def format_commands(self, ctx, formatter):
        for heading, members in groupby(self.commands.items(), lambda item: item[1].rich_help_panel):
            with formatter.section(heading):
                formatter.write_dl([(name, cleandoc(command.help).partition("\n\n")[0]) for name, command in members])
