"""compare: two evaluations, query by query, with intervals and p-values of their differences."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vse_pipe.artifacts import features
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError, MissingResource, UsageError
from vse_pipe.core.files import read_json
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.comparison import Comparison, compared
from vse_pipe.ranking.intervals import holm
from vse_pipe.tools.compare import contents, places
from vse_pipe.tools.compare.files import Disk
from vse_pipe.tools.compare.places import Place


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
    a = places.find(run_a, start, params, Disk()) if base is None else places.at_revision(run_a, start, params, base)
    sides = [places.find(name, start, params, Disk()) for name in runs_b or [run_a]]
    if twice := sorted({place.name for place in sides if sum(one.name == place.name for one in sides) > 1}):
        raise UsageError(f"RUN_B {', '.join(twice)} is given twice")
    found = []
    for b in sides:
        if params:
            _warn_of_precision(a, b, params)
        for of_a, of_b in _chosen(a, b, inference, params):
            pair = a.read(of_a), b.read(of_b)
            found.append(compared(pair[0], contents.aligned(a, b, pair, params), resamples, seed))
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
    names = places.common(a, b, params.grid.inferences if params else [])
    return [(name, name) for name in names]
