"""vse-pipe search."""

import atexit
import contextlib
import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands import _project
from pipeline.commands._project import AsJson, Device
from pipeline.core.errors import UsageError


def search(
    text: Annotated[str | None, typer.Argument(help="a sentence; its images are found")] = None,
    image: Annotated[Path | None, typer.Option(help="a photo; its captions are found")] = None,
    image_id: Annotated[str | None, typer.Option(help="an image of the data set; its captions are found")] = None,
    run: Annotated[
        str | None,
        typer.Option(help="a name under runs: or ensembles:; without it the one with the best rsum in the report"),
    ] = None,
    inference: Annotated[
        str, typer.Option(help="nns, or a criterion against hubs: is, csls, nnn, dual_is, sinkhorn")
    ] = "nns",
    k: Annotated[int, typer.Option("--k", min=1, max=10_000, help="how many are shown")] = 10,
    split: Annotated[str, typer.Option(help="what is searched: test, val, train or all")] = "test",
    html: Annotated[Path | None, typer.Option(help="write the answer as a page of its own too")] = None,
    as_json: AsJson = False,
    device: Device = "auto",
) -> None:
    """Find the images that fit a sentence, or the captions that fit an image."""
    if sum(one is not None for one in (text, image, image_id)) != 1:
        raise UsageError("search for what? give a sentence, --image FILE or --image-id ID, one of them")
    asked = _Asked(text, _content(image), None if image is None else image.name, image_id)
    out = None if html is None else html.resolve()
    with _uncollected():
        if out is not None:
            from pipeline.tools.search.page import check_free

            check_free(out)
        params = _project.params()
        from pipeline.tools.search.choose import default_run
        from pipeline.tools.search.engine import Engine

        run, why = (run, "as asked") if run else default_run(params, inference)
        _answer(Engine.open(params, run, inference, split, device), asked, k, why, as_json, out)


@dataclass(frozen=True)
class _Asked:
    """One of text, content and image_id; name: of the photo's file."""

    text: str | None
    content: bytes | None
    name: str | None
    image_id: str | None


def _answer(engine, asked: _Asked, k: int, why: str, as_json: bool, out: Path | None) -> None:
    from pipeline.tools.search import answer as answers
    from pipeline.tools.search import show
    from pipeline.tools.search.engine import TO_CAPTIONS, TO_IMAGES

    if asked.text is not None:
        answer = engine.by_text(asked.text, k)
    elif asked.content is not None:
        answer = engine.by_image(asked.content, k, asked.name)
    else:
        answer = engine.by_image_id(asked.image_id, k)
    told = answers.document(engine, answer, TO_CAPTIONS if asked.text is None else TO_IMAGES, why)
    show.show(told, as_json)
    if out is not None:
        _write_page(out, engine, told, asked)
    engine.keep()


def _write_page(out: Path, engine, told: dict, asked: _Asked) -> None:
    from pipeline.core.console import say
    from pipeline.pictures.images import shown
    from pipeline.tools.search import page

    own = None if asked.image_id is None else engine.picture(asked.image_id)
    page.write(out, told, engine.picture, asked.content if own is None else shown(own))
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


def _content(image: Path | None) -> bytes | None:
    if image is None:
        return None
    from pipeline.pictures import read

    return read.photo(image)
