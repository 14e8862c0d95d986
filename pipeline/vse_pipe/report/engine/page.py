"""The page: one HTML file that asks nothing of the network.

A section is one module and one template of the same name in ``sections``: ``TITLE`` and
``context(results, collector) -> dict | None`` (None: nothing to show, the section is left out). SECTIONS is the
reading order. Everything a data set says (captions, file names) is escaped by the templates; the page's own security
policy allows its two scripts by their digest and no request at all.
"""

import base64
import hashlib
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from vse_pipe.project.params.typed import Params
from vse_pipe.report.engine import charts, formatting
from vse_pipe.report.engine.collector import Collector
from vse_pipe.report.engine.notes import notes
from vse_pipe.report.engine.present import UNCOMPUTED
from vse_pipe.report.engine.results import Results

SECTIONS = (
    "summary",
    "rankings",
    "published",
    "claims",
    "sweeps",
    "curves",
    "relaxation",
    "audit",
    "localisation",
    "judged",
    "calibration",
    "hubness",
    "changes",
    "examples",
    "failures",
    "setup",
)
# The whole page stays below 10 MB; what a symbol needs beside its picture is within the difference.
LIMIT = 9_000_000
_STYLES = ("page.css", "tables.css", "figures.css")
_FOLDER = Path(__file__).parents[1]


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    html: Markup


def render(results: Results, collector: Collector) -> str:
    """The whole document, below LIMIT unless its tables alone are larger. Raises InputError from the sections."""
    # Pictures take what the rest leaves. Those that do not fit even when small are linked, which needs a second round.
    while True:
        shown = SECTIONS if results.groups else ()
        sections = [found for name in shown if (found := _section(name, results, collector))]
        room = LIMIT - len(_document(results, collector, sections, {}, collector.side).encode())
        symbols, side, whole = collector.symbols(max(0, room))
        if whole:
            return _document(results, collector, sections, symbols, side)


def _document(
    results: Results, collector: Collector, sections: list[Section], symbols: dict[str, str], side: int
) -> str:
    scripts = [_trusted(charts.library()), _asset("page.js")]
    return (
        environment()
        .get_template("template/page.html")
        .render(
            title=title(results.params),
            missing=[f"{what} ({why})" if why.startswith(UNCOMPUTED) else what for what, why in results.missing],
            sections=sections,
            symbols=symbols,
            reduced_to=side if side < collector.side else None,
            linked=collector.links,
            dropped=len(collector.linked) - collector.links,
            notes=notes(results, collector) if sections else [],
            style=style(),
            scripts=scripts,
            policy=_policy(scripts),
        )
    )


def title(params: Params) -> str:
    """Of every page."""
    names = list(dict.fromkeys(map(params.dataset, params.runs or params.transfers)))
    of = f" on the {' and '.join(names)} data set{'s' if len(names) > 1 else ''}" if names else ""
    return params.report.title or f"vse-pipe{of}"


def style() -> Markup:
    """Of every page."""
    return Markup("\n").join(_asset(name) for name in _STYLES)


@cache
def environment() -> Environment:
    """Templates of every page."""
    return formatting.environment(_FOLDER)


def _section(name: str, results: Results, collector: Collector) -> Section | None:
    module = importlib.import_module(f"vse_pipe.report.sections.{name}")
    context = module.context(results, collector)
    if context is None:
        return None
    html = environment().get_template(f"sections/{name}.html").render(**context)
    return Section(name, module.TITLE, _trusted(html))


def _asset(name: str) -> Markup:
    return _trusted((_FOLDER / "template" / name).read_text(encoding="utf-8"))


def _trusted(text: str) -> Markup:
    """For the page's own code and for what a template has already escaped."""
    return Markup(text)  # noqa: S704


def _policy(scripts: Sequence[str]) -> str:
    """Vega compiles its expressions, hence unsafe-eval; it styles its tooltips, hence inline styles."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {allowed} 'unsafe-eval'; "
        "base-uri 'none'; form-action 'none'"
    )
