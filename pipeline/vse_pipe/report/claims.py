"""Claims of papers: their file, their verdicts from evaluations, and these as tables, Markdown and JSON."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from vse_pipe.artifacts import evaluation, model_files
from vse_pipe.core import console
from vse_pipe.core.console import document, stdout
from vse_pipe.core.errors import InputError, MissingResource, ParamsError, UsageError, missing, unknown
from vse_pipe.core.strict import Strict
from vse_pipe.project import paths
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.typed import Params, described
from vse_pipe.ranking.comparison import ADDRESSES, SIGNIFICANT, Compared, Difference, Method, differences
from vse_pipe.ranking.intervals import holm
from vse_pipe.report.formatting import markdown_row, spread


def problem(params: Params, model: str, collapses: bool = False) -> str | None:
    """The reason why a run, a repetition or an ensemble has not converged; None if it has. collapses: a run that
    ended on the plateau of its loss counts as converged.

    ``vse-pipe train`` writes it into config.json by the rule of ``ranking.recall.converged``. Raises InputError and
    IntegrityError for a file that cannot be used.
    """
    for run in params.trainings(model):
        folder = paths.trained(run)
        if not (folder / model_files.CONFIG).is_file():
            return f"{run}: no {folder / model_files.CONFIG}, so that nobody knows whether it has converged"
        config = model_files.read_config(folder, run)
        if (ended := config.get("ended")) is None:
            return f"{run}: trained before config.json told whether it has converged; train it again"
        reason = model_files.unconverged(config)
        if reason and not (collapses and ended.get("stuck")):
            return f"{run} has not converged: {reason}"
    return None


PACKAGED = {"papers": Path(__file__).parent / "papers.yaml"}
_FIGURES = [".".join(address) for address in ADDRESSES]


def _a_figure(name: str) -> str:
    if name not in _FIGURES:
        raise ValueError(unknown("figure", name, _FIGURES))
    return name


class ClaimSide(Strict):
    """One side of a claim. run: of params.yaml, or a name under the file's ``runs``. criterion: null for the
    claim's."""

    run: str
    criterion: str | None = None


Named = Annotated[ClaimSide, BeforeValidator(lambda side: {"run": side} if isinstance(side, str) else side)]


class PaperClaim(Strict):
    """One claim: the figure of the left side is greater or less than that of the right, or within ``margin`` of it.

    text, source: the claim and its place in a paper. figure: an address in metrics.json, rsum or image_to_text.r@1.
    criterion: of sides without one. floor: replaces that of the file; null for none. collapses: the claim is that a side
    stays on the plateau of its loss, which otherwise leaves no verdict."""

    text: str
    source: str
    figure: Annotated[str, BeforeValidator(_a_figure)] = "rsum"
    criterion: str = "nns"
    left: Named
    right: Named
    says: Literal["greater", "less", "equal"] = "greater"
    margin: Annotated[float, Field(gt=0)] | None = None
    floor: float | str | None = None
    collapses: bool = False

    @model_validator(mode="after")
    def _a_margin_for_equality(self) -> Self:
        if (self.says == "equal") != (self.margin is not None):
            raise ValueError("`says: equal` needs a margin, and the others take none")
        return self

    @property
    def address(self) -> tuple[str, ...]:
        return tuple(self.figure.split("."))


class ClaimsFile(Strict):
    """A file of claims, whose p-values are corrected together. floor: the rsum under nns, or the run that has it, below which a side is remarked on. seeds: the least number of
    trainings of a side, 1 to judge single models. runs: names of params.yaml, by the names in the claims."""

    title: str = "Claims"
    floor: float | str | None = None
    seeds: Annotated[int, Field(ge=1)] = 2
    runs: dict[str, str] = Field(default_factory=dict)
    claims: Annotated[list[PaperClaim], Field(min_length=1)]

    def run(self, side: ClaimSide) -> str:
        """The run's name in params.yaml."""
        return self.runs.get(side.run, side.run)

    def floor_of(self, claim: PaperClaim) -> float | str | None:
        floor = claim.floor if "floor" in claim.model_fields_set else self.floor
        return self.runs.get(floor, floor) if isinstance(floor, str) else floor


