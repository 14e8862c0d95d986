"""Thumbnails: each picture is in the page once, as a WebP data URI."""

import base64
import io
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from markupsafe import Markup
from PIL import Image, ImageOps

from vse_pipe.core.errors import UnreadableImage
from vse_pipe.core.files import inside
from vse_pipe.pictures.images import page_bytes
from vse_pipe.pictures.read import decoding, open_picture
from vse_pipe.report.results import DatasetIndex

Key = TypeVar("Key")

_QUALITY = 80
_SMALLEST = 64


def thumbnail(content: bytes, side: int) -> bytes | None:
    """WebP of at most ``side`` x ``side`` pixels, upright, with the picture's proportions; None for an unreadable
    picture.

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


def embedded_size(webp: bytes) -> int:
    """Bytes in the page: base64 has 4 for 3."""
    return math.ceil(len(webp) / 3) * 4


def fit(make: Callable[[int], dict[Key, bytes]], side: int, budget: int) -> tuple[dict[Key, bytes], int]:
    """The thumbnails of ``make(side)`` and their side, which is reduced until they fit into ``budget``
    bytes of base64, though not below 64 px."""
    while True:
        thumbnails = make(side)
        size = sum(map(embedded_size, thumbnails.values()))
        if size <= budget or side <= _SMALLEST:
            return thumbnails, side
        side = max(_SMALLEST, min(side - 8, int(side * math.sqrt(budget / size))))


@dataclass(frozen=True)
class Thumbnail:
    """symbol: id of the SVG symbol, None without a picture. label: a description."""

    symbol: str | None
    label: str


@dataclass(frozen=True)
class Chart:
    """id: of the element that holds ``spec``. label: the chart in a sentence, for screen readers."""

    id: str
    label: str
    spec: Markup


@dataclass
class Collector:
    """The pictures and charts of a page. side: pixels of a thumbnail's longer side."""

    side: int
    unreadable: list[Path] = field(default_factory=list)
    _pictures: dict[tuple[str, int], Thumbnail] = field(default_factory=dict)
    _files: dict[str, tuple[Path, str]] = field(default_factory=dict)  # with their digests
    _thumbnails: dict[str, bytes] = field(default_factory=dict)
    _charts: int = 0

    def chart(self, spec: dict, label: str) -> Chart:
        self._charts += 1
        # JSON whose strings cannot end its <script> element.
        text = json.dumps(spec, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
        return Chart(f"chart-{self._charts}", label, Markup(text))  # noqa: S704 (escaped here)

    def picture(self, catalogue: DatasetIndex, image_id: int) -> Thumbnail:
        """The picture of an image. Raises InputError when its file is outside the root of the data set, IntegrityError when
        it is another one than ``prepare`` read."""
        key = catalogue.name, image_id
        if key not in self._pictures:
            self._pictures[key] = self._picture(catalogue, image_id)
        return self._pictures[key]

    def symbols(self, budget: int) -> tuple[dict[str, str], int]:
        """{symbol id: data URI}, and the side, reduced to fit into ``budget`` bytes."""
        thumbnails, side = fit(self._at, self.side, budget)
        return {symbol: data_uri(webp) for symbol, webp in thumbnails.items()}, side

    def _picture(self, catalogue: DatasetIndex, image_id: int) -> Thumbnail:
        label, path = _label(catalogue, image_id), _path(catalogue, image_id)
        if path is None:
            return Thumbnail(None, label)
        return Thumbnail(self._symbol(path, catalogue.images.at[image_id, "sha256"]), label)

    def _symbol(self, path: Path, digest: str) -> str | None:
        symbol = next((symbol for symbol, (file, _) in self._files.items() if file == path), None)
        if symbol or path in self.unreadable:
            return symbol
        symbol = f"picture-{len(self._files) + 1}"
        webp = _thumbnail(path, digest, self.side)
        if webp is None:
            self.unreadable.append(path)
            return None
        self._files[symbol], self._thumbnails[symbol] = (path, digest), webp
        return symbol

    def _at(self, side: int) -> dict[str, bytes]:
        if side == self.side:
            return self._thumbnails
        thumbnails = {symbol: _thumbnail(*file, side) for symbol, file in self._files.items()}
        return {symbol: webp for symbol, webp in thumbnails.items() if webp is not None}


def _thumbnail(path: Path, digest: str, side: int) -> bytes | None:
    content = page_bytes(path, digest)
    return None if content is None else thumbnail(content, side)


def _path(catalogue: DatasetIndex, image_id: int) -> Path | None:
    """The file of an image, if it has one. Raises InputError for a file outside the root of the data set."""
    row = catalogue.images.loc[image_id]
    # Width 0 marks images that exist only as precomputed features.
    if not row["width"]:
        return None
    where = f"{catalogue.folder / 'images.parquet'}: image_id {image_id}"
    return inside(catalogue.prepared.root, row["file"], where)


def _label(catalogue: DatasetIndex, image_id: int) -> str:
    """A description for screen readers: the image's first caption."""
    text = catalogue.prepared.first_caption(image_id)
    return f"Picture {catalogue.prepared.label('image_id', image_id)}" + (f": {text}" if text else "")
