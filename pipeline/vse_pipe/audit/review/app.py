"""The page on which a person decides: a finding at a time, a row a decision."""

from collections.abc import Sequence
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

from vse_pipe.audit.review.desk import ReviewDesk, Verdicts
from vse_pipe.core.errors import UsageError
from vse_pipe.core.strict import Strict
from vse_pipe.report import formatting
from vse_pipe.search.server import LOOPBACK
from vse_pipe.search.site import SHARED, Site, checked, require_post

# Pixels of a picture: about twice the width of half a screen.
_SIDE = 900
# Members of a group on the page, and bytes of a request.
_MEMBERS, _BODY = 60, 10_000
_TEMPLATES = Path(__file__).parent / "templates"
_ASSETS = {**SHARED, **{f"/{name}": _TEMPLATES / name for name in ("review.css", "review.js")}}
_FAILED = "the request failed; the terminal of vse-pipe review says why"
_LONGEST = 1000


class FindingQuery(Strict):
    """What a finding must be like. text: words of its texts; state: ``undecided`` by anybody,
    ``open`` to this reviewer, because neither they nor the program decided; at, after, before: a
    finding such as ``pair/17``."""

    kind: str = ""
    text: Annotated[str, Field(max_length=_LONGEST)] = ""
    state: Literal["undecided", "open", "decided", "all"] = "all"
    at: str = ""
    after: str = ""
    before: str = ""


class Decision(Strict):
    """group: on all of the finding's group that this reviewer has not decided."""

    kind: str
    id: int
    decision: Literal["keep", "drop", "take", "weight", "undo"]
    group: bool = False


def create(desk: ReviewDesk, person: str, hosts: Sequence[str] = LOOPBACK) -> ASGIApp:
    """person: the reviewer. hosts: accepted names in the Host header. The application answers

    - GET /: the page;
    - GET /api/finding: one finding, by the fields of ``FindingQuery``;
    - POST /api/decisions: a ``Decision`` in JSON, answered when the row is on the disk;
    - GET /picture/KIND/ID and /picture/KIND/ID/other: the picture of a finding, and of its partner.
    """
    site = _ReviewSite(desk, person)
    routes = [
        Route("/", site.page),
        Route("/api/finding", site.finding),
        Route("/api/decisions", site.decide, methods=["POST"]),
        Route("/picture/{kind}/{number}", site.picture),
        Route("/picture/{kind}/{number}/other", site.picture),
    ]
    return site.application(routes, hosts)


