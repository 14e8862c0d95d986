"""The page on which a person decides on findings: one finding at a time as JSON, and a row on the disk per decision."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import numpy as np
import pandas as pd
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from vse_pipe.artifacts.catalogue import Catalogue
from vse_pipe.audit.review import figures
from vse_pipe.audit.review.ledger import VERDICTS, Ledger, is_automatic
from vse_pipe.core.errors import PipelineError, UsageError
from vse_pipe.core.strict import Strict
from vse_pipe.report import formatting
from vse_pipe.search.serve.server import LOOPBACK
from vse_pipe.search.serve.site import SHARED, Site, checked, is_of_this_site

# Pixels of a picture: about twice the width of half a screen.
_SIDE = 900
# Members of a group on the page, and bytes of a request.
_MEMBERS, _BODY = 60, 10_000
_TEMPLATES = Path(__file__).parent / "templates"
_ASSETS = {**SHARED, **{f"/{name}": _TEMPLATES / name for name in ("review.css", "review.js")}}
_FAILED = "the request failed; the terminal of vse-pipe review says why"
_LONGEST = 1000


class FindingQuery(Strict):
    """What a finding must be like. text: words of its texts; state: ``undecided`` by anybody, ``open`` to this reviewer,
    because neither they nor the program decided; at, after, before: a finding such as ``pair/17``."""

    kind: str = ""
    text: Annotated[str, Field(max_length=_LONGEST)] = ""
    state: Literal["undecided", "open", "decided", "contradicted", "all"] = "all"
    at: str = ""
    after: str = ""
    before: str = ""


class Decision(Strict):
    """group: on all of the finding's group that this reviewer has not decided."""

    kind: str
    id: int
    decision: Literal["keep", "drop", "take", "weight", "undo"]
    group: bool = False


