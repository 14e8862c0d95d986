"""Thumbnails: each picture is in the page once, as a WebP data URI."""

import base64
import io
import json
from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup
from PIL import Image, ImageOps

from vse_pipe.artifacts.catalogue import Catalogue
from vse_pipe.core.errors import UnreadableImage
from vse_pipe.pictures.read import decoding, open_picture

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
    """id: of the element with ``spec``. label: the chart in a sentence, for screen readers."""

    id: str
    label: str
    spec: Markup


@dataclass
class Collector:
    """Pictures and charts of a page. side: pixels of a thumbnail; unreadable: names of files."""

    side: int
    unreadable: list[str] = field(default_factory=list)
    _pictures: dict[tuple[Path, int], Thumbnail] = field(default_factory=dict)
    _symbols: dict[str, str] = field(default_factory=dict)
    _charts: int = 0

    def chart(self, spec: dict, label: str) -> Chart:
        self._charts += 1
        # JSON whose strings cannot end its <script> element.
        text = json.dumps(spec, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
        return Chart(f"chart-{self._charts}", label, Markup(text))  # noqa: S704 (escaped here)

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
