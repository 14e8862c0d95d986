"""Claims of papers: their file, their verdicts from comparisons, as tables, Markdown and JSON."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from vse_pipe.artifacts import identity, model_files
from vse_pipe.core import console
from vse_pipe.core.console import document, stdout
from vse_pipe.core.errors import InputError, MissingResource, UsageError, missing, unknown
from vse_pipe.core.strict import Strict
from vse_pipe.project import paths
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.load import validated
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.comparison import ADDRESSES, FILES, SIGNIFICANT, Compared, Difference, Method, Spread, compare
from vse_pipe.ranking.intervals import holm
from vse_pipe.report.formatting import markdown_row, spread

PACKAGED = {"papers": Path(__file__).parent / "papers.yaml"}
_FIGURES = [".".join(address) for address in ADDRESSES]


def _a_figure(name: str) -> str:
    if name not in _FIGURES:
        raise ValueError(unknown("figure", name, _FIGURES))
    return name


class ClaimSide(Strict):
    """run: of params.yaml, or a name under the file's ``runs``. criterion: how it is ranked."""

    run: str
    criterion: str = "nns"


Named = Annotated[ClaimSide, BeforeValidator(lambda side: {"run": side} if isinstance(side, str) else side)]


class PaperClaim(Strict):
    """One claim: the figure of the left side is greater or less than that of the right, or within
    ``margin`` of it.

    text, source: the claim and its place in a paper. figure: an address in metrics.json, such as
    image_to_text.r@1. collapses: the claim is that a side stands still at chance, which
    otherwise leaves no verdict."""

    text: str
    source: str
    figure: Annotated[str, BeforeValidator(_a_figure)] = "rsum"
    left: Named
    right: Named
    says: Literal["greater", "less", "equal"] = "greater"
    margin: Annotated[float, Field(gt=0)] | None = None
    collapses: bool = False

    @model_validator(mode="after")
    def _a_margin_for_equality(self) -> Self:
        if (self.says == "equal") != (self.margin is not None):
            raise ValueError("`says: equal` needs a margin, and the others take none")
        return self


class ClaimsFile(Strict):
    """A file of claims, whose p-values are corrected together. seeds: the least number of trainings
    of a side, 1 to judge single models. runs: names of params.yaml, by the names in the claims."""

    title: str = "Claims"
    seeds: Annotated[int, Field(ge=1)] = 2
    runs: dict[str, str] = Field(default_factory=dict)
    claims: Annotated[list[PaperClaim], Field(min_length=1)]

    def side(self, side: ClaimSide) -> tuple[str, str]:
        """The run's name in params.yaml, and the criterion."""
        return self.runs.get(side.run, side.run), side.criterion


def read(name: str, start: Path = Path()) -> ClaimsFile:
    """The claims of a file relative to ``start``, or of a packaged one by its name. Raises
    MissingResource without a file, ParamsError with the address of every error."""
    path = start / name
    if not path.is_file():
        if name not in PACKAGED:
            raise MissingResource(missing(f"{name}: no such file of claims", name, PACKAGED))
        path = PACKAGED[name]
    return validated(ClaimsFile, read_document(path), path.name)


HOLDS, FAILS, UNSURE, NONE = "holds", "does not hold", "cannot be told from these data", "no verdict"


@dataclass(frozen=True)
class Judged:
    """left, right: the sides, ``hal (nns)``. difference: left - right, whose A is the right side;
    None for the given ``reason``. single_p: two-sided p of this claim; p: corrected (Holm) for all
    claims of the file with a verdict."""

    claim: PaperClaim
    left: str
    right: str
    verdict: str = UNSURE
    reason: str = ""
    difference: Difference | None = None
    single_p: float | None = None
    p: float | None = None


