"""Helpers of all commands: options, values of --set, the project, and the selected nodes of params.yaml."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Annotated

from typer import Option

from vse_pipe.commands import _help
from vse_pipe.core.errors import UsageError
from vse_pipe.core.locks import claim

Device = Annotated[str, Option(help="where to compute: auto, cpu, cuda or cuda:N", autocompletion=_help.devices)]
RunName = Annotated[str | None, _help.option("a name under runs: in params.yaml (default: all)", "runs")]
EmbeddedName = Annotated[
    str | None, _help.option("a name under runs: or transfers: in params.yaml (default: all)", "runs", "transfers")
]
_RANKED = "runs", "ensembles", "transfers"
RankedName = Annotated[
    str | None, _help.option("a name under runs:, ensembles: or transfers: in params.yaml (default: all)", *_RANKED)
]
SearchedName = Annotated[
    str | None,
    _help.option(
        "a name under runs:, ensembles: or transfers: (default: the only collection without captions, else the best run "
        "in the report)",
        *_RANKED,
    ),
]
OnDataset = Annotated[
    str | None,
    _help.option(
        "a data set that the run was not trained on; it needs features made in the same way as the run's", "datasets"
    ),
]
Engine = Annotated[
    str | None, Option(help="local, or ray: worker processes of a Ray cluster (default: engine.name in params.yaml)")
]
Workers = Annotated[int | None, Option(help="with --engine ray: number of worker processes (default: engine.workers)")]
Address = Annotated[
    str | None,
    Option(help="with --engine ray: address of the cluster; local starts one for this call (default: engine.address)"),
]
AsJson = Annotated[bool, Option("--json", help="print one JSON document instead of a table")]
overrides: list[str] = []


def enter_root() -> None:
    """Change to the root of the project. Paths in a project are relative to it, as in DVC."""
    from vse_pipe.project.paths import find_root

    os.chdir(find_root(Path.cwd()))


def params():
    """Params of the project around the working directory, with the values of --set."""
    from vse_pipe.papers import overlay
    from vse_pipe.project.params.load import load
    from vse_pipe.project.paths import PARAMS

    enter_root()
    return load(PARAMS, overrides, further=[overlay.row_problems])


def chosen_runs(name: str | None, params, ranked: bool = False, embedded: bool = False) -> list[str]:
    """Names of the selected models: ``name``, its repetitions for a run with seeds, or all without ``name``.

    ranked: ensembles and transfers count too; embedded: transfers count too. Raises UsageError that names runs to use
    instead.
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


def on_dataset(params, names: list[str], dataset: str | None):
    """``params`` and ``names``, or with ``dataset`` the params and names of transfers of these runs to it."""
    if dataset is None:
        return params, names
    from vse_pipe.project.params.checks import with_transfers

    for name in names:
        if name not in params.runs:
            raise UsageError(f"--dataset is for one run; '{name}' is none: name a run of it")
    return with_transfers(params, names, dataset)


def follows() -> bool:
    """Is this a further process of ``torchrun``? Its first process writes files and messages for all."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ["RANK"] != "0"


def one_run(name: str, params, ranked: bool = False, embedded: bool = False) -> str:
    """The name of one model. Raises UsageError that names the repetitions of a run with seeds, else as
    ``chosen_runs``."""
    from vse_pipe.project.repetitions import one_model

    return chosen_runs(one_model(params, name), params, ranked, embedded)[0]


def settle(params, names: Collection[str], place: Callable[[str], Path], files: Iterable[str]) -> None:
    """Call ``repetitions.settle`` for each run whose repetitions are all among ``names``."""
    from vse_pipe.project import repetitions

    for run, models in params.groups.items():
        if set(models) <= set(names):
            repetitions.settle(place(run), {place(model) for model in models}, files)


def chosen(name: str | None, nodes: Collection[str], kind: str) -> list[str]:
    """``name``, or all ``nodes`` without a name. Raises UsageError with a similar name."""
    from vse_pipe.core.errors import unknown

    if name is None:
        return list(nodes)
    if name not in nodes:
        raise UsageError(unknown(kind, name, nodes))
    return [name]


@contextlib.contextmanager
def reserved(outs: Iterable[Path], lock: Callable[[Path], contextlib.AbstractContextManager] = claim) -> Iterator[None]:
    """Hold the locks of ``outs`` while modules are imported, which takes seconds. A second writer so fails at once.

    The stage takes each lock again when it writes, so that other processes can write the remaining outputs. Raises
    LockedError.
    """
    with contextlib.ExitStack() as stack:
        for out in outs:
            stack.enter_context(lock(out))
        yield


def spread(engine, device: str) -> contextlib.AbstractContextManager:
    """A context in which the processes of ``engine`` of params.yaml do the work. Raises MissingResource."""
    from vse_pipe.project.registry import ENGINES

    return ENGINES.load(engine.name).opened(engine, device)


def show_each(results: dict[str, dict], show: Callable[[dict, bool], None], as_json: bool) -> None:
    """Print the figures of each run with ``show``; with --json and more than one run, one document by name."""
    if as_json and len(results) > 1:
        from vse_pipe.core.console import document

        return document(results)
    for figures in results.values():
        show(figures, as_json)
    return None


def wrote(outs: list[Path], as_json: bool) -> None:
    """Print the paths of the written files as one document with --json."""
    if as_json:
        from vse_pipe.core.console import document

        document({"outputs": [str(out) for out in outs]})


def undo(path: Path) -> str:
    """Advice on how git restores a file that is about to be written. It is empty unless the last commit has the same
    content."""
    try:
        same = all(
            subprocess.run(["git", *command], capture_output=True, check=False).returncode == 0  # noqa: S603, S607 (our own words)
            for command in (("cat-file", "-e", f"HEAD:./{path}"), ("diff", "--quiet", "HEAD", "--", str(path)))
        )
    except OSError:  # no git here
        return ""
    return f", `git checkout {path}` takes it back" if same else ""
