"""The page as HTML, in which everything that a data set or a visitor says is escaped by the template, and its thumbnails."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

from vse_pipe.pictures.images import shown
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
    """What the boxes of the page hold, as the visitor left them."""

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
            "" if one is None else np.format_float_positional(one, trim="-") for one in (query.group, query.least)
        )
        narrowed = query.to or "", query.where or "", group, least
        form = Form(query.text or "", str(query.k), query.inference, *narrowed)
        small = thumbnail(query.photo, _PREVIEW) if query.photo is not None else None
        return self._render(form, query=query, results=results, preview=data_uri(small) if small else None)

    def _render(self, form: Form, **shown: Any) -> str:
        kept = {name: getattr(form, name) for name in ("k", "inference", "where", "group", "min_probability")}

        def again(**asked: object) -> str:
            """The address of another search with the same options."""
            return "/?" + urlencode({**asked, **{name: value for name, value in kept.items() if value}})

        def more(offset: int) -> str:
            """That of the results that follow."""
            query = shown["query"]
            asked = {"text": query.text} if query.text is not None else {"image_id": query.image_id}
            return again(**asked, **({"to": form.to} if form.to else {}), offset=offset)

        context = {"message": None, "query": None, "results": None, "preview": None, **shown}
        return self._page.render(desk=self._desk, form=form, again=again, more=more, **context)


class Thumbnails:
    """WebP by image_id; beyond ``budget`` bytes the least recently used are forgotten. For several threads at once."""

    def __init__(self, find: Callable[[int | str], Path | None], budget: int = CACHE_BYTES) -> None:
        """find: where the image of an image_id lies, as ``sources.read.at`` takes it; None where there is none."""
        self._find = find
        self._budget = budget
        self._kept: OrderedDict[int | str, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, image_id: int | str) -> bytes | None:
        """None when the data set has no such image, or no readable picture of it."""
        with self._lock:
            if image_id in self._kept:
                self._kept.move_to_end(image_id)
                return self._kept[image_id]
        path = self._find(image_id)
        content = shown(path) if path is not None else None
        made = thumbnail(content, SIDE) if content is not None else None
        if made is not None:
            self._keep(image_id, made)
        return made

    def _keep(self, image_id: int | str, made: bytes) -> None:
        with self._lock:
            if image_id not in self._kept:
                self._kept[image_id] = made
                self._bytes += len(made)
            while self._bytes > self._budget:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= len(oldest)
