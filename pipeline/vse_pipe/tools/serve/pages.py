"""The page as HTML: everything that a data set or a visitor says is escaped by the template."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

from vse_pipe.report.engine import formatting
from vse_pipe.report.engine.pictures import data_uri, thumbnail
from vse_pipe.tools.search.query import literal
from vse_pipe.tools.serve.query import DEFAULT_K, MAX_K, MAX_TEXT, MAX_UPLOAD, Query
from vse_pipe.tools.serve.searching import ALIKE, Desk, Found

_TEMPLATES = Path(__file__).parent / "templates"
_PREVIEW = 240


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
        environment = formatting.environment(_TEMPLATES)
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

    def results(self, query: Query, found: Found) -> str:
        group, least = (
            "" if one is None else np.format_float_positional(one, trim="-") for one in (query.group, query.least)
        )
        narrowed = query.to or "", query.where or "", group, least
        form = Form(query.text or "", str(query.k), query.inference, *narrowed)
        small = thumbnail(query.photo, _PREVIEW) if query.photo is not None else None
        return self._render(form, query=query, found=found, preview=data_uri(small) if small else None)

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

        context = {"message": None, "query": None, "found": None, "preview": None, **shown}
        return self._page.render(desk=self._desk, form=form, again=again, more=more, **context)
