"""vse-pipe serve."""

import contextlib
import importlib.util
from typing import Annotated

import typer

from vse_pipe.commands import _project
from vse_pipe.commands._project import Device, SearchedName
from vse_pipe.commands.evaluate import criteria_named
from vse_pipe.core.errors import InputError, MissingResource

_PACKAGES = ("starlette", "uvicorn", "python_multipart")


def serve(
    run: SearchedName = None,
    inference: Annotated[
        list[str], typer.Option(help="criteria to choose from on the page; several with commas, or repeat the option")
    ] = ["nns"],  # noqa: B006 (typer never changes it)
    split: Annotated[str, typer.Option(help="the split to search: test, val, train or all")] = "test",
    host: Annotated[
        str, typer.Option(help="the address to listen on; with any but the default other machines can search")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="the port to listen on; 0 takes any free port")] = 8000,
    device: Device = "auto",
) -> None:
    """Serve a local web page that searches by a sentence or a picture, until Ctrl-C."""
    _check_packages()
    params = _project.params()
    criteria = criteria_named(inference)
    if run is not None:
        _project.one_run(run, params, ranked=True)
    from vse_pipe.core.console import say
    from vse_pipe.tools.search.choose import default_run
    from vse_pipe.tools.serve.server import listen

    with listen(host, port) as listening:
        why = "as asked"
        if run is None:
            run, why = default_run(params, criteria[0])
            say(f"run {run}: {why}")
        from vse_pipe.tools.search.engine import Engine

        first = Engine.open(params, run, criteria[0], split, device)
        engines = {criteria[0]: first, **{one: first.under(one) for one in criteria[1:]}}
        for engine in engines.values():
            _warm(engine)
        _answer(engines, host, listening, why)


def _warm(engine) -> None:
    """Load model, vectors and correction: errors in them belong here, and the first visitor does not wait."""
    from vse_pipe.tools.search.query import TO_IMAGES

    engine.correction(TO_IMAGES)
    # Few vocabularies lack the word; where one does, the model is loaded by the time that is known.
    with contextlib.suppress(InputError):
        engine.by_text("a", 1)


def _answer(engines: dict, host: str, listening, why: str) -> None:
    from vse_pipe.core.console import say, warn
    from vse_pipe.report.formatting import plural
    from vse_pipe.tools.serve import server
    from vse_pipe.tools.serve.app import create

    bound = listening.getsockname()[0]
    hosts = server.accepted_hosts(host, bound)
    if not server.is_private(bound):
        warn(
            f"anyone who reaches {bound} port {listening.getsockname()[1]} can search and see the pictures; "
            f"the page answers under the names {', '.join(hosts)}"
        )
    first = next(iter(engines.values()))
    counted = ", ".join(plural(first.counts[kind], kind.removesuffix("s")) for kind in ("images", "captions"))
    say(f"run {first.run} under {', '.join(engines)}, split {first.split}: {counted}")
    say(f"searching at {server.address(listening)} until Ctrl-C")
    server.serve(create(engines, hosts, why), listening)


def _check_packages() -> None:
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingResource(
            f"vse-pipe serve needs {', '.join(missing)}, which is not installed: pip install 'vse-pipe[serve]'"
        )
