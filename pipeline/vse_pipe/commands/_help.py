"""Shell completion and help texts. Neither pydantic nor torch is imported.

A project that cannot be read completes to nothing; the command itself reports the error.
"""

from collections.abc import Callable
from inspect import cleandoc
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any

from typer import Option
from typer.core import TyperCommand, TyperGroup

from vse_pipe.core.errors import PipelineError, UsageError
from vse_pipe.project.paths import PARAMS, find_root
from vse_pipe.project.registry import INFERENCES, Family

TARGETS = "atlas", "faiss", "npy", "parquet", "trec"
DEVICES = "auto", "cpu", "cuda"
_PACKAGE = Path(__file__).parents[1]

Completion = Callable[[str], list[str]]


def section(*names: str) -> Completion:
    """A completion with the keys of these sections of params.yaml."""
    return lambda incomplete: _starting([key for name in names for key in _params().get(name) or {}], incomplete)


def option(help: str, *sections: str) -> Any:
    """An option with a name under these sections of params.yaml."""
    return Option(help=help, autocompletion=section(*sections))


def choice(help: str, *names: str) -> Any:
    """An option with one of these names."""
    text = f"{help}: {', '.join(names)}"
    return Option(help=text, autocompletion=lambda incomplete: _starting([*names], incomplete))


def members(family: Family[Any]) -> Completion:
    """A completion with the members of a family."""
    return lambda incomplete: _starting(family.names(), incomplete)


def inferences(incomplete: str) -> list[str]:
    """Criteria of grid.inferences and of the registry; after a comma those not named yet."""
    prefix, comma, last = incomplete.rpartition(",")
    names = [*((_params().get("grid") or {}).get("inferences") or []), *INFERENCES.names()]
    fresh = [name for name in names if name not in prefix.split(",")]
    return [f"{prefix}{comma}{name}" for name in _starting(fresh, last)]


def overlays(incomplete: str) -> list[str]:
    """Packaged overlays, and YAML files in the working directory."""
    files = [str(path) for path in Path().glob("*.yaml") if path.name not in ("params.yaml", "dvc.yaml")]
    packaged = [path.stem for path in _PACKAGE.glob("project/params/overlays/*.yaml")]
    return _starting([*packaged, *files], incomplete)


def papers(incomplete: str) -> list[str]:
    folder = _PACKAGE / "papers"
    names = [path.stem for path in folder.glob("[!_]*.yaml")]
    return _starting([*names, *(path.parent.name for path in folder.glob("*/paper.yaml"))], incomplete)


def _starting(names: list[str], incomplete: str) -> list[str]:
    return sorted({str(name) for name in names if name and str(name).startswith(incomplete)})


def _params() -> dict:
    from vse_pipe.project.params.document import read_document

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
# Options of vse-pipe itself.
_BEFORE = "-S", "--set", "-q", "--quiet", "-v", "--verbose", "--version"


class Command(TyperCommand):
    """One command, with its example."""

    def parse_args(self, ctx, args):
        """Raises UsageError for an option of vse-pipe itself that stands after the command."""
        for arg in takewhile(lambda arg: arg != "--" and not ctx.resilient_parsing, args):
            if arg.partition("=")[0] in _BEFORE:
                raise UsageError(f"{arg} stands before the command: vse-pipe {arg} ... {ctx.info_name}")
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx, formatter):
        with formatter.section("Example"):
            formatter.write(f"{'':>{formatter.current_indent}}{EXAMPLES[self.name]}\n")


class Commands(TyperGroup):
    """All commands under the headings of their panels, each with its first paragraph."""

    def format_commands(self, ctx, formatter):
        for heading, members in groupby(self.commands.items(), lambda item: item[1].rich_help_panel):
            with formatter.section(heading):
                formatter.write_dl([(name, cleandoc(command.help).partition("\n\n")[0]) for name, command in members])