def read(path: Path) -> ClaimsFile:
    """The claims of a file. Raises MissingResource without a file, ParamsError with the address of every error."""
    if not path.is_file():
        raise MissingResource(f"{path}: no such file; packaged claims are {', '.join(PACKAGED)}")
    try:
        return ClaimsFile.model_validate(read_document(path))
    except ValidationError as error:
        addresses = [(".".join(map(str, issue["loc"])), described(ClaimsFile, issue)) for issue in error.errors()]
        raise ParamsError([f"{path.name} {address}: {text}" for address, text in addresses]) from error


HOLDS, FAILS, UNSURE, NONE = "holds", "does not hold", "cannot be told from these data", "no verdict"
_FILES = (evaluation.METRICS, evaluation.RANKS, evaluation.OCCURRENCE)


@dataclass(frozen=True)
class Judged:
    """left, right: the sides, ``hal (nns)``. difference: left - right, None for the given ``reason``. interval: 95%. alone:
    two-sided p of this claim; p: corrected (Holm) for all claims of the file with a verdict. remark: sides below the
    floor."""

    claim: PaperClaim
    left: str
    right: str
    verdict: str
    reason: str = ""
    difference: Difference | None = None
    interval: list[float] | None = None
    alone: float | None = None
    p: float | None = None
    remark: str = ""

    @property
    def mean(self) -> float | None:
        return None if self.difference is None else float(self.difference.b.mean() - self.difference.a.mean())


def judged(params: Params, file: ClaimsFile, resamples: int, seed: int, skip_unknown: bool = False) -> list[Judged]:
    """One verdict for each claim, in the order of the file.

    A claim holds if the corrected p is below 0.05 and left - right has the claimed sign; it does not hold if the sign
    is the opposite; otherwise these data cannot tell. For equality, inside and outside of the margin replace the signs.
    There is no verdict on sides that are not evaluated, have too few trainings, have not converged, or cannot be paired;
    a side below the floor is remarked on. Raises UsageError with all unknown runs, unless ``skip_unknown``; IntegrityError for
    evaluations of another model or data."""
    names = sorted({*params.evaluated(), *params.groups})
    sides = [side for claim in file.claims for side in (claim.left, claim.right)]
    unknown_runs = {file.run(side): None for side in sides if file.run(side) not in names}
    if unknown_runs and not skip_unknown:
        raise UsageError(*(unknown("run", name, names) for name in unknown_runs))
    measured: dict[tuple, dict[tuple[str, ...], Difference]] = {}
    return corrected(
        [_measured(params, file, claim, unknown_runs, measured, (resamples, seed)) for claim in file.claims]
    )


def corrected(verdicts: Sequence[Judged]) -> list[Judged]:
    """The claims as one family: p corrected (Holm) for the number of those that can be judged, and verdicts by it."""
    family = list(verdicts)
    testable = [number for number, verdict in enumerate(family) if verdict.alone is not None]
    for number, p in zip(testable, holm([family[number].alone or 0.0 for number in testable]), strict=True):
        family[number] = replace(family[number], p=p, verdict=_verdict(family[number], p))
    return family


def _measured(
    params: Params, file: ClaimsFile, claim: PaperClaim, unknown_runs: dict, measured: dict, draws: tuple[int, int]
) -> Judged:
    """The claim with its uncorrected p-value. measured: differences by pair of sides, shared by the claims."""
    # Left - right is the B - A of a comparison.
    pair = tuple((file.run(side), side.criterion or claim.criterion) for side in (claim.right, claim.left))
    right, left = (f"{run} ({criterion})" for run, criterion in pair)
    for run, criterion in reversed(pair):
        reason = f"there is no run '{run}'" if run in unknown_runs else _objection(params, file, claim, run, criterion)
        if reason:
            return Judged(claim, left, right, NONE, reason)
    if pair not in measured:
        a, b = (_method(params, *side) for side in pair)
        try:
            measured[pair] = {difference.address: difference for difference in differences(a, b, *draws)[1]}
        except InputError as error:
            return Judged(claim, left, right, NONE, str(error))
    difference = measured[pair].get(claim.address)
    if difference is None or difference.doubt is None:
        reason = "a matching's tables do not hold this figure query by query"
        return Judged(claim, left, right, NONE, reason, difference)
    remark = _below(params, file.floor_of(claim), pair[::-1])
    if (p := _p_value(claim, difference)) is None:
        return Judged(claim, left, right, NONE, "hubness of single models has no test; give the runs seeds", difference)
    return Judged(claim, left, right, UNSURE, "", difference, difference.doubt.interval(), p, remark=remark)


