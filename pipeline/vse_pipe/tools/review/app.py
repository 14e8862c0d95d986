"""The page on which a person decides on findings: one finding at a time as JSON, and a row on the disk per decision."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pandas as pd
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from vse_pipe.core.errors import PipelineError, UsageError, missing
from vse_pipe.report import formatting
from vse_pipe.tools.review import figures
from vse_pipe.tools.review.findings import Prepared
from vse_pipe.tools.review.ledger import VERDICTS, Ledger, is_automatic
from vse_pipe.tools.serve.server import LOOPBACK
from vse_pipe.tools.serve.site import SHARED, Site, Thumbnails, is_of_this_site

# Pixels of a picture: about twice the width of half a screen.
_SIDE = 900
# Members of a group on the page, and bytes of a request.
_MEMBERS, _BODY = 60, 10_000
_TEMPLATES = Path(__file__).parent / "templates"
_ASSETS = {**SHARED, **{f"/{name}": _TEMPLATES / name for name in ("review.css", "review.js")}}
_DATA = ("/api/", "/picture/")
_FAILED = "the request failed; the terminal of vse-pipe review says why"
STATES = ("undecided", "open", "decided", "contradicted", "all")
ACTIONS = ("keep", "drop", "take", "weight", "undo")
_PARAMETERS = ("kind", "text", "state", "after", "before", "at")
_LONGEST = 1000


def create(ledger: Ledger, prepared: Prepared, by: str, hosts: Sequence[str] = LOOPBACK) -> ASGIApp:
    """by: the reviewer. hosts: accepted names in the Host header. The application answers

    - GET /: the page;
    - GET /api/finding: one finding of ``kind``, with the words ``text``, in the ``state``; ``at``, ``after`` and
      ``before`` name a finding as ``pair/17``;
    - POST /api/decisions: ``{"kind", "id", "decision", "group"}`` in JSON, answered when the row is on the disk;
    - GET /api/summary: the document of ``vse-pipe review --summary --json``;
    - GET /picture/KIND/ID and /picture/KIND/ID/other: the picture of a finding, and of its partner.
    """
    site = _ReviewSite(ledger, prepared, by)
    routes = [
        Route("/", site.page),
        Route("/api/finding", site.finding),
        Route("/api/decisions", site.decide, methods=["POST"]),
        Route("/api/summary", site.summary),
        Route("/picture/{kind}/{number}", site.picture),
        Route("/picture/{kind}/{number}/other", site.picture),
    ]
    return site.application(routes, hosts)


class _ReviewSite(Site):
    def __init__(self, ledger: Ledger, prepared: Prepared, by: str) -> None:
        super().__init__(_ASSETS, _DATA, _FAILED)
        self._desk = ReviewDesk(ledger, prepared.dataset, by)
        self._template = formatting.template_environment(_TEMPLATES).get_template("page.html")
        self._thumbnails = Thumbnails(prepared.content, side=_SIDE)

    async def page(self, request: Request) -> Response:
        return self.error_page(request, 200, "")

    def error_page(self, request: Request, status: int, message: str) -> Response:
        desk = self._desk
        values = {"dataset": desk.dataset, "by": desk.by, "file": str(desk.ledger.path), "kinds": desk.table.kinds}
        return HTMLResponse(self._template.render(message=message, longest=_LONGEST, **values), status)

    async def finding(self, request: Request) -> Response:
        return await self._answer(self._desk.find, request.query_params.multi_items())

    async def decide(self, request: Request) -> Response:
        if not is_of_this_site(request):
            raise HTTPException(403, "requests of other sites are not answered")
        # A form of another site cannot have this type.
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HTTPException(415, "send a decision as application/json")
        content = b""
        async for part in request.stream():
            content += part
            if len(content) > _BODY:
                raise HTTPException(413, "the request is too large")
        # The thread goes on where the visitor leaves: a decision is written or not, never half.
        return await self._answer(self._desk.decide, content)

    async def summary(self, request: Request) -> Response:
        return await self._answer(self._desk.summary)

    async def _answer(self, function: Callable[..., dict], *arguments: Any) -> Response:
        def work() -> dict:
            with self._desk.ledger.lock:
                self._desk.ledger.refresh()
                return function(*arguments)

        return JSONResponse(await anyio.to_thread.run_sync(work))

    async def picture(self, request: Request) -> Response:
        kind, number = request.path_params["kind"], request.path_params["number"]
        place = self._desk.place(f"{kind}/{number}")
        side = "other_file" if request.url.path.endswith("/other") else "file"
        file = self._desk.table.rows.at[place, side]
        return await self.thumbnail(request, self._thumbnails, file, file or f"{kind} {number}")


@dataclass
class ReviewDesk:
    """Answers of the page as documents. The caller holds the ledger's lock and has refreshed it."""

    ledger: Ledger
    dataset: str
    by: str

    def __post_init__(self) -> None:
        self.table = self.ledger.table

    def find(self, values: Sequence[tuple[str, str]]) -> dict:
        """The finding that is asked for, with its group and the progress. Raises UsageError, HTTPException."""
        fields = _fields(values)
        mask = self.table.mask(fields["kind"], fields["text"])
        matching = np.flatnonzero(mask)
        candidates = np.flatnonzero(mask & self._in_state(fields["state"]))
        place, wrapped = self._chosen(fields, candidates)
        answer = {"matching": len(matching), "left": len(candidates), "wrapped": wrapped, **self._figures()}
        if place is None:
            return {**answer, "finding": None, "group": [], "number": 0, "next": []}
        further = candidates[candidates > place][:1].tolist()
        return {
            **answer,
            "finding": self._finding(place),
            "group": [self._member(one) for one in self._window(place)],
            "grouped": len(self.table.group(place)),
            "number": int((matching <= place).sum()),
            "next": [url for one in further for url in _pictures(self._finding(one))],
        }

    def decide(self, content: bytes) -> dict:
        """Writes the decision in the document ``content``; ``before``: what this reviewer had decided. Raises
        UsageError, HTTPException 404 for an unknown finding, PipelineError where the file cannot be written."""
        place, decision, whole_group = self._request(content)
        codes = self.ledger.of(self.by).codes
        before = VERDICTS[codes[place]]
        places = self.table.group(place) if whole_group else np.array([place])
        if decision == "undo":
            places = places[codes[places] > 0]
            if not len(places):
                raise UsageError("there is no decision to undo")
        else:
            places = places[(codes[places] == 0) | (places == place)]
        try:
            self.ledger.record(places.tolist(), decision, self.by)
        except OSError as error:
            problem = f"{self.ledger.path}: {error.strerror or error}; the decision is not saved"
            raise PipelineError(problem) from error
        contradicts = bool(self.ledger.contradicted(self.by)[place])
        return {
            **self._figures(),
            **{"finding": self._finding(place), "rows": len(places), "before": before, "contradicts": contradicts},
        }

    def summary(self) -> dict:
        return {"dataset": self.dataset, **figures.summary(self.ledger)}

    def place(self, name: str) -> int:
        """The place of a finding such as ``pair/17``. Raises HTTPException 404."""
        kind, _, number = name.partition("/")
        is_number = number.removeprefix("-").isascii() and number.removeprefix("-").isdigit() and len(number) < 19
        place = self.table.place(kind, int(number)) if is_number else None
        if place is None:
            raise HTTPException(404, f"no finding {name[:60]} in this audit")
        return place

    def _request(self, content: bytes) -> tuple[int, str, bool]:
        try:
            document = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"not a JSON document ({error})") from error
        fields = {"kind": str, "id": int, "decision": str, "group": bool}
        if not isinstance(document, dict) or not set(document) <= set(fields) or len(document) < 3:
            raise UsageError(f"expected an object with {', '.join(fields)}")
        document.setdefault("group", False)
        for name, kind in fields.items():
            if type(document.get(name)) is not kind:
                raise UsageError(f"{name} must be of type {kind.__name__}")
        if document["decision"] not in ACTIONS:
            raise UsageError(missing(f"unknown decision {document['decision'][:40]!r}", document["decision"], ACTIONS))
        return self.place(f"{document['kind']}/{document['id']}"), document["decision"], document["group"]

    def _decided(self, people: Iterable[str]) -> np.ndarray:
        """bool, the findings on which a decision of one of these holds."""
        decided = np.zeros(len(self.table), bool)
        for name in people:
            decided |= self.ledger.of(name).codes > 0
        return decided

    def _in_state(self, state: str) -> np.ndarray:
        """bool. undecided: by nobody; open: neither by this reviewer nor by the program."""
        if state == "contradicted":
            return self.ledger.contradicted(self.by)
        if state == "open":
            return ~self._decided([self.by, *filter(is_automatic, self.ledger.reviewers)])
        decided = self._decided(list(self.ledger.reviewers))
        return {"undecided": ~decided, "decided": decided, "all": np.ones(len(decided), bool)}[state]

    def _chosen(self, fields: dict[str, str], candidates: np.ndarray) -> tuple[int | None, bool]:
        """The place, and whether the search went on at the other end. A finding that is asked for by ``at`` is given in
        any state. Of all findings the first one that nobody has decided is given first."""
        if fields["at"]:
            return self.place(fields["at"]), False
        if not len(candidates):
            return None, False
        if fields["after"]:
            further = candidates[candidates > self.place(fields["after"])]
            return int(further[0] if len(further) else candidates[0]), not len(further)
        if fields["before"]:
            further = candidates[candidates < self.place(fields["before"])]
            return int(further[-1] if len(further) else candidates[-1]), not len(further)
        if fields["state"] == "all" and (left := self._in_state("undecided")[candidates]).any():
            candidates = candidates[left]
        return int(candidates[0]), False

    def _window(self, place: int) -> list[int]:
        """The group, or a window of a large one around ``place``."""
        group = self.table.group(place)
        start = max(0, min(int((group < place).sum()) - _MEMBERS // 2, len(group) - _MEMBERS))
        return group[start : start + _MEMBERS].tolist() if len(group) > 1 else []

    def _finding(self, place: int) -> dict:
        row = self.table.rows.loc[place]
        texts = ("why", "proposal", "file", "caption", "other_file", "other_caption")
        return {
            **self._member(place),
            **{name: row[name] for name in texts},
            "doubt": None if np.isnan(row["doubt"]) else round(float(row["doubt"]), 4),
            "other": None if pd.isna(row["other"]) else int(row["other"]),
            "other_picture": f"/picture/{row['kind']}/{row['id']}/other" if row["other_file"] else None,
            "others": self.ledger.others(self.by, place),
        }

    def _member(self, place: int) -> dict[str, Any]:
        row = self.table.rows.loc[place]
        return {
            "kind": row["kind"],
            "id": int(row["id"]),
            "file": row["file"],
            "caption": row["caption"],
            "picture": f"/picture/{row['kind']}/{row['id']}" if row["file"] else None,
            "decision": VERDICTS[self.ledger.of(self.by).codes[place]],
        }

    def _figures(self) -> dict:
        agreements = [one for one in figures.agreement(self.ledger) if self.by in one["reviewers"]]
        return {"progress": figures.progress(self.table, self._in_state("decided")), "agreement": agreements}


def _pictures(finding: dict) -> list[str]:
    return [url for url in (finding["picture"], finding["other_picture"]) if url]


def _fields(values: Sequence[tuple[str, str]]) -> dict[str, str]:
    fields = dict.fromkeys(_PARAMETERS, "")
    for name, value in values:
        if name not in fields:
            raise UsageError(missing(f"unknown field {name[:40]!r}", name, _PARAMETERS))
        if len(value) > _LONGEST:
            raise UsageError(f"{name} has {len(value):,} characters; {_LONGEST:,} are the most")
        fields[name] = value
    fields["state"] = fields["state"] or "all"
    if fields["state"] not in STATES:
        raise UsageError(missing(f"unknown state {fields['state'][:40]!r}", fields["state"], STATES))
    return fields