def judged(params: Params, file: ClaimsFile, resamples: int, seed: int, skip_unknown: bool = False) -> list[Judged]:
    """One verdict for each claim, in the order of the file.

    A claim holds if the corrected p is below 0.05 and left - right has the claimed sign; it does
    not hold if the sign is the opposite; otherwise these data cannot tell. For equality, inside and
    outside of the margin replace the signs. There is no verdict on sides that are not evaluated,
    have too few trainings, have not converged, or cannot be paired. Raises UsageError with all
    unknown runs, unless ``skip_unknown``; IntegrityError for evaluations of another model or
    data."""
    names = sorted({*params.evaluated(), *params.groups})
    pairs = [(file.side(claim.left), file.side(claim.right)) for claim in file.claims]
    unknown_runs = {run: None for sides in pairs for run, _ in sides if run not in names}
    if unknown_runs and not skip_unknown:
        raise UsageError(*(unknown("run", name, names) for name in unknown_runs))
    compared = cache(partial(_compared, params, resamples, seed))
    verdicts = []
    for claim, sides in zip(file.claims, pairs, strict=True):
        objections = (_objection(params, names, file, claim, *side) for side in sides)
        objection = next(filter(None, objections), None)
        verdicts.append(_judged(claim, *sides, objection or compared(*sides)))
    judgeable = [verdict.single_p for verdict in verdicts if verdict.single_p is not None]
    corrected = iter(holm(judgeable))
    return [verdict if verdict.single_p is None else _decided(verdict, next(corrected)) for verdict in verdicts]


def _objection(
    params: Params, names: list[str], file: ClaimsFile, claim: PaperClaim, run: str, criterion: str
) -> str | None:
    """Why a side cannot be judged. A training that stood still at chance at its end has not
    converged, unless the claim is about that."""
    if run not in names:
        return f"there is no run '{run}'"
    models = params.models(run)
    for model in models:
        folder = paths.evaluated(model, criterion)
        if not all((folder / name).is_file() for name in FILES):
            return f"{folder} is not there; `vse-pipe evaluate --run {model} --inference {criterion}` makes it"
        identity.require_current(paths.evaluations(model))
    if len(models) < file.seeds:
        return f"{run} has {len(models)} training{'s' if len(models) > 1 else ''}, the file asks for {file.seeds}"
    for training in params.trainings(run):
        path = paths.trained(training) / model_files.CONFIG
        config = model_files.read_config(path.parent) if path.is_file() else {}
        if "ended" not in config:
            return f"{training}: no {path} says whether it has converged"
        reason = model_files.unconverged(config)
        if reason and not (claim.collapses and config["ended"].get("stuck")):
            return f"{training} has not converged: {reason}"
    return None


Side = tuple[str, str]


def _compared(
    params: Params, resamples: int, seed: int, left: Side, right: Side
) -> dict[tuple[str, ...], Difference] | str:
    """The differences left - right by figure, or why the sides cannot be compared."""
    try:
        comparison = compare(_method(params, *right), _method(params, *left), resamples, seed)
    except InputError as error:
        return str(error)
    return {row.address: row for row in comparison.rows}


def _method(params: Params, run: str, criterion: str) -> Method:
    tables = {model: Compared.read(model, paths.evaluated(model, criterion)) for model in params.models(run)}
    return Method(run, {model.removeprefix(run).removeprefix("/"): table for model, table in tables.items()})


def _judged(claim: PaperClaim, left: Side, right: Side, figures: dict[tuple[str, ...], Difference] | str) -> Judged:
    """With the claim's p-value; without a verdict for the reason in ``figures``, or that there is
    no p-value."""
    bare = Judged(claim, "{} ({})".format(*left), "{} ({})".format(*right))
    if isinstance(figures, str):
        return replace(bare, verdict=NONE, reason=figures)
    difference = figures.get(tuple(claim.figure.split(".")))
    if difference is not None and difference.doubt is not None:
        return replace(bare, difference=difference, single_p=_p_value(claim, difference, difference.doubt))
    reason = "a matching's tables do not hold this figure query by query"
    return replace(bare, verdict=NONE, reason=reason, difference=difference)


def _p_value(claim: PaperClaim, row: Difference, doubt: Spread) -> float:
    """The p-value of no difference; for equality, of a difference equal to the nearer margin."""
    nulls = [0.0] if claim.margin is None else [-claim.margin, claim.margin]
    if claim.margin is not None and abs(row.difference) >= claim.margin:
        nulls = [nulls[int(row.difference > 0)]]
    return max(map(doubt.p_value, nulls))


def _decided(judged: Judged, p: float) -> Judged:
    """The verdict by the corrected p-value."""
    assert judged.difference is not None
    value, claim = judged.difference.difference, judged.claim
    holds = (value > 0) == (claim.says == "greater") if claim.margin is None else abs(value) < claim.margin
    return replace(judged, p=p, verdict=UNSURE if p >= SIGNIFICANT else HOLDS if holds else FAILS)


