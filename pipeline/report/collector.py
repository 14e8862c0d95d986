"""What sections ask for while they are built: pictures and charts, each put into the page once."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup

from pipeline import paths
from pipeline.report.pictures import data_uri, fit, thumbnail
from pipeline.report.results import Catalogue

Reader = Callable[[Path], bytes | None]


@dataclass(frozen=True)
class Picture:
    """symbol: id of the SVG symbol, None where there is no picture to show; label: what it shows, for every reader."""

    symbol: str | None
    label: str


@dataclass(frozen=True)
class Chart:
    """id: of the element that holds ``spec``; label: the chart in a sentence, for those who cannot see it."""

    id: str
    label: str
    spec: Markup


@dataclass
class Collector:
    """read: the bytes of a picture's file, None when the file is gone; side: pixels of a thumbnail's longer side."""

    read: Reader
    side: int
    unreadable: list[Path] = field(default_factory=list)
    _pictures: dict[tuple[str, int], Picture] = field(default_factory=dict)
    _files: dict[str, Path] = field(default_factory=dict)
    _thumbnails: dict[str, bytes] = field(default_factory=dict)
    _charts: int = 0

    def chart(self, spec: dict, label: str) -> Chart:
        self._charts += 1
        return Chart(f"chart-{self._charts}", label, embeddable(spec))

    def picture(self, catalogue: Catalogue, image_id: int) -> Picture:
        """Raises InputError when the data set names a file outside its root."""
        key = catalogue.name, image_id
        if key not in self._pictures:
            self._pictures[key] = Picture(self._symbol(catalogue, image_id), _label(catalogue, image_id))
        return self._pictures[key]

    def symbols(self) -> tuple[dict[str, str], int]:
        """{symbol id: data URI} and the side they have, smaller than asked for where they would not fit the page."""
        made, side = fit(self._at, self.side)
        return {symbol: data_uri(webp) for symbol, webp in made.items()}, side

    def _symbol(self, catalogue: Catalogue, image_id: int) -> str | None:
        row = catalogue.images.loc[image_id]
        # Width 0 is how prepare marks images that exist as precomputed features only.
        if not row["width"]:
            return None
        where = f"{paths.prepared(catalogue.name) / 'images.parquet'}: image_id {image_id}"
        path = paths.inside(catalogue.root, row["file"], where)
        symbol = f"picture-{len(self._files) + 1}"
        made = self._thumbnail(path, self.side)
        if made is None:
            self.unreadable.append(path)
            return None
        self._files[symbol], self._thumbnails[symbol] = path, made
        return symbol

    def _at(self, side: int) -> dict[str, bytes]:
        if side == self.side:
            return self._thumbnails
        made = {symbol: self._thumbnail(path, side) for symbol, path in self._files.items()}
        return {symbol: webp for symbol, webp in made.items() if webp is not None}

    def _thumbnail(self, path: Path, side: int) -> bytes | None:
        content = self.read(path)
        return None if content is None else thumbnail(content, side)


def embeddable(content: object) -> Markup:
    """JSON that stays inside its <script> element whatever strings it holds."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704 (escaped here)


def _label(catalogue: Catalogue, image_id: int) -> str:
    """The image's first caption: the best text there is for somebody who cannot see the picture."""
    written = catalogue.captions_of.get(image_id)
    return f"Picture {image_id}" + (f": {catalogue.captions.at[written[0], 'text']}" if written else "")
