"""What commands share: the values of --set, the project they run in, and the nodes of params.yaml they are for."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from vse_pipe.commands import _help
from vse_pipe.core.errors import UsageError
from vse_pipe.core.locks import claim

Device = Annotated[str, typer.Option(help="where to compute: auto, cpu, cuda or cuda:N", autocompletion=_help.devices)]
RunName = Annotated[
    str | None,
    typer.Option(
        "--run",
        help="a name under runs: in params.yaml (default: all)",
        autocompletion=_help.section("runs"),
    ),
]
EmbeddedName = Annotated[
    str | None,
    typer.Option(
        "--run",
        help="a name under runs: or transfers: in params.yaml (default: all)",
        autocompletion=_help.section("runs", "transfers"),
    ),
]
RankedName = Annotated[
    str | None,
    typer.Option(
        "--run",
        help="a name under runs:, ensembles: or transfers: in params.yaml (default: all)",
        autocompletion=_help.section("runs", "ensembles", "transfers"),
    ),
]
SearchedName = Annotated[
    str | None,
    typer.Option(
        "--run",
        help="a name under runs:, ensembles: or transfers: (default: the only collection without captions, else the best run in the "
        "report)",
        autocompletion=_help.section("runs", "ensembles", "transfers"),
    ),
]
OnDataset = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        help="a data set that the run was not trained on; it needs features made in the same way as the run's",
        autocompletion=_help.section("datasets"),
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(help="local, or ray: worker processes of a Ray cluster (default: engine.name in params.yaml)"),
]
Workers = Annotated[
    int | None, typer.Option(help="with --engine ray: number of worker processes (default: engine.workers)")
]
Address = Annotated[
    str | None,
    typer.Option(
        help="with --engine ray: address of the cluster; local starts one for this call (default: engine.address)"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON document instead of a table")]
overrides: list[str] = []


def enter_root() -> None:
    """Every path in the project is relative to its root, so that DVC and a call from a subfolder agree."""
    from vse_pipe.project.paths import find_root

    os.chdir(find_root(Path.cwd()))


def params():
    """params.yaml of the project around the working directory, with the values of --set."""
    from vse_pipe.papers import overlay
    from vse_pipe.project.params.load import load
    from vse_pipe.project.paths import PARAMS

    enter_root()
    return load(PARAMS, overrides, further=[overlay.row_problems])


def chosen_runs(name: str | None, params, ranked: bool = False, embedded: bool = False) -> list[str]:
    """As ``chosen`` for runs; of a run with seeds its repetitions. ranked: ensembles and transfers too, embedded: transfers;
    else an UsageError names the runs of one."""
    known = params.evaluated() if ranked else [*params.runs, *(params.transfers if embedded else ())]
    models = params.models(name)
    if name in params.groups and models[0] in known:
        return list(models)
    if models[0] in params.transfers and models[0] not in known:
        node = params.transfers[models[0]]
        raise UsageError(f"'{name}' is run '{node.run}' on data set '{node.dataset}'; name the run: {node.run}")
    if name in params.ensembles and name not in known:
        node = params.ensembles[name]
        raise UsageError(
            f"'{name}' is an ensemble and has no model of its own; name a run of it: {' or '.join(node.members)}"
        )
    return chosen(name, known, "run")


def on_dataset(params, names: list[str], dataset: str | None):
    """``params`` and the names of what is embedded and ranked: ``names``, or these runs on another data set."""
    if dataset is None:
        return params, names
    from vse_pipe.project.params.checks import with_transfers

    for name in names:
        if name not in params.runs:
            raise UsageError(f"--dataset is for one run; '{name}' is none: name a run of it")
    return with_transfers(params, names, dataset)


def follows() -> bool:
    """Whether ``torchrun`` started this process beside another one, which writes and speaks for both."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ["RANK"] != "0"


def one_run(name: str, params, ranked: bool = False, embedded: bool = False) -> str:
    """As ``chosen_runs`` where one model is needed. Raises UsageError that names the repetitions of a run with seeds."""
    from vse_pipe.project.repetitions import one_model

    return chosen_runs(one_model(params, name), params, ranked, embedded)[0]


def settle(params, names: Collection[str], place: Callable[[str], Path], files: Iterable[str]) -> None:
    """What remains to be done where all repetitions of a run are among ``names``; see ``repetitions.settle``."""
    from vse_pipe.project import repetitions

    for run, models in params.groups.items():
        if set(models) <= set(names):
            repetitions.settle(place(run), {place(one) for one in models}, files)


def chosen(name: str | None, nodes: Collection[str], kind: str) -> list[str]:
    """``name``, or all of ``nodes`` without one. Raises UsageError with the near miss."""
    from vse_pipe.core.errors import unknown

    if name is None:
        return list(nodes)
    if name not in nodes:
        raise UsageError(unknown(kind, name, nodes))
    return [name]


@contextlib.contextmanager
def reserved(outs: Iterable[Path], lock: Callable[[Path], contextlib.AbstractContextManager] = claim) -> Iterator[None]:
    """Hold the locks of ``outs`` while what does the work is imported, which takes seconds: a second writer is told at once.

    The stage takes them again, each in its turn, so that others may write what it has not come to. Raises LockedError.
    """
    with contextlib.ExitStack() as held:
        for out in outs:
            held.enter_context(lock(out))
        yield


def spread(engine, device: str) -> contextlib.AbstractContextManager:
    """Within, the processes that ``engine``, as of params.yaml, names do the work. Raises MissingResource."""
    from vse_pipe.project.registry import ENGINES

    return ENGINES.load(engine.name).opened(engine, device)


def show_each(found: dict[str, dict], show: Callable[[dict, bool], None], as_json: bool) -> None:
    """Figures by run: of one as ``show`` has them, of several one after the other, or one document by name."""
    if as_json and len(found) > 1:
        from vse_pipe.core.console import document

        return document(found)
    for figures in found.values():
        show(figures, as_json)
    return None


def wrote(outs: list[Path], as_json: bool) -> None:
    """The result of a command whose result is files: where they lie, as one document with --json."""
    if as_json:
        from vse_pipe.core.console import document

        document({"outputs": [str(out) for out in outs]})


def undo(path: Path) -> str:
    """What a message adds of a file that is about to be written: how git brings back what it holds now. Empty where the last
    commit does not have the file, or has it with another content, which `git checkout` would lose."""
    try:
        same = all(
            subprocess.run(["git", *command], capture_output=True, check=False).returncode == 0  # noqa: S603, S607 (our own words)
            for command in (("cat-file", "-e", f"HEAD:./{path}"), ("diff", "--quiet", "HEAD", "--", str(path)))
        )
    except OSError:  # no git here
        return ""
    return f", `git checkout {path}` takes it back" if same else ""