def create(ledger: Ledger, prepared: Catalogue, by: str, hosts: Sequence[str] = LOOPBACK) -> ASGIApp:
    """by: the reviewer. hosts: accepted names in the Host header. The application answers

    - GET /: the page;
    - GET /api/finding: one finding, by the fields of ``FindingQuery``;
    - POST /api/decisions: a ``Decision`` in JSON, answered when the row is on the disk;
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
    def __init__(self, ledger: Ledger, prepared: Catalogue, by: str) -> None:
        super().__init__(_ASSETS, ("/api/", "/picture/"), _FAILED, prepared.content_of, _SIDE)
        self._desk = ReviewDesk(ledger, prepared.dataset, by)
        self._template = formatting.template_environment(_TEMPLATES).get_template("page.html")

    async def page(self, request: Request) -> Response:
        return self.error_page(request, 200, "")

    def error_page(self, request: Request, status: int, message: str) -> Response:
        html = self._template.render(desk=self._desk, message=message, longest=_LONGEST)
        return HTMLResponse(html, status)

    async def finding(self, request: Request) -> Response:
        query = checked(FindingQuery, request.query_params)
        return await self._answer(self._desk.find, query)

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
        decision = checked(Decision, content)
        # The thread goes on where the visitor leaves: a decision is written or not, never half.
        return await self._answer(self._desk.decide, decision)

    async def summary(self, request: Request) -> Response:
        return await self._answer(self._desk.summary)

    async def _answer(self, function: Callable[..., dict], *arguments: Any) -> Response:
        def work() -> dict:
            with self._desk.ledger.lock:
                self._desk.ledger.refresh()
                return function(*arguments)

        return JSONResponse(await anyio.to_thread.run_sync(work))

    async def picture(self, request: Request) -> Response:
        name = "{kind}/{number}".format(**request.path_params)
        side = "other_file" if request.url.path.endswith("/other") else "file"
        file = self._desk.table.rows.at[self._desk.place(name), side]
        return await self.thumbnail(file or name)


@dataclass
class ReviewDesk:
    """Answers of the page as documents. The caller holds the ledger's lock and has refreshed it."""

    ledger: Ledger
    dataset: str
    by: str

    def __post_init__(self) -> None:
        self.table = self.ledger.table

    def find(self, query: FindingQuery) -> dict:
        """The finding that is asked for, with its group and the progress. Raises HTTPException 404."""
        mask = self.table.mask(query.kind, query.text)
        candidates = np.flatnonzero(mask & self._in_state(query.state))
        place, wrapped = self._chosen(query, candidates)
        answer = {"matching": int(mask.sum()), "left": len(candidates), "wrapped": wrapped, **self._figures()}
        if place is None:
            return {**answer, "finding": None, "group": [], "number": 0, "next": []}
        group = self.table.group(place)
        nearest = np.sort(group[np.argsort(np.abs(group - place), kind="stable")[:_MEMBERS]])
        following = [self._finding(one) for one in candidates[candidates > place][:1].tolist()]
        return {
            **answer,
            "finding": self._finding(place),
            "group": [self._member(one) for one in nearest.tolist()] if len(group) > 1 else [],
            "grouped": len(group),
            "number": int(mask[: place + 1].sum()),
            "next": [url for one in following for url in (one["picture"], one["other_picture"]) if url],
        }

    def decide(self, chosen: Decision) -> dict:
        """Writes a decision; ``before``: what this reviewer had decided. Raises UsageError, HTTPException 404 for an
        unknown finding, PipelineError where the file cannot be written."""
        place = self.place(f"{chosen.kind}/{chosen.id}")
        codes = self.ledger.of(self.by)
        before = VERDICTS[codes[place]]
        places = self.table.group(place) if chosen.group else np.array([place])
        if chosen.decision == "undo":
            places = places[codes[places] > 0]
            if not len(places):
                raise UsageError("there is no decision to undo")
        else:
            places = places[(codes[places] == 0) | (places == place)]
        try:
            self.ledger.record(places.tolist(), chosen.decision, self.by)
        except OSError as error:
            problem = f"{self.ledger.path}: {error.strerror or error}; the decision is not saved"
            raise PipelineError(problem) from error
        contradicts = bool(self.ledger.contradicted(self.by)[place])
        answer = {"finding": self._finding(place), "rows": len(places), "before": before}
        return {**answer, "contradicts": contradicts, **self._figures()}

    def summary(self) -> dict:
        return {"dataset": self.dataset, **figures.summary(self.ledger)}

    def place(self, name: str) -> int:
        """The place of a finding such as ``pair/17``. Raises HTTPException 404."""
        place = self.table.place(name)
        if place is None:
            raise HTTPException(404, f"no finding {name[:60]} in this audit")
        return place

    def _in_state(self, state: str) -> np.ndarray:
        """bool, the findings in a state of ``FindingQuery``."""
        standing = self.ledger.standing
        if state == "contradicted":
            return self.ledger.contradicted(self.by)
        if state == "open":
            mine = [self.by, *filter(is_automatic, self.ledger.reviewers)]
            return ~np.any([self.ledger.of(name) > 0 for name in mine], axis=0)
        return {"undecided": standing == 0, "decided": standing > 0, "all": standing >= 0}[state]

    def _chosen(self, query: FindingQuery, candidates: np.ndarray) -> tuple[int | None, bool]:
        """The place, and whether the search went on at the other end. A finding that is asked for by ``at`` is given in
        any state. All findings begin with the first one that nobody has decided."""
        if query.at:
            return self.place(query.at), False
        if not len(candidates):
            return None, False
        if query.after:
            turn = int(np.searchsorted(candidates, self.place(query.after), "right"))
        elif query.before:
            turn = int(np.searchsorted(candidates, self.place(query.before))) - 1
        else:
            turn = int(self._in_state("undecided")[candidates].argmax()) if query.state == "all" else 0
        return int(candidates[turn % len(candidates)]), not 0 <= turn < len(candidates)

    def _finding(self, place: int) -> dict:
        row = self.table.rows.loc[place]
        return {
            **self._member(place),
            **row[["why", "proposal", "other_file", "other_caption"]].to_dict(),
            "doubt": None if np.isnan(row["doubt"]) else round(float(row["doubt"]), 4),
            "other": None if pd.isna(row["other"]) else int(row["other"]),
            "other_picture": f"/picture/{row['kind']}/{row['id']}/other" if row["other_file"] else None,
            "others": self.ledger.others(self.by, place),
        }

    def _member(self, place: int) -> dict[str, Any]:
        row = self.table.rows.loc[place]
        return {
            **row[["kind", "file", "caption"]].to_dict(),
            "id": int(row["id"]),
            "picture": f"/picture/{row['kind']}/{row['id']}" if row["file"] else None,
            "decision": VERDICTS[self.ledger.of(self.by)[place]],
        }

    def _figures(self) -> dict:
        agreements = [one for one in figures.agreement(self.ledger) if self.by in one["reviewers"]]
        return {"progress": figures.progress(self.table, self._in_state("decided")), "agreement": agreements}
