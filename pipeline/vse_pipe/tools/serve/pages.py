"""The page as HTML and its thumbnails. The template escapes all text of data sets and visitors."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

from vse_pipe.pictures.images import page_bytes
from vse_pipe.report import formatting
from vse_pipe.report.pictures import data_uri, thumbnail
from vse_pipe.tools.search.query import literal
from vse_pipe.tools.serve.desk import ALIKE, Desk, ResultPage
from vse_pipe.tools.serve.requests import DEFAULT_K, MAX_K, MAX_TEXT, MAX_UPLOAD, Query

_TEMPLATES = Path(__file__).parent / "templates"
_PREVIEW = 240
# Twice the width of a tile, for screens with two pixels to a point.
SIDE = 400
# About 3,000 thumbnails.
CACHE_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Form:
    """Values of the form as the visitor sent them."""

    text: str = ""
    k: str = str(DEFAULT_K)
    inference: str = ""
    to: str = ""
    where: str = ""
    group: str = ""
    min_probability: str = ""

    @property
    def narrowed(self) -> bool:
        return bool(self.to or self.where or self.group or self.min_probability)


class Pages:
    """The templates of one desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        environment = formatting.template_environment(_TEMPLATES)
        environment.globals |= {
            "max_k": MAX_K,
            "max_text": MAX_TEXT,
            "max_megabytes": MAX_UPLOAD // 10**6,
            "alike": ALIKE,
            "literal": literal,
        }
        self._page = environment.get_template("page.html")
        self.style = (_TEMPLATES / "style.css").read_text(encoding="utf-8")
        self.script = (_TEMPLATES / "more.js").read_text(encoding="utf-8")
        self.icon = (_TEMPLATES / "icon.svg").read_text(encoding="utf-8")

    def empty(self) -> str:
        return self._render(Form())

    def problem(self, message: str, form: Form) -> str:
        return self._render(form, message=message)

    def results(self, query: Query, results: ResultPage) -> str:
        group, least = (
            "" if number is None else np.format_float_positional(number, trim="-")
            for number in (query.group, query.least)
        )
        narrowed = query.to or "", query.where or "", group, least
        form = Form(query.text or "", str(query.k), query.inference, *narrowed)
        small = thumbnail(query.photo, _PREVIEW) if query.photo is not None else None
        return self._render(form, query=query, results=results, preview=data_uri(small) if small else None)

    def _render(self, form: Form, **values: Any) -> str:
        options = {name: getattr(form, name) for name in ("k", "inference", "where", "group", "min_probability")}

        def again(**fields: object) -> str:
            """The address of another search with the same options."""
            return "/?" + urlencode({**fields, **{name: value for name, value in options.items() if value}})

        def more(offset: int) -> str:
            """The address of the next results."""
            query = values["query"]
            fields = {"text": query.text} if query.text is not None else {"image_id": query.image_id}
            return again(**fields, **({"to": form.to} if form.to else {}), offset=offset)

        context = {"message": None, "query": None, "results": None, "preview": None, **values}
        return self._page.render(desk=self._desk, form=form, again=again, more=more, **context)


class Thumbnails:
    """A cache of WebP thumbnails by image_id, at most ``budget`` bytes of the last used ones. For several threads at once."""

    def __init__(self, find: Callable[[int | str], Path | None], budget: int = CACHE_BYTES) -> None:
        """find: returns the path of an image for ``sources.read.at``, or None."""
        self._find = find
        self._budget = budget
        self._cache: OrderedDict[int | str, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, image_id: int | str) -> bytes | None:
        """The thumbnail; None if the data set has no such image, or no readable picture of it."""
        with self._lock:
            if image_id in self._cache:
                self._cache.move_to_end(image_id)
                return self._cache[image_id]
        path = self._find(image_id)
        content = page_bytes(path) if path is not None else None
        webp = thumbnail(content, SIDE) if content is not None else None
        if webp is not None:
            with self._lock:
                if image_id not in self._cache:
                    self._cache[image_id] = webp
                    self._bytes += len(webp)
                while self._bytes > self._budget:
                    _, oldest = self._cache.popitem(last=False)
                    self._bytes -= len(oldest)
        return webp
