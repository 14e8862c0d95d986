"""vse-pipe serve and review: pages in the browser."""

import contextlib
import getpass
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vse_pipe.commands import _help, _project, vectors
from vse_pipe.commands._project import AsJson, Device, SearchedName, SearchedSplit
from vse_pipe.core import console
from vse_pipe.core.console import plain, say, warn
from vse_pipe.core.errors import InputError, UsageError, missing_package, unknown

if TYPE_CHECKING:
    from vse_pipe.audit.review.desk import ReviewDesk

_PACKAGES = ("starlette", "uvicorn", "python_multipart")
Host = Annotated[str, Option(help="the address to listen on; with any but the default other machines can use the page")]
Port = Annotated[int, Option(min=0, max=65535, help="the port to listen on; 0 takes any free port")]


def serve(
    run: SearchedName = None,
    inference: Annotated[
        list[str], Option(help="criteria to choose from on the page; several with commas, or repeat the option")
    ] = ["nns"],  # noqa: B006 (typer does not change it)
    split: SearchedSplit = "test",
    host: Host = "127.0.0.1",
    port: Port = 8000,
    device: Device = "auto",
) -> None:
    """Serve a local web page that searches by a sentence or a picture, until Ctrl-C."""
    _require_packages("serve")
    params = _project.params()
    criteria = vectors.criteria_named(inference)
    if run is not None:
        _project.one_run(run, params, ranked=True)
    from vse_pipe.search.server import listen

    with listen(host, port) as listening:
        reason = "as asked"
        if run is None:
            run, reason = _project.default_run(params, criteria[0])
            say(f"run {run}: {reason}")
        from vse_pipe.search.engine import Engine

        first = Engine.open(params, run, criteria[0], split, device)
        engines = {criteria[0]: first, **{name: first.under(name) for name in criteria[1:]}}
        for engine in engines.values():
            _warm(engine)
        _answer(engines, host, listening, reason)


def _require_packages(command: str) -> None:
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise missing_package(f"vse-pipe {command}", missing[0])


def _warm(engine) -> None:
    """Load model, vectors and correction, so that the first visitor does not wait."""
    from vse_pipe.search.query import TO_IMAGES

    engine.correction(TO_IMAGES)
    # A vocabulary without the word raises an error after the model is loaded.
    with contextlib.suppress(InputError):
        engine.by_text("a", 1)


def _answer(engines: dict, host: str, listening, reason: str) -> None:
    from vse_pipe.report.formatting import plural
    from vse_pipe.search import server
    from vse_pipe.search.app import create

    hosts = _hosts(host, listening, "search and see the pictures")
    first = next(iter(engines.values()))
    counts = ", ".join(plural(first.counts[kind], kind.removesuffix("s")) for kind in ("images", "captions"))
    say(f"run {first.run} under {', '.join(engines)}, split {first.split}: {counts}")
    say(f"searching at {server.address(listening)} until Ctrl-C")
    server.serve(create(engines, hosts, reason), listening)


def _hosts(host: str, listening, deeds: str) -> list[str]:
    """Accepted names in the Host header; warns where others can reach the page. deeds: of these."""
    from vse_pipe.search import server

    bound, port = listening.getsockname()[:2]
    hosts = server.accepted_hosts(host, bound)
    if not server.is_private(bound):
        warn(f"anyone who reaches {bound} port {port} can {deeds}; the page answers under the names {', '.join(hosts)}")
    return hosts


def review(
    dataset: Annotated[str, _help.option("a name under datasets: whose pairs were audited", "datasets")],
    noise: Annotated[str | None, _help.option("a name under noises: (default: as prepared)", "noises")] = None,
    decisions: Annotated[Path | None, Option(help="the file of decisions (default: decisions.csv)")] = None,
    reviewer: Annotated[str | None, Option("--by", help="the name of the reviewer (default: the login name)")] = None,
    auto: Annotated[
        float | None, Option(min=0.0, max=1.0, help="no page: take all open proposals with at least this doubt")
    ] = None,
    kind: Annotated[list[str] | None, Option(help="with --auto: only findings of this kind; repeat it")] = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    as_json: AsJson = False,
) -> None:
    """Decide on the findings of an audit on a local web page, until Ctrl-C.

    Each decision is a row of decisions.csv, which is only added to. Several people can review at
    the same time; each sees the decisions of others after an own one.
    """
    if auto is None and (as_json or kind):
        raise UsageError("--json and --kind are for --auto; the page has a filter")
    if auto is None:
        _require_packages("review")
    name = _name_of(reviewer)
    decisions = decisions and decisions.resolve()
    params = _project.params()
    _project.chosen(dataset, params.datasets, "data set")
    if noise is not None:
        _project.chosen(noise, [key for key, node in params.noises.items() if node.dataset == dataset], "noise")
    from vse_pipe.artifacts.decisions import KINDS
    from vse_pipe.audit.review import desk

    for chosen in kind or ():
        if chosen not in KINDS:
            raise UsageError(unknown("kind", chosen, KINDS))
    opened = desk.open_desk(dataset, noise, decisions)
    if auto is None:
        return _reviewed(opened, name, host, port)
    counts = opened.decide(auto, kind or ())
    if as_json:
        return console.document({"decided": counts})
    for name, count in counts.items():
        console.line(f"{name}: {count:,} {'dropped' if name == 'pair' else 'taken'}")
    return None


def _name_of(reviewer: str | None) -> str:
    """Raises UsageError for a name that would not stay one cell, or means the program."""
    try:
        name = (getpass.getuser() if reviewer is None else reviewer).strip()
    except (KeyError, OSError) as error:  # a container whose user has no name
        raise UsageError("the user has no login name here; give one with --by") from error
    is_cell = name and plain(name) == name and len(name) <= 60 and not name.startswith(("=", "+", "-", "@", "'"))
    if not is_cell or name.partition(" ")[0] == "auto":
        raise UsageError(f"--by {reviewer!r}: expected a name of 1 to 60 letters that is not auto")
    return name


def _reviewed(desk: "ReviewDesk", name: str, host: str, port: int) -> None:
    from vse_pipe.audit.review.app import create
    from vse_pipe.search import server

    with server.listen(host, port) as listening:
        hosts = _hosts(host, listening, f"decide as {name} and see the pictures")
        say(f"reviewing at {server.address(listening)} until Ctrl-C, as {name}")
        server.serve(create(desk, name, hosts), listening)
