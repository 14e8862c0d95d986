"""vse-pipe serve and review: pages in the browser."""

import contextlib
import importlib.util
from typing import Annotated

from typer import Option

from vse_pipe.commands import _project, stages
from vse_pipe.commands._project import Device, SearchedName
from vse_pipe.core.errors import InputError, MissingResource

_PACKAGES = ("starlette", "uvicorn", "python_multipart")


def serve(
    run: SearchedName = None,
    inference: Annotated[
        list[str], Option(help="criteria to choose from on the page; several with commas, or repeat the option")
    ] = ["nns"],  # noqa: B006 (typer does not change it)
    split: Annotated[str, Option(help="the split to search: test, val, train or all")] = "test",
    host: Annotated[
        str, Option(help="the address to listen on; with any but the default other machines can search")
    ] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="the port to listen on; 0 takes any free port")] = 8000,
    device: Device = "auto",
) -> None:
    """Serve a local web page that searches by a sentence or a picture, until Ctrl-C."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingResource(
            f"vse-pipe serve needs {', '.join(missing)}, which is not installed: pip install 'vse-pipe[serve]'"
        )
    params = _project.params()
    criteria = stages.criteria_named(inference)
    if run is not None:
        _project.one_run(run, params, ranked=True)
    from vse_pipe.core.console import say
    from vse_pipe.tools.serve.server import listen

    with listen(host, port) as listening:
        reason = "as asked"
        if run is None:
            run, reason = _project.default_run(params, criteria[0])
            say(f"run {run}: {reason}")
        from vse_pipe.tools.search.engine import Engine

        first = Engine.open(params, run, criteria[0], split, device)
        engines = {criteria[0]: first, **{name: first.under(name) for name in criteria[1:]}}
        for engine in engines.values():
            _warm(engine)
        _answer(engines, host, listening, reason)


def _warm(engine) -> None:
    """Load model, vectors and correction, so that errors appear now and the first visitor does not wait."""
    from vse_pipe.tools.search.query import TO_IMAGES

    engine.correction(TO_IMAGES)
    # A vocabulary without the word raises an error after the model is loaded.
    with contextlib.suppress(InputError):
        engine.by_text("a", 1)


def _answer(engines: dict, host: str, listening, reason: str) -> None:
    from vse_pipe.core.console import say, warn
    from vse_pipe.report.formatting import plural
    from vse_pipe.tools.serve import server
    from vse_pipe.tools.serve.app import create

    bound = listening.getsockname()[0]
    hosts = server.accepted_hosts(host, bound)
    if not server.is_private(bound):
        warn(
            f"anyone who reaches {bound} port {listening.getsockname()[1]} can search and see the pictures; the page answers under the names {', '.join(hosts)}"
        )
    first = next(iter(engines.values()))
    counts = ", ".join(plural(first.counts[kind], kind.removesuffix("s")) for kind in ("images", "captions"))
    say(f"run {first.run} under {', '.join(engines)}, split {first.split}: {counts}")
    say(f"searching at {server.address(listening)} until Ctrl-C")
    server.serve(create(engines, hosts, reason), listening)
