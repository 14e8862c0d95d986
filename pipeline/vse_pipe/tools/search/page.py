"""A search's answer as a page: one HTML file that asks nothing of the network and runs no script."""

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path

from markupsafe import Markup

from vse_pipe.core.errors import UsageError
from vse_pipe.core.files import may_replace, write_text
from vse_pipe.pictures.images import shown
from vse_pipe.report.engine.formatting import environment
from vse_pipe.report.engine.pictures import data_uri, fit, thumbnail
from vse_pipe.tools.search.show import remarks

_FOLDER = Path(__file__).parent / "template"
_SIDE = 256
# In the head of the template, behind the policy, the title and no style.
_MARK, _HEAD = b'<meta name="generator" content="vse-pipe search">', 1000
# Of all pictures together; a page of 10,000 hits still opens.
_BUDGET = 32 * 2**20


def check_free(out: Path) -> None:
    """Raises UsageError where something lies at ``out`` that is no page of ``write``."""
    if not may_replace(out, _MARK, _HEAD):
        raise UsageError(f"--html: {out} exists and is no page of `vse-pipe search`; choose another name")


def write(out: Path, told: dict, picture: Callable[[int | str], Path | None], query: bytes | None = None) -> None:
    """told: as ``answer.document``; picture: where an image lies, by its id, as
    ``sources.read.at`` takes it; query: the photo asked with. Appears whole or
    not at all."""
    write_text(out, render(told, picture, query))


def render(told: dict, picture: Callable[[int | str], Path | None], query: bytes | None = None) -> str:
    """Captions, file names and the query are escaped by the template; the page's own policy allows its style by its digest,
    pictures that it holds, and nothing else."""
    style = (_FOLDER / "gallery.css").read_text(encoding="utf-8")
    files = {hit["image_id"]: picture(hit["image_id"]) for hit in told["hits"]}
    contents = {number: shown(path) for number, path in files.items() if path is not None}
    # First: of pictures that do not fit the last are left out.
    contents = {None: query, **contents}
    return (
        environment(_FOLDER)
        .get_template("gallery.html")
        .render(
            told=told,
            to_images=told["direction"] == "text_to_image",
            remarks=remarks(told),
            pictures=_pictures({key: content for key, content in contents.items() if content is not None}),
            style=Markup(style),  # noqa: S704 (the page's own)
            policy=_policy(style),
        )
    )


def _pictures(contents: dict[int | str | None, bytes]) -> dict[int | str | None, str]:
    """As data URIs by image_id, None for the query, small enough for all of them together; those that cannot be read are left out."""

    def at(side: int) -> dict[int | str | None, bytes]:
        made = {key: thumbnail(content, side) for key, content in contents.items()}
        return {key: webp for key, webp in made.items() if webp is not None}

    return {key: data_uri(webp) for key, webp in fit(at, _SIDE, _BUDGET)[0].items()}


def _policy(style: str) -> str:
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