class _ReviewSite(Site):
    def __init__(self, desk: ReviewDesk, person: str) -> None:
        super().__init__(_ASSETS, ("/api/", "/picture/"), _FAILED, desk.prepared.content_of, _SIDE)
        self._desk, self._person = desk, person
        self._template = formatting.template_environment(_TEMPLATES).get_template("page.html")

    async def page(self, request: Request) -> Response:
        return self.error_page(request, 200, "")

    def error_page(self, request: Request, status: int, message: str) -> Response:
        values = {"desk": self._desk, "person": self._person, "longest": _LONGEST}
        return HTMLResponse(self._template.render(message=message, **values), status)

    async def picture(self, request: Request) -> Response:
        name = "{kind}/{number}".format(**request.path_params)
        side = "other_file" if request.url.path.endswith("/other") else "file"
        return await self.thumbnail(self._row(name)[side] or name)

    def finding(self, request: Request) -> Response:
        """The finding, its group and the progress. Raises HTTPException 404."""
        query = checked(FindingQuery, request.query_params)
        verdicts, rows = self._desk.verdicts(), self._desk.rows
        mask, is_decided = self._desk.mask(query.kind, query.text), verdicts.standing != ""
        states = {"undecided": ~is_decided, "open": verdicts.is_open(self._person), "decided": is_decided}
        decided = is_decided.groupby(rows["kind"]).agg(decided="sum", total="size")
        progress = {**decided.sum().to_dict(), "kinds": decided.to_dict("index")}
        answer = {"matching": int(mask.sum()), "progress": progress}
        place, wrapped = self._chosen(query, np.flatnonzero(mask & states.get(query.state, True)))
        if place is None:
            return JSONResponse({**answer, "finding": None, "group": []})
        group = rows.index[rows["group"] == rows["group"].iloc[place]]
        members = group[:_MEMBERS] if len(group) > 1 else ()
        answer |= {
            "wrapped": wrapped,
            "finding": self._described(verdicts, rows.index[place]),
            "group": [self._member(verdicts, name) for name in members],
            "grouped": len(group),
            "number": int(mask.iloc[: place + 1].sum()),
        }
        return JSONResponse(answer)

    async def decide(self, request: Request) -> Response:
        require_post(request, _BODY)
        # A form of another site cannot have this type.
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HTTPException(415, "send a decision as application/json")
        decision = checked(Decision, await request.body())
        # The thread goes on where the visitor leaves: a decision is written or not, never half.
        return JSONResponse(await anyio.to_thread.run_sync(self._decided, decision))

    def _decided(self, chosen: Decision) -> dict:
        """Writes a decision; ``before``: what this reviewer had decided. Raises UsageError,
        HTTPException 404 for an unknown finding, PipelineError where the file cannot be written."""
        rows, name = self._desk.rows, f"{chosen.kind}/{chosen.id}"
        group = self._row(name)["group"]
        verdicts = self._desk.verdicts().of_person(self._person)
        names = rows.index[rows["group"] == group] if chosen.group else pd.Index([name])
        if chosen.decision == "undo":
            names = names[verdicts[names] != ""]
            if not len(names):
                raise UsageError("there is no decision to undo")
        else:
            names = names[(verdicts[names] == "") | (names == name)]
        self._desk.record(names, chosen.decision, self._person)
        finding = self._described(self._desk.verdicts(), name)
        return {"finding": finding, "rows": len(names), "before": verdicts[name]}

    def _chosen(self, query: FindingQuery, candidates: np.ndarray) -> tuple[int | None, bool]:
        """The place, and whether the search went on at the other end. A finding that is asked for
        by ``at`` is given in any state."""
        if query.at:
            return self._place(query.at), False
        if not len(candidates):
            return None, False
        turn = 0
        if query.after:
            turn = int(np.searchsorted(candidates, self._place(query.after), "right"))
        elif query.before:
            turn = int(np.searchsorted(candidates, self._place(query.before))) - 1
        return int(candidates[turn % len(candidates)]), not 0 <= turn < len(candidates)

    def _row(self, name: str) -> pd.Series:
        return self._desk.rows.iloc[self._place(name)]

    def _place(self, name: str) -> int:
        """Of a finding such as ``pair/17``. Raises HTTPException 404."""
        if name not in self._desk.rows.index:
            raise HTTPException(404, f"no finding {name[:60]} in this audit")
        return int(self._desk.rows.index.get_loc(name))

    def _described(self, verdicts: Verdicts, name: str) -> dict:
        row = self._row(name)
        return {
            **self._member(verdicts, name),
            **row[["why", "proposal", "other_file", "other_caption"]].to_dict(),
            "doubt": None if np.isnan(row["doubt"]) else round(float(row["doubt"]), 4),
            "other": None if pd.isna(row["other"]) else int(row["other"]),
            "other_picture": f"/picture/{name}/other" if row["other_file"] else None,
            "others": verdicts.peers(self._person, name),
        }

    def _member(self, verdicts: Verdicts, name: str) -> dict[str, Any]:
        row = self._row(name)
        return {
            **row[["kind", "file", "caption"]].to_dict(),
            "id": int(row["id"]),
            "picture": f"/picture/{name}" if row["file"] else None,
            "decision": verdicts.of_person(self._person)[name],
        }
