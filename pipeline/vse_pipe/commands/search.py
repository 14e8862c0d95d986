"""vse-pipe search."""

import atexit
import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vse_pipe.commands import _project
from vse_pipe.commands._project import AsJson, Device, SearchedName
from vse_pipe.core.errors import MissingResource, UsageError

if TYPE_CHECKING:
    from vse_pipe.tools.search.query import Limits, Term


def search(
    text: Annotated[
        str | None,
        typer.Argument(help="a sentence, a picture's file, or several with + and -: 'dog:2 + pool.jpg - fruit'"),
    ] = None,
    image: Annotated[Path | None, typer.Option(help="a photo; find captions for it")] = None,
    image_id: Annotated[
        str | None, typer.Option(help="an image of the data set, by its id; find captions for it")
    ] = None,
    run: SearchedName = None,
    inference: Annotated[
        str, typer.Option(help="how to rank: nns, or a criterion against hubs: is, csls, nnn, dual_is, sinkhorn")
    ] = "nns",
    k: Annotated[int, typer.Option("--k", min=1, max=10_000, help="number of results")] = 10,
    split: Annotated[str, typer.Option(help="the split to search: test, val, train or all")] = "test",
    to: Annotated[
        str | None, typer.Option(help="what to find, images or captions (default: captions for a picture, else images)")
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="search only images with this property: \"split = 'test' and width > 500\"")
    ] = None,
    group: Annotated[
        float | None,
        typer.Option(
            help="show one of near duplicates: of results whose vectors have this cosine or more the best, such as 0.97"
        ),
    ] = None,
    min_probability: Annotated[
        float | None,
        typer.Option(help="show only results that match with at least this probability, 0 to 1, as learnt from val"),
    ] = None,
    probability: Annotated[
        bool, typer.Option("--probability", help="show the probability that a result matches")
    ] = False,
    pictures: Annotated[
        bool, typer.Option(help="show pictures in terminals that can: kitty, iTerm2, WezTerm, Ghostty")
    ] = True,
    html: Annotated[Path | None, typer.Option(help="also write the results as a web page to this file")] = None,
    as_json: AsJson = False,
    device: Device = "auto",
) -> None:
    """Find images that fit a sentence, or captions that fit an image."""
    parts = _parts(text, image, image_id)
    out = None if html is None else html.resolve()
    with _uncollected():
        if out is not None:
            from vse_pipe.tools.search.show import check_free

            check_free(out)
        params = _project.params()
        from vse_pipe.tools.search.choose import default_run
        from vse_pipe.tools.search.engine import Engine
        from vse_pipe.tools.search.query import Limits

        limits = Limits(k, to, where, group, 0, probability, min_probability)
        limits.check()
        run, why = (run, "as asked") if run else default_run(params, inference)
        _answer(Engine.open(params, run, inference, split, device), parts, limits, why, as_json, out, pictures)


def _parts(text: str | None, image: Path | None, image_id: str | None) -> "tuple[Term, ...]":
    """With the content of the files that are named, which are relative to where the command is called."""
    from vse_pipe.core.console import say
    from vse_pipe.tools.search.query import IMAGE, PHOTO, Term, parse, picture_name

    if sum(one is not None for one in (text, image, image_id)) != 1:
        raise UsageError("search for what? give a sentence, --image FILE or --image-id ID, one of them")
    if image is not None:
        return (Term(PHOTO, image.name, content=_content(image)),)
    if image_id is not None:
        return (Term(IMAGE, image_id),)
    assert text is not None
    if (name := picture_name(text)) is not None:
        quoted = f"""vse-pipe search '"{name}"'"""
        if not Path(name).is_file():
            raise MissingResource(f"{name}: no such file; to search for these words, write {quoted}")
        say(f"{name}: searched with the picture in this file; to search for these words, write {quoted}")
        return (Term(PHOTO, Path(name).name, content=_content(Path(name))),)
    return tuple(
        replace(part, content=_content(Path(part.value))) if part.kind == PHOTO else part for part in parse(text)
    )


def _answer(
    engine, parts: "tuple[Term, ...]", limits: "Limits", why: str, as_json: bool, out: Path | None, pictures: bool
) -> None:
    from vse_pipe.core.console import stdout
    from vse_pipe.tools.search import query, show
    from vse_pipe.tools.search.answer import document

    answer = engine.ask(parts, limits)
    content = document(engine, answer, query.direction(parts, limits.to, engine.counts["captions"]), why)
    show.show(content, as_json)
    terminal = show.protocol(stdout.file, os.environ) if pictures and not as_json else None
    if terminal is not None:
        show.draw(stdout.file, terminal, content["hits"], engine.picture)
    if out is not None:
        _write_page(out, engine, content, parts)


def _write_page(out: Path, engine, content: dict, parts: "tuple[Term, ...]") -> None:
    from vse_pipe.core.console import say
    from vse_pipe.pictures.images import shown
    from vse_pipe.tools.search import show
    from vse_pipe.tools.search.query import IMAGE

    asked = [shown(path) for part in parts if part.kind == IMAGE and (path := engine.picture(part.value)) is not None]
    asked += [part.content for part in parts if part.content is not None]
    show.write_page(out, content, engine.picture, asked[0] if len(parts) == 1 and asked else None)
    say(f"{out} shows it")


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without looking for garbage while modules are imported, and again at the end: half a second for nothing."""
    collecting = gc.isenabled()
    gc.disable()
    atexit.register(_leave)
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _leave() -> None:
    # Triton's bindings take what is not collected for a leak and say so at length.
    if "triton" not in sys.modules:
        gc.freeze()


def _content(image: Path) -> bytes:
    from vse_pipe.pictures import read

    return read.photo(image)
