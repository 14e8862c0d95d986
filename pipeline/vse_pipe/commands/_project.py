"""Helpers of all commands: options, values of --set, the project, and the selected nodes."""

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated

from typer import Option

from vse_pipe.commands import _help
from vse_pipe.core import console
from vse_pipe.core.errors import UsageError, unknown
from vse_pipe.project import paths

Device = Annotated[str, _help.choice("where to compute, or cuda:N", *_help.DEVICES)]
_RANKED = "runs", "ensembles", "transfers"
RunName = Annotated[str | None, _help.option("a name under runs: (default: all)", "runs")]
EmbeddedName = Annotated[str | None, _help.option("a name under runs: or transfers: (default: all)", *_RANKED[::2])]
RankedName = Annotated[
    str | None, _help.option("a name under runs:, ensembles: or transfers: (default: all)", *_RANKED)
]
SearchedName = Annotated[
    str | None, _help.option("a run, ensemble or transfer (default: the collection, or the best run)", *_RANKED)
]
SearchedSplit = Annotated[str, Option(help="the split to search: test, val, train or all")]
AsJson = Annotated[bool, Option("--json", help="print one JSON document instead of a table")]
overrides: list[str] = []


def enter_root() -> None:
    """Change to the root of the project. Paths in a project are relative to it, as in DVC."""
    os.chdir(paths.find_root(Path.cwd()))


def params():
    """Params of the project around the working directory, with the values of --set."""
    from vse_pipe.papers import overlay
    from vse_pipe.project.params.load import load

    enter_root()
    return load(paths.PARAMS, overrides, further=[overlay.row_problems])


def chosen_runs(name: str | None, params, ranked: bool = False, embedded: bool = False) -> list[str]:
    """Names of the models: ``name``, its repetitions for a run with seeds, or all without it.

    ranked: ensembles and transfers count too; embedded: transfers count too. Raises UsageError that
    names runs to use instead.
    """
    candidates = params.evaluated() if ranked else [*params.runs, *(params.transfers if embedded else ())]
    models = params.models(name)
    if name in params.groups and models[0] in candidates:
        return list(models)
    if models[0] in params.transfers and models[0] not in candidates:
        node = params.transfers[models[0]]
        raise UsageError(f"'{name}' is run '{node.run}' on data set '{node.dataset}'; name the run: {node.run}")
    if name in params.ensembles and name not in candidates:
        node = params.ensembles[name]
        members = " or ".join(node.members)
        raise UsageError(f"'{name}' is an ensemble and has no model of its own; name a run of it: {members}")
    return chosen(name, candidates, "run")


def follows() -> bool:
    """Is this a further process of ``torchrun``? Its first one writes files and messages."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ["RANK"] != "0"


def one_run(name: str, params, ranked: bool = False, embedded: bool = False) -> str:
    """The name of one model. Raises UsageError for a run with seeds, else as ``chosen_runs``."""
    return chosen_runs(params.one_model(name), params, ranked, embedded)[0]


def settle(groups: Mapping[str, Collection[str]], names: Collection[str], place: Callable[[str], Path]) -> None:
    """Remove outputs of other seeds of each of ``groups``, a name with its seeds, in ``names``."""
    for group, members in groups.items():
        if set(members) <= set(names):
            paths.remove_other_seeds(place(group), set(map(place, members)))


def chosen(name: str | None, nodes: Collection[str], kind: str) -> list[str]:
    """``name``, or all ``nodes`` without a name. Raises UsageError with a similar name."""
    if name is None:
        return list(nodes)
    if name not in nodes:
        raise UsageError(unknown(kind, name, nodes))
    return [name]


def show_each(results: dict[str, dict], show: Callable[[dict, bool], None], as_json: bool) -> None:
    """Print the figures of each run; with --json and several runs, one document by name."""
    if as_json and len(results) > 1:
        return console.document(results)
    for figures in results.values():
        show(figures, as_json)
    return None


def wrote(outs: list[Path], as_json: bool) -> None:
    """Print the paths of the written files as one document with --json."""
    if as_json:
        console.document({"outputs": [str(out) for out in outs]})


def default_run(params, inference: str) -> tuple[str, str]:
    """(run, reason): the only run on a data set without captions, else the best of all runs.

    Raises UsageError for several runs on data sets without captions, else as ``best_run``.
    """
    from vse_pipe.artifacts import captions

    names = [*params.runs, *params.ensembles]
    folders = {name: paths.prepared(params.dataset(name)) for name in (*names, *params.transfers)}
    collections = [name for name, folder in folders.items() if captions.absent(folder)]
    if len(collections) > 1:
        raise UsageError(f"search which pictures? give --run: {', '.join(collections)}")
    if collections:
        return collections[0], "the only one of pictures without captions"
    return best_run(params, inference, names)


def best_run(params, inference: str, names: list[str]) -> tuple[str, str]:
    """(run, reason): the only one of ``names``, else that with the largest rsum.

    Raises UsageError where none of several is evaluated, or those that are have several data sets.
    """
    if len(names) == 1:
        return names[0], "the only run"
    from vse_pipe.artifacts import evaluation

    folders = {name: paths.evaluated(name, inference) for name in names}
    evaluated = {name: folder for name, folder in folders.items() if (folder / evaluation.METRICS).is_file()}
    if len({params.dataset(name) for name in evaluated}) != 1:
        raise UsageError(f"search which run? give --run: {', '.join(names)}")
    sums = {name: evaluation.read_metrics(folder)["rsum"] for name, folder in evaluated.items()}
    run = max(sums, key=sums.__getitem__)
    return run, f"the best rsum of {len(sums)} runs under {inference}, {sums[run]:.1f}"
