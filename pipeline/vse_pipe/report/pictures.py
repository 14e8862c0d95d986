"""Thumbnails: each picture goes into the page once, as a WebP data URI, however often it is shown."""

import base64
import io
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from markupsafe import Markup
from PIL import Image, ImageOps

from vse_pipe.core.errors import UnreadableImage
from vse_pipe.core.files import inside
from vse_pipe.pictures.read import file_of, open_picture, undecodable
from vse_pipe.report.results import DatasetIndex

Key = TypeVar("Key")

_QUALITY = 80
_SMALLEST = 64


def thumbnail(content: bytes, side: int) -> bytes | None:
    """WebP of at most ``side`` x ``side`` pixels, upright, its proportions kept; None when it is no readable picture.

    What counts as one is what ``prepare`` takes: no other format is tried, EPS least of all.
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
    try:
        image.draft("RGB", (side * 2, side * 2))
        return ImageOps.exif_transpose(image).convert("RGB")
    except Exception as error:
        raise undecodable("", error) from error


def data_uri(webp: bytes) -> str:
    return "data:image/webp;base64," + base64.b64encode(webp).decode("ascii")


def embedded_size(webp: bytes) -> int:
    """Bytes in the page: base64 takes 4 for 3."""
    return math.ceil(len(webp) / 3) * 4


def fit(make: Callable[[int], dict[Key, bytes]], side: int, budget: int) -> tuple[dict[Key, bytes], int]:
    """The thumbnails of ``make(side)``, with the side reduced until all of them together stay below ``budget`` bytes of
    base64. Smaller than 64 px nothing can be made out: from there on the last ones are left out instead. Returns them with
    the side that was used.
    """
    while True:
        thumbnails = make(side)
        size = sum(map(embedded_size, thumbnails.values()))
        if size <= budget:
            return thumbnails, side
        if side <= _SMALLEST:
            return _first(thumbnails, budget), side
        side = max(_SMALLEST, min(side - 8, int(side * math.sqrt(budget / size))))


def _first(thumbnails: dict[Key, bytes], budget: int) -> dict[Key, bytes]:
    """As many from the beginning as fit."""
    first = {}
    for symbol, webp in thumbnails.items():
        budget -= embedded_size(webp)
        if budget < 0:
            break
        first[symbol] = webp
    return first


Reader = Callable[[Path], bytes | None]


@dataclass(frozen=True)
class Picture:
    """symbol: id of the SVG symbol, None where there is no picture to show; label: what it shows, for every reader; link:
    where the picture lies, for one that is not in the page and is a file of its own."""

    symbol: str | None
    label: str
    link: str | None = None


@dataclass(frozen=True)
class Chart:
    """id: of the element that holds ``spec``; label: the chart in a sentence, for those who cannot see it."""

    id: str
    label: str
    spec: Markup


@dataclass
class Collector:
    """read: the bytes of a picture's file, None when the file is gone; side: pixels of a thumbnail's longer side.

    linked: the pictures that did not fit into the page and are linked instead, those that are files of their own.
    """

    read: Reader
    side: int
    unreadable: list[Path] = field(default_factory=list)
    linked: set[Path] = field(default_factory=set)
    _pictures: dict[tuple[str, int], Picture] = field(default_factory=dict)
    _files: dict[str, Path] = field(default_factory=dict)
    _thumbnails: dict[str, bytes] = field(default_factory=dict)
    _charts: int = 0

    def chart(self, spec: dict, label: str) -> Chart:
        self._charts += 1
        return Chart(f"chart-{self._charts}", label, embeddable(spec))

    def picture(self, catalogue: DatasetIndex, image_id: int) -> Picture:
        """Raises InputError when the data set names a file outside its root."""
        key = catalogue.name, image_id
        if key not in self._pictures:
            self._pictures[key] = self._picture(catalogue, image_id)
        return self._pictures[key]

    def symbols(self, budget: int) -> tuple[dict[str, str], int, bool]:
        """{symbol id: data URI}, the side they have, smaller than asked for where they would take more than ``budget`` bytes,
        and whether that is all of them. If not, the others are ``linked`` from now on and the sections must be built again.
        """
        thumbnails, side = fit(self._at, self.side, budget)
        over = [symbol for symbol in self._files if symbol not in thumbnails]
        for symbol in over:
            self.linked.add(self._files.pop(symbol))
            del self._thumbnails[symbol]
        if over:
            self._pictures.clear()
            self._charts = 0
        return {symbol: data_uri(webp) for symbol, webp in thumbnails.items()}, side, not over

    @property
    def links(self) -> int:
        """How many of ``linked`` have a link: members of shards have none."""
        return sum(_link(path) is not None for path in self.linked)

    def _picture(self, catalogue: DatasetIndex, image_id: int) -> Picture:
        label, path = _label(catalogue, image_id), _path(catalogue, image_id)
        if path is None:
            return Picture(None, label)
        if path in self.linked:
            return Picture(None, label, _link(path))
        return Picture(self._symbol(path), label)

    def _symbol(self, path: Path) -> str | None:
        symbol_of_file = next((symbol for symbol, file in self._files.items() if file == path), None)
        if symbol_of_file or path in self.unreadable:
            return symbol_of_file
        symbol = f"picture-{len(self._files) + 1}"
        webp = self._thumbnail(path, self.side)
        if webp is None:
            self.unreadable.append(path)
            return None
        self._files[symbol], self._thumbnails[symbol] = path, webp
        return symbol

    def _at(self, side: int) -> dict[str, bytes]:
        if side == self.side:
            return self._thumbnails
        thumbnails = {symbol: self._thumbnail(path, side) for symbol, path in self._files.items()}
        return {symbol: webp for symbol, webp in thumbnails.items() if webp is not None}

    def _thumbnail(self, path: Path, side: int) -> bytes | None:
        content = self.read(path)
        return None if content is None else thumbnail(content, side)


def _path(catalogue: DatasetIndex, image_id: int) -> Path | None:
    """Raises InputError for a file outside the data set's root."""
    row = catalogue.images.loc[image_id]
    # Width 0 is how prepare marks images that exist as precomputed features only.
    if not row["width"]:
        return None
    where = f"{catalogue.folder / 'images.parquet'}: image_id {image_id}"
    return inside(catalogue.root, row["file"], where)


def _link(path: Path) -> str | None:
    """From the page, which lies in reports/; roots are relative to the project, or absolute. None for a member of a shard:
    no browser opens it."""
    if file_of(path) != path:
        return None
    return path.as_uri() if path.is_absolute() else "../" + quote(path.as_posix())


def embeddable(content: object) -> Markup:
    """JSON that stays inside its <script> element whatever strings it holds."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704 (escaped here)


def _label(catalogue: DatasetIndex, image_id: int) -> str:
    """The image's first caption: the best text there is for somebody who cannot see the picture."""
    written, names = catalogue.captions_of.get(image_id), catalogue.names
    text_id = image_id if names is None else names.shown("image_id", image_id)
    return f"Picture {text_id}" + (f": {catalogue.captions.at[written[0], 'text']}" if written else "")