HEADER = ("claim", "source", "figure", "left", "right", "left - right", "95% interval", "p (Holm)", "verdict")
_WORDS = {"greater": "left greater", "less": "left less"}


def cells(judged: Judged) -> list[str]:
    """The cells of a row, in the order of HEADER."""
    claim, row = judged.claim, judged.difference
    says = _WORDS.get(claim.says, f"within {claim.margin or 0:g}")
    head = [claim.text, claim.source, f"{claim.figure.replace('.', ' ')}, {says}"]
    sides, numbers = [judged.left, judged.right], ["-", "-", "-"]
    if row is not None:
        means = spread(row.b, row.deviations[1]), spread(row.a, row.deviations[0])
        sides = [f"{name} {mean}" for name, mean in zip(sides, means, strict=True)]
        numbers[0] = f"{row.difference:+z.2f}"
        if judged.p is not None and row.interval is not None:
            numbers[1:] = [" to ".join(f"{end:+z.2f}" for end in row.interval), f"{judged.p:.3f}"]
    return [*head, *sides, *numbers, f"{judged.verdict}: {judged.reason}" if judged.reason else judged.verdict]


def counted(claims: list[Judged]) -> str:
    """``12 hold, 3 do not hold, ...``"""
    counts = Counter(claim.verdict for claim in claims)
    words = {HOLDS: "hold", FAILS: "do not hold", UNSURE: UNSURE, NONE: "without a verdict"}
    return ", ".join(f"{counts[verdict]} {word}" for verdict, word in words.items())


def caption(resamples: int, seed: int) -> str:
    return (
        f"mean ± standard deviation over seeds; {resamples} draws of images, seed {seed}; "
        "p corrected (Holm) for all claims with a verdict"
    )


_STYLES = {HOLDS: "green", FAILS: "red"}


def terminal(file: ClaimsFile, verdicts: list[Judged], resamples: int, seed: int) -> None:
    from rich.table import Table

    title = f"{file.title}: {counted(verdicts)}"
    table = Table(title=title, caption=caption(resamples, seed), show_lines=True)
    for place, name in enumerate(_stacked(HEADER)):
        table.add_column(name, no_wrap=place == 2)  # the column of numbers
    for verdict in verdicts:
        table.add_row(*_stacked(cells(verdict)), style=_STYLES.get(verdict.verdict, ""))
    console.show(table)


def _stacked(cells: Sequence[str]) -> list[str]:
    """Nine cells as four cells of up to three lines: claim and source, sides, numbers, verdict.
    Nine columns are too narrow."""
    return ["\n".join(cells[start:end]) for start, end in ((0, 2), (2, 5), (5, 8), (8, 9))]


def markdown(file: ClaimsFile, verdicts: list[Judged], resamples: int, seed: int) -> None:
    rows = "\n".join(map(markdown_row, [HEADER, ["---"] * len(HEADER), *map(cells, verdicts)]))
    stdout.file.write(f"### {file.title}\n\n{counted(verdicts)}\n\n{rows}\n\n{caption(resamples, seed)}\n")


def as_document(file: ClaimsFile, verdicts: list[Judged], resamples: int, seed: int) -> None:
    """``{"title", "resamples", "seed", "claims": [{"text", "source", "figure", "says", "margin",
    "left", "right", "verdict", "why", "left_values", "right_values", "difference", "interval",
    "p_alone", "p"}]}``; the last six are optional."""
    claims = [_plain(verdict) for verdict in verdicts]
    document({"title": file.title, "resamples": resamples, "seed": seed, "claims": claims})


def _plain(verdict: Judged) -> dict[str, Any]:
    plain: dict[str, Any] = verdict.claim.model_dump(include={"text", "source", "figure", "says", "margin"})
    plain |= {"left": verdict.left, "right": verdict.right, "verdict": verdict.verdict, "why": verdict.reason}
    row = verdict.difference
    if row is not None:
        plain |= {"left_values": row.b_values, "right_values": row.a_values, "difference": row.difference}
        if verdict.p is not None:
            plain |= {"interval": row.interval, "p_alone": verdict.single_p, "p": verdict.p}
        figures = plain.keys() & {"left_values", "right_values", "difference", "interval", "p_alone", "p"}
        plain |= {name: np.round(plain[name], 6).tolist() for name in figures}
    return plain
