"""Pictures and charts of a page: each picture is in it once, as a WebP data URI."""

import base64
import io
import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup
from PIL import Image, ImageOps

from vse_pipe.artifacts.catalogue import Catalogue
from vse_pipe.core.errors import UnreadableImage
from vse_pipe.pictures.read import decoding, open_picture
from vse_pipe.report.formatting import template_environment

_QUALITY = 80


def thumbnail(content: bytes, side: int) -> bytes | None:
    """WebP of at most ``side`` x ``side`` pixels, upright, with the picture's proportions; None for
    an unreadable picture.

    Only the formats that ``prepare`` accepts are readable.
    """
    try:
        with open_picture(content, "") as image:
            small = _upright(image, side)
    except UnreadableImage:
        return None
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    small.save(out, "WEBP", quality=_QUALITY, method=4)
    return out.getvalue()


def _upright(image: Image.Image, side: int) -> Image.Image:
    with decoding(""):
        image.draft("RGB", (side * 2, side * 2))
        return ImageOps.exif_transpose(image).convert("RGB")


def data_uri(webp: bytes) -> str:
    return "data:image/webp;base64," + base64.b64encode(webp).decode("ascii")


@dataclass(frozen=True)
class Thumbnail:
    """symbol: id of the SVG symbol, None without a picture. label: a description."""

    symbol: str | None
    label: str


@dataclass(frozen=True)
class Chart:
    """id: of the element with ``spec``, a specification of Vega-Lite."""

    id: str
    spec: Markup


@cache
def page_environment() -> Environment:
    return template_environment(Path(__file__).parent)


@dataclass
class Collector:
    """Pictures and charts of a page. side: pixels of a thumbnail; unreadable: names of files."""

    side: int
    unreadable: list[str] = field(default_factory=list)
    _pictures: dict[tuple[Path, int], Thumbnail] = field(default_factory=dict)
    _symbols: dict[str, str] = field(default_factory=dict)
    _charts: int = 0

    def chart(self, name: str, **values: Any) -> Chart:
        """The chart of charts/<name>.json with ``values``, among them tables of rows."""
        self._charts += 1
        tables = {key: value for key, value in values.items() if isinstance(value, pd.DataFrame)}
        rows = {key: json.loads(table.to_json(orient="records")) for key, table in tables.items()}
        text = page_environment().get_template(f"charts/{name}.json").render(values | rows)
        spec = htmlsafe_json_dumps(json.loads(text), separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        return Chart(f"chart-{self._charts}", spec)

    def picture(self, catalogue: Catalogue, image_id: int) -> Thumbnail:
        """The picture of an image. Raises as ``Catalogue.content``."""
        key = catalogue.folder, image_id
        if key not in self._pictures:
            name, text = catalogue.label("image_id", image_id), catalogue.first_caption(image_id)
            label = f"Picture {name}" + (f": {text}" if text else "")
            self._pictures[key] = Thumbnail(self._symbol(catalogue, image_id), label)
        return self._pictures[key]

    @property
    def symbols(self) -> dict[str, str]:
        """{symbol id: data URI}."""
        return {symbol: uri for uri, symbol in self._symbols.items()}

    def _symbol(self, catalogue: Catalogue, image_id: int) -> str | None:
        has_picture = catalogue.size(image_id)[0] > 0
        if not has_picture:
            return None
        content = catalogue.content(image_id)
        webp = None if content is None else thumbnail(content, self.side)
        if webp is None:
            self.unreadable.append(catalogue.file(image_id))
            return None
        return self._symbols.setdefault(data_uri(webp), f"picture-{len(self._symbols) + 1}")
