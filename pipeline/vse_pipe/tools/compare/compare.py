"""--max-drop: when a comparison counts as a failure."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vse_pipe.artifacts import features
from vse_pipe.core.console import stdout, warn
from vse_pipe.core.errors import InputError, MissingResource, Regression, UsageError
from vse_pipe.core.files import read_json
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.comparison import Comparison, FigureRow, Method, compared, paired
from vse_pipe.ranking.intervals import holm, nest
from vse_pipe.report.formatting import markdown_row, spread
from vse_pipe.tools.compare import revisions
from vse_pipe.tools.compare.revisions import Disk, Place

# Below this no p-value can be significant, and nothing could ever fail.
FEWEST_RESAMPLES = 40
_WATCHED = ("r@1", "r@5", "r@10", "mrr", "map", "map@r", "r_precision", "ndcg@10", "rsum")


def check(comparisons: list[Comparison], max_drop: float) -> None:
    """Raises Regression when R@K of either direction, mrr, map, map@r, r_precision, ndcg@10 or rsum is lower in B
    than in A by more than ``max_drop`` points with p < 0.05, Holm's where there are several B's. Med r and Mean r, which are no shares, and hubness never
    count."""
    lines = [
        f"{one.b.metrics.get('inference')}: {line}"
        for one in comparisons
        for line in map(_line, (row for row in one.rows if _fell(row, max_drop)))
    ]
    if lines:
        raise Regression("\n".join(f"{line}; allowed is {max_drop:g}" for line in lines))


def _fell(row: FigureRow, max_drop: float) -> bool:
    return row.address[-1] in _WATCHED and -row.difference > max_drop and row.significant


def _line(row: FigureRow) -> str:
    return f"{' '.join(row.address)} fell by {-row.difference:.2f} ({row.a:.2f} to {row.b:.2f}, p = {row.decisive:.3f})"


_SHORT = {"image_to_text": "i2t", "text_to_image": "t2i"}
_HEADER = ("metric", "A", "B", "B - A", "95% interval", "p")
_BREAKING = ("A", "B", "95% interval")  # figures with spaces, which a narrow terminal has on two lines instead of cut
_FINE = ("gini", "robin_hood")
_DIGITS = 6


def terminal(comparisons: list[Comparison], resamples: int, seed: int) -> None:
    """One table a criterion; bold where p < 0.05."""
    from rich.markup import escape
    from rich.table import Table

    for one in comparisons:
        table = Table(title=escape(_title(one)), caption=escape(_caption(one, resamples, seed)))
        for name in _header(one):
            table.add_column(name, justify="left" if name == "metric" else "right", no_wrap=name not in _BREAKING)
        for row in one.rows:
            table.add_row(*_cells(row), style="bold" if row.significant else "")
        stdout.print(table)


def markdown(comparisons: list[Comparison], resamples: int, seed: int) -> str:
    """GitHub-flavoured: a heading, a table and a line of protocol for each criterion."""
    parts = []
    for one in comparisons:
        lines = [
            f"### {_title(one)}",
            "",
            markdown_row(_header(one)),
            markdown_row(("---", *["---:"] * (len(_HEADER) - 1))),
        ]
        lines += [markdown_row(_cells(row)) for row in one.rows]
        parts.append("\n".join([*lines, "", _caption(one, resamples, seed), ""]))
    return "\n".join(parts)


def document(comparisons: list[Comparison], resamples: int, seed: int) -> str:
    """``{"resamples", "seed", "comparisons": [{"a", "b", "split", "protocol", "ties", "images",
    "image_to_text": {metric: {"a", "b", "difference", "interval", "p"}}, "text_to_image", "rsum",
    "hs_sum"}]}``: keys sorted, numbers finite, interval and p absent where they cannot be had. Of runs with seeds also
    "seeds" in "a" and "b", "paired", and a figure's "a_sd" and "b_sd" over them; with several B's "p_holm"."""
    found = {"resamples": resamples, "seed": seed, "comparisons": [_plain(one) for one in comparisons]}
    return json.dumps(found, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"


def _plain(one: Comparison) -> dict:
    found: dict = {"images": one.images}
    for side, about in (("a", one.a), ("b", one.b)):
        found[side] = {"name": about.name} | {key: about.metrics.get(key) for key in ("inference", "bank")}
        found[side] |= {"seeds": _seeds(about)} if _seeds(about) else {}
    found |= {"paired": paired(one.a, one.b)} if _seeds(one.a) or _seeds(one.b) else {}
    found |= {key: one.b.metrics.get(key) for key in ("split", "protocol", "ties")}
    for row in one.rows:
        numbers = {"a": row.a, "b": row.b, "difference": row.difference}
        cells: dict[str, Any] = {key: _rounded(value) for key, value in numbers.items()}
        if row.interval is not None and row.p is not None:
            cells |= {"interval": [_rounded(end) for end in row.interval], "p": _rounded(row.p)}
        cells |= {"p_holm": _rounded(row.holm)} if row.holm is not None else {}
        cells |= {f"{side}_sd": _rounded(sd) for side, sd in zip("ab", row.spread, strict=True) if sd is not None}
        nest(found, row.address, cells)
    return found


def _rounded(value: float) -> float:
    return round(value, _DIGITS) + 0.0  # never -0.0


def _title(one: Comparison) -> str:
    a, b = (f"{side.name} ({side.metrics.get('inference')})" for side in (one.a, one.b))
    return f"A: {a}, B: {b}"


def _bank(metrics: dict) -> str:
    return f"{metrics.get('bank')}{' (transductive)' if metrics.get('transductive') else ''}"


def _caption(one: Comparison, resamples: int, seed: int) -> str:
    banks = [_bank(side.metrics) for side in (one.a, one.b)]
    bank = f"query bank {banks[0]}" if banks[0] == banks[1] else f"query bank {banks[0]} in A, {banks[1]} in B"
    about = one.b.metrics
    return (
        f"{about.get('split')} split, protocol {about.get('protocol')}, ties {about.get('ties')}, {bank}; "
        f"{resamples} draws of {one.images} images with their captions, seed {seed}; {_trainings(one)}"
        f"p of each figure by itself, two-sided{_correction(one)}"
    )


def _header(one: Comparison) -> tuple[str, ...]:
    return (*_HEADER[:-1], "p (Holm)") if one.at_once > 1 else _HEADER


def _correction(one: Comparison) -> str:
    return f", corrected for the {one.at_once} comparisons with A (Holm)" if one.at_once > 1 else ""


def _seeds(side: Method) -> list[int]:
    return [int(seed) for seed in side.models if seed]


def _trainings(one: Comparison) -> str:
    """Whose chance the intervals hold besides that of the images."""
    if not _seeds(one.a) and not _seeds(one.b):
        return ""
    if paired(one.a, one.b):
        return f"mean ± standard deviation over seeds {', '.join(map(str, _seeds(one.a)))}, paired; "
    told = ", ".join(f"{len(side)} in {name}" for name, side in (("A", one.a), ("B", one.b)))
    lone = " and ".join(name for name, side in (("A", one.a), ("B", one.b)) if len(side) == 1)
    doubt = f"; of {lone} one model, whose chance in training is in no interval" if lone else ""
    return f"mean ± standard deviation over trainings, {told}, not paired{doubt}; "


def _cells(row: FigureRow) -> list[str]:
    digits = 3 if row.address[-1].startswith(_FINE) else 2
    name = " ".join([_SHORT.get(part, part) for part in row.address]).replace("hs_sum", "hs-sum")
    means = [spread(mean, sd, digits) for mean, sd in zip((row.a, row.b), row.spread, strict=True)]
    cells = [name, *means, f"{row.difference:+z.{digits}f}"]
    if row.interval is None:
        return [*cells, "-", "-"]
    low, high = row.interval
    return [*cells, f"{low:+z.{digits}f} to {high:+z.{digits}f}", f"{row.decisive:.3f}"]


def compare(
    run_a: str,
    runs_b: Sequence[str],
    start: Path,
    params: Params | None,
    *,
    inference: str | None = None,
    base: str | None = None,
    resamples: int = 1000,
    seed: int = 1,
) -> list[Comparison]:
    """For each B one comparison for each criterion that was asked for, or that both sides have, in the order of
    grid.inferences. With several B's the p-values of a figure under a criterion are corrected for their number.

    run_a, runs_b: a run of the project, or a folder with metrics.json, ranks.parquet and occurrence.parquet,
    as seen from ``start``; params: of the project whose root is the working directory, None outside one;
    base: the git revision that side A is read from. Raises UsageError for what does not exist,
    MissingResource when the data of ``base`` is not in the DVC cache, InputError for evaluations that cannot
    be paired.
    """
    if not runs_b and base is None:
        raise UsageError("compare needs RUN_B, or --base REV to compare RUN_A with what it was")
    a = (
        revisions.find(run_a, start, params, Disk())
        if base is None
        else revisions.at_revision(run_a, start, params, base)
    )
    sides = [revisions.find(name, start, params, Disk()) for name in runs_b or [run_a]]
    if twice := sorted({place.name for place in sides if sum(one.name == place.name for one in sides) > 1}):
        raise UsageError(f"RUN_B {', '.join(twice)} is given twice")
    found = []
    for b in sides:
        if params:
            _warn_of_precision(a, b, params)
        for of_a, of_b in _chosen(a, b, inference, params):
            pair = a.read(of_a), b.read(of_b)
            found.append(compared(pair[0], revisions.aligned(a, b, pair, params), resamples, seed))
    return found if len(sides) == 1 else _corrected(found)


def _corrected(comparisons: list[Comparison]) -> list[Comparison]:
    """With Holm's p-values: of a figure over the B's, under each criterion by itself where A and B share it."""
    families: dict[tuple, list[tuple[int, int]]] = {}
    for number, one in enumerate(comparisons):
        of_a, of_b = (side.metrics.get("inference") for side in (one.a, one.b))
        criterion = of_a if of_a == of_b else None
        for place, row in enumerate(one.rows):
            if row.p is not None:
                key = (*row.address, criterion)
                families.setdefault(key, []).append((number, place))
    rows = [list(one.rows) for one in comparisons]
    for family in families.values():
        corrected = holm([rows[number][place].p or 0.0 for number, place in family])
        for (number, place), p in zip(family, corrected, strict=True):
            rows[number][place] = replace(rows[number][place], holm=p)
    at_once = len({one.b.name for one in comparisons})
    return [replace(one, rows=made, at_once=at_once) for one, made in zip(comparisons, rows, strict=True)]


def _warn_of_precision(a: Place, b: Place, params: Params) -> None:
    """Features that one machine computed in bfloat16 and another in float32 differ in the fourth digit."""
    found = {
        f"{place.files.shown(folder)}": _precision(place, folder) for place in (a, b) for folder in _read(place, params)
    }
    kinds = set(found.values()) - {None}
    if len(kinds) > 1:
        told = ", ".join(f"{where} in {precision}" for where, precision in found.items())
        warn(f"the features were not computed alike: {told}; set precision in params.yaml and extract them again")


def _read(place: Place, params: Params) -> list[Path]:
    """The features behind a run, or behind those of an ensemble; of a folder of any evaluation nothing is known."""
    ensemble = None if place.single else params.ensembles.get(place.name)
    runs = ensemble.members if ensemble else params.models(place.name)[:1]
    return [
        paths.extracted(params.runs[run].dataset, params.runs[run].features)
        for run in runs
        if not place.single and run in params.runs
    ]


def _precision(place: Place, folder: Path) -> str | None:
    try:
        with place.files.local(folder, (features.META,)) as local:
            return read_json(local / features.META).get("precision")
    except (InputError, MissingResource):  # not fetched: nothing is known of them
        return None


def _chosen(a: Place, b: Place, inference: str | None, params: Params | None) -> list[tuple[str, str]]:
    """Which criterion of A to compare with which of B."""
    if a.single and b.single:
        if inference is not None:
            raise UsageError("--inference chooses a criterion of a run; both sides are folders of one criterion")
        return [(a.criteria()[0], b.criteria()[0])]
    if a.single or b.single:
        wanted = inference or (a if a.single else b).criteria()[0]
        return [(a.criteria()[0] if a.single else a.check(wanted), b.criteria()[0] if b.single else b.check(wanted))]
    if inference is not None:
        return [(a.check(inference), b.check(inference))]
    names = revisions.common(a, b, params.grid.inferences if params else [])
    return [(name, name) for name in names]