def _objection(params: Params, file: ClaimsFile, claim: PaperClaim, run: str, criterion: str) -> str | None:
    models = params.models(run)
    for model in models:
        folder = paths.evaluated(model, criterion)
        if not all((folder / name).is_file() for name in _FILES):
            return f"{folder} is not there; `vse-pipe evaluate --run {model} --inference {criterion}` makes it"
        evaluation.require_current(params, model, [criterion])
    if len(models) < file.seeds:
        return f"{run} has {len(models)} training{'s' if len(models) > 1 else ''}, the file asks for {file.seeds}"
    return next(filter(None, (problem(params, model, claim.collapses) for model in models)), None)


def _below(params: Params, floor: float | str | None, sides: Sequence[tuple[str, str]]) -> str:
    """The sides whose mean rsum over seeds, under nns or else their criterion, is below the floor; or why nobody knows."""
    if floor is None:
        return ""
    if isinstance(floor, str):
        is_evaluated = floor in params.evaluated() or floor in params.groups
        value = _rsum(params, floor, "nns") if is_evaluated else None
        if value is None:
            return f"floor unknown: {floor} is not evaluated"
        floor = value
    sums = {run: _rsum(params, run, "nns") or _rsum(params, run, criterion) for run, criterion in sides}
    return "; ".join(
        f"{run} is below the floor: rsum {rsum:.1f} of {floor:.1f}"
        for run, rsum in sums.items()
        if rsum is not None and rsum < floor
    )


def _rsum(params: Params, run: str, criterion: str) -> float | None:
    """The mean over seeds; None where one is not evaluated."""
    folders = [paths.evaluated(model, criterion) for model in params.models(run)]
    if not all((folder / evaluation.METRICS).is_file() for folder in folders):
        return None
    return sum(evaluation.read_metrics(folder)["rsum"] for folder in folders) / len(folders)


def _method(params: Params, run: str, criterion: str) -> Method:
    tables = {model: Compared.read(model, paths.evaluated(model, criterion)) for model in params.models(run)}
    return Method(run, {model.removeprefix(run).removeprefix("/"): table for model, table in tables.items()})


def _p_value(claim: PaperClaim, difference: Difference) -> float | None:
    """The p-value of no difference; for equality, of a difference equal to the nearer margin."""
    assert difference.doubt is not None
    if claim.margin is None:
        return difference.doubt.p_value()
    nulls = (-claim.margin, claim.margin)
    mean = difference.b.mean() - difference.a.mean()
    nearest = nulls if abs(mean) < claim.margin else (nulls[int(mean > 0)],)
    found = [difference.doubt.p_value(null) for null in nearest]
    return None if None in found else max(p for p in found if p is not None)


def _verdict(judged: Judged, p: float) -> str:
    if p >= SIGNIFICANT or judged.mean is None:
        return UNSURE
    if judged.claim.margin is not None:
        return HOLDS if abs(judged.mean) < judged.claim.margin else FAILS
    return HOLDS if (judged.mean > 0) == (judged.claim.says == "greater") else FAILS


HEADER = ("claim", "source", "figure", "left", "right", "left - right", "95% interval", "p (Holm)", "verdict")
_WORDS = {"greater": "left greater", "less": "left less"}


