"""The page: its notes, its sections, and the page of timings."""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from markupsafe import Markup

from vse_pipe.artifacts.evaluation import KS
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.stages import nodes
from vse_pipe.report import formatting, vega
from vse_pipe.report.pictures import Collector, page_environment
from vse_pipe.report.reading import UNCOMPUTED
from vse_pipe.report.results import Group, Results, RunResult
from vse_pipe.report.sections import criteria, examples, figures, training


def notes(results: Results, collector: Collector) -> list[str]:
    """Sentences for the top of the page: failed trainings, runs at chance, data left out."""
    sentences: dict[str, list[str]] = {}
    for group in results.groups:
        for run in group.runs:
            training = [f"not converged: {reason}." for reason in results.unconverged.get(run.name, [])]
            for sentence in (*training, *_chance(run, group), *_left_out(run)):
                sentences.setdefault(sentence, []).append(f"{run.kind} {run.name}")
    lines = [f"{', '.join(names)}: {sentence}" for sentence, names in sentences.items()]
    if collector.unreadable:
        pictures = formatting.plural(len(collector.unreadable), "picture")
        lines.append(f"{pictures} could not be read where this page was written; the caption stands in for each.")
    return [line[0].upper() + line[1:] for line in lines]


def _chance(run: RunResult, group: Group) -> Iterator[str]:
    plain, chance = run.baseline, chance_rsum(run, group)
    low = plain.interval[0] if plain.interval else plain.rsum
    if low <= chance:
        ends = f", 95% interval {formatting.interval(plain.interval)}," if plain.interval else ""
        figure = f"rsum {formatting.fixed(plain.rsum)} under {plain.inference}{ends}"
        yield f"{figure} cannot be told from chance, which gives {formatting.fixed(chance)}."


def chance_rsum(run: RunResult, group: Group) -> float:
    """Mean rsum of a random order of the items: the sum over directions and K of ``1 - C(n - r, K)
    / C(n, K)`` for r correct items of n."""
    total = 0.0
    counts = group.catalogue.captions["image_id"].to_pandas().value_counts()
    for direction in ("image_to_text", "text_to_image"):
        ids, _ = run.baseline.lists(direction)
        correct = counts.reindex(ids, fill_value=1).to_numpy() if direction == "image_to_text" else np.ones(len(ids))
        items = run.baseline.items(direction)
        n = len(items) // items["fold"].nunique()
        for k in KS:
            drawn = np.arange(min(k, n))[:, None]
            missed = np.clip((n - correct - drawn) / (n - drawn), 0.0, 1.0).prod(axis=0)
            total += 100.0 * float((1.0 - missed).mean())
    return total


def _left_out(run: RunResult) -> Iterator[str]:
    metrics = run.baseline.metrics
    if missing := metrics.get("left_out"):
        images, captions = (formatting.plural(missing[key], key[:-1]) for key in ("images", "captions"))
        split = metrics["split"]
        yield f"{images} of the {split} split could not be read; they are left out of the figures with {captions}."
    share = metrics.get("transfer", {}).get("unknown_words") if run.moved else None
    if share:
        yield f"{share:.1%} of the words of its captions are unknown to {metrics['transfer']['run']}."


# The page is one HTML file that sends no requests: its security policy allows two scripts by their
# digests and no request. Templates escape all text of data sets.

# (name, title, context) of each section, in reading order. sections/<name>.html is its template;
# ``context`` returns the template's values, or None to leave the section out.
SECTIONS = (
    ("summary", "Summary", figures.summary),
    ("rankings", "All runs and criteria", figures.rankings),
    ("published", "Beside published figures", figures.published),
    ("claims", "Claims", figures.claims),
    ("sweeps", "Sweeps", training.sweeps),
    ("curves", "Learning curves", training.curves),
    ("relaxation", "Recall against λ", criteria.relaxation),
    ("audit", "Training pairs", training.audit),
    ("cleaning", "What is wrong with the pairs", training.cleaning),
    ("localisation", "Phrases and their boxes", examples.localisation),
    ("judged", "Judgements", figures.judged),
    ("hubness", "Hubness", criteria.occurrences),
    ("changes", "What each criterion changed", criteria.changes),
    ("examples", "Example retrievals", examples.examples),
    ("failures", "Worst failures", examples.failures),
    ("setup", "Parameters, fingerprints and versions", training.setup),
)
STYLES = ("page.css", "tables.css", "figures.css", "words.css")
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    html: Markup


def render(results: Results, collector: Collector) -> str:
    """The whole document. Raises InputError from the sections."""
    sections = list(_sections(results, collector)) if results.groups else []
    scripts = [_trusted(vega.library()), _asset("page.js")]
    return (
        page_environment()
        .get_template("template/page.html")
        .render(
            title=title(results.params),
            missing=[f"{what} ({why})" if why.startswith(UNCOMPUTED) else what for what, why in results.missing],
            sections=sections,
            symbols=collector.symbols,
            notes=notes(results, collector) if sections else [],
            style=style(),
            scripts=scripts,
            policy=_policy(scripts),
        )
    )


def title(params: Params) -> str:
    names = list(dict.fromkeys(map(params.dataset, params.runs or params.transfers)))
    suffix = f" on the {' and '.join(names)} data set{'s' if len(names) > 1 else ''}" if names else ""
    return params.report.title or f"vse-pipe{suffix}"


def style() -> Markup:
    """The sheets of the page, and sections/<name>.css for the section of that name alone."""
    sheets = {name: _FOLDER / "sections" / f"{name}.css" for name, *_ in SECTIONS}
    scoped = [
        _trusted(f"#{name} {{\n{path.read_text(encoding='utf-8')}}}") for name, path in sheets.items() if path.is_file()
    ]
    return Markup("\n").join([*map(_asset, STYLES), *scoped])


def _sections(results: Results, collector: Collector) -> Iterator[Section]:
    for name, title, context in SECTIONS:
        if (values := context(results, collector)) is not None:
            html = (
                page_environment()
                .get_template(f"sections/{name}.html")
                .render(**values, page=collector, unconverged=results.unconverged)
            )
            yield Section(name, title, _trusted(html))


def _asset(name: str) -> Markup:
    return _trusted((_FOLDER / "template" / name).read_text(encoding="utf-8"))


def _trusted(text: str) -> Markup:
    """Markup of the page's own code, or of text that a template has escaped."""
    return Markup(text)  # noqa: S704


def _policy(scripts: Sequence[str]) -> str:
    """Vega compiles expressions (unsafe-eval) and styles its tooltips (unsafe-inline)."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {allowed} 'unsafe-eval'; base-uri 'none'; form-action 'none'"


def render_timings(params: Params) -> str:
    """The page of the seconds of every stage and entry, in the order of the pipeline."""
    rows = [(node.declaration.room, node.name, paths.recorded_seconds(node.out)) for node in nodes(params)]
    template = page_environment().get_template("template/timings.html")
    return template.render(title=title(params), rows=rows, style=style())
