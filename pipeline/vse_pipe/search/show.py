"""Print the answer of a search as JSON, as a table, and as a page.

The page is one HTML file that uses no network and runs no script.
"""

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from vse_pipe.core import console
from vse_pipe.core.console import plain, say, stdout
from vse_pipe.core.files import require_free, write_text
from vse_pipe.search.query import TO_IMAGES, Answer, shortened

if TYPE_CHECKING:
    from vse_pipe.search.engine import Engine

# Pixels of a thumbnail's longer side.
_SIDE = 256
_FOLDER = Path(__file__).parent / "template"
# A mark in the first bytes of a page.
_MARK = b'<meta name="generator" content="vse-pipe search">'
# Unknown words in an answer.
_WORDS = 20
# The content of an image, by its id.
Look = Callable[[int | str], bytes | None]


def answer_document(engine: "Engine", answer: Answer, direction: str, reason: str) -> dict:
    """The answer with facts about the search and its correction, as ``vse-pipe search --json`` and
    the API of ``vse-pipe serve`` have it. reason: why the run was chosen."""
    return {
        **asdict(answer),
        "chosen": reason,
        "split": engine.split,
        "direction": direction,
        "searched": engine.counts[_kind(direction)],
        "left_out": engine.left_out,
        "correction": engine.correction(direction).about,
    }


def remarks(content: dict) -> list[str]:
    """Remarks on the search, one sentence in each line. content: result of ``answer_document``."""
    lines = [f"run {content['run']} ({content['chosen']})"]
    if content["unknown"]:
        words = [plain(shortened(word)) for word in content["unknown"][:_WORDS]]
        more = len(content["unknown"]) - len(words)
        lines.append(f"not in the vocabulary: {', '.join(words)}" + (f" and {more} more" if more else ""))
    lines += content["notes"]
    if where := content["narrowed"].get("where"):
        kind, left = _kind(content["direction"]), content["narrowed"]["left"]
        lines.append(f"{left:,} of {content['searched']:,} {kind} fit {', '.join(where)}")
    if not content["hits"]:
        lines.append("nothing fits")
    if content["left_out"]:
        images, captions = (content["left_out"][kind] for kind in ("images", "captions"))
        nor = f", nor their {captions:,} captions" if captions else ""
        lines.append(f"{images:,} images that could not be read are not searched{nor}")
    return lines + ([_corrected(content)] if content["correction"] else [])


def _kind(direction: str) -> str:
    return "images" if direction == TO_IMAGES else "captions"


def _corrected(content: dict) -> str:
    about = content["correction"]
    kind = "captions" if content["direction"] == TO_IMAGES else "images"
    source = f"{about['queries']:,} {kind} of {about['bank']}"
    return f"{content['inference']}: corrected by {source} in {about['seconds']:.1f} s"


def show(document: dict, as_json: bool) -> None:
    """Print the answer. document: result of ``answer_document``."""
    if as_json:
        stdout.file.write(json.dumps(document, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n")
    else:
        for line in remarks(document):
            say(line)
        _print_table(document)
    stdout.file.flush()  # a page takes long


def _print_table(document: dict) -> None:
    to_images = document["direction"] == TO_IMAGES
    kind = "images" if to_images else "captions"
    searched = f"{document['searched']:,} {kind} of {document['split']}"
    caption = f"{document['inference']}, {searched}, {document['seconds']:.2f} s"
    if not document["hits"]:
        return
    table = console.ruled(caption=caption)
    for name in ("rank", "score"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("image")
    described = any(hit["text"] for hit in document["hits"])
    if described:
        table.add_column("its first caption" if to_images else "caption")
    key = "image_id" if to_images else "caption_id"
    numbered = any(hit[key] != hit["file"] for hit in document["hits"])
    if numbered:
        table.add_column(key, justify="right", no_wrap=True)
    for hit in document["hits"]:
        cells = [str(hit["rank"]), f"{hit['score']:.4f}", plain(hit["file"])]
        cells += [plain(hit["text"])] * described + [plain(str(hit[key]))] * numbered
        table.add_row(*cells)
    console.show(table)


def check_free(out: Path) -> None:
    """Raises UsageError if ``out`` exists and is no page of ``write_page``."""
    require_free(out, "a page of `vse-pipe search`", key=_MARK, option="--html")


def write_page(out: Path, document: dict, picture: Look, query: bytes | None = None) -> None:
    """Write the page, whole or not at all. document: of ``answer_document``; query: its photo."""
    write_text(out, page(document, picture, query))


def page(document: dict, picture: Look, query: bytes | None = None) -> str:
    """The page as HTML. The template escapes captions, file names and the query; the policy allows
    only its style and pictures."""
    from vse_pipe.report.formatting import template_environment  # jinja2, which other answers do not need

    style = (_FOLDER / "gallery.css").read_text(encoding="utf-8")
    contents = {None: query, **{hit["image_id"]: picture(hit["image_id"]) for hit in document["hits"]}}
    return (
        template_environment(_FOLDER)
        .get_template("gallery.html")
        .render(
            document=document,
            to_images=document["direction"] == TO_IMAGES,
            remarks=remarks(document),
            pictures=_pictures({key: content for key, content in contents.items() if content is not None}),
            style=Markup(style),  # noqa: S704 (the page's own)
            policy=_policy(style),
        )
    )


def _pictures(contents: dict[int | str | None, bytes]) -> dict[int | str | None, str]:
    """Data URIs by image_id (None: the query), without unreadable pictures."""
    from vse_pipe.report.pictures import data_uri, thumbnail

    thumbnails = {key: thumbnail(content, _SIDE) for key, content in contents.items()}
    return {key: data_uri(webp) for key, webp in thumbnails.items() if webp is not None}


def _policy(style: str) -> str:
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