def cells(judged: Judged) -> list[str]:
    """The cells of a row, in the order of HEADER."""
    claim = judged.claim
    says = _WORDS.get(claim.says, f"within {claim.margin or 0:g}")
    head = [claim.text, claim.source, f"{' '.join(claim.address)}, {says}"]
    if judged.difference is None or judged.mean is None:
        return [*head, judged.left, judged.right, "-", "-", "-", verdict_text(judged)]
    sides = []
    for name, values in ((judged.left, judged.difference.b), (judged.right, judged.difference.a)):
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
        sides.append(f"{name} {spread(float(values.mean()), deviation)}")
    if judged.interval is None:
        return [*head, *sides, f"{judged.mean:+z.2f}", "-", "-", verdict_text(judged)]
    low, high = judged.interval
    numbers = [f"{judged.mean:+z.2f}", f"{low:+z.2f} to {high:+z.2f}", f"{judged.p:.3f}"]
    return [*head, *sides, *numbers, verdict_text(judged)]


def verdict_text(judged: Judged) -> str:
    text = f"{judged.verdict}: {judged.reason}" if judged.reason else judged.verdict
    return f"{text} ({judged.remark})" if judged.remark else text


def counted(claims: list[Judged]) -> str:
    """``12 hold, 3 do not hold, ...``"""
    counts = Counter(claim.verdict for claim in claims)
    words = {HOLDS: "hold", FAILS: "do not hold", UNSURE: "cannot be told from these data", NONE: "without a verdict"}
    return ", ".join(f"{counts[verdict]} {word}" for verdict, word in words.items())


def caption(resamples: int, seed: int) -> str:
    return f"mean ± standard deviation over seeds; {resamples} draws of images, seed {seed}; p corrected (Holm) for all claims with a verdict"


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
    """Nine cells as four cells of up to three lines: claim and source, sides, numbers, verdict. Nine columns are too
    narrow."""
    return ["\n".join(cells[start:end]) for start, end in ((0, 2), (2, 5), (5, 8), (8, 9))]


def markdown(file: ClaimsFile, verdicts: list[Judged], resamples: int, seed: int) -> None:
    rows = "\n".join(map(markdown_row, [HEADER, ["---"] * len(HEADER), *map(cells, verdicts)]))
    stdout.file.write(f"### {file.title}\n\n{counted(verdicts)}\n\n{rows}\n\n{caption(resamples, seed)}\n")


def as_document(file: ClaimsFile, verdicts: list[Judged], resamples: int, seed: int) -> None:
    """``{"title", "resamples", "seed", "claims": [{"text", "source", "figure", "says", "margin", "left", "right",
    "verdict", "why", "remark", "left_values", "right_values", "difference", "interval", "p_alone", "p"}]}``; the
    last six are optional."""
    claims = [_plain(verdict) for verdict in verdicts]
    settings = {"title": file.title, "resamples": resamples, "seed": seed}
    document({**settings, "claims": claims})


def _plain(verdict: Judged) -> dict[str, Any]:
    claim = verdict.claim.model_dump(include={"text", "source", "figure", "says", "margin"})
    texts = {"left": verdict.left, "right": verdict.right, "verdict": verdict.verdict, "why": verdict.reason}
    plain: dict[str, Any] = {**claim, **texts, "remark": verdict.remark}
    if verdict.difference is not None and verdict.mean is not None:
        sides = {"left_values": verdict.difference.b, "right_values": verdict.difference.a}
        plain |= {name: np.round(values, 6).tolist() for name, values in sides.items()}
        plain["difference"] = round(verdict.mean, 6)
    if verdict.interval is not None and verdict.p is not None and verdict.alone is not None:
        plain["interval"] = [round(end, 6) for end in verdict.interval]
        plain |= {"p_alone": round(verdict.alone, 6), "p": round(verdict.p, 6)}
    return plain


def find_file(name: str, start: Path) -> Path:
    """A packaged file of claims by name, or a path relative to ``start``. Raises MissingResource with a similar
    name."""
    path = start / name
    if path.is_file():
        return path
    if name not in PACKAGED:
        raise MissingResource(missing(f"{name}: no such file of claims", name, PACKAGED))
    return PACKAGED[name]
