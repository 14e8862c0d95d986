"""Claims and what was measured: the verdict on each."""

from dataclasses import dataclass, replace

from vse_pipe.artifacts import evaluation
from vse_pipe.core.errors import InputError, UsageError, unknown
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.comparison import SIGNIFICANT, Compared, Difference, Method, differences
from vse_pipe.ranking.intervals import holm
from vse_pipe.report.claims import converged
from vse_pipe.report.claims.schema import ClaimsFile, PaperClaim

HOLDS, FAILS, UNSURE, NONE = "holds", "does not hold", "cannot be told from these data", "no verdict"
_FILES = (evaluation.METRICS, evaluation.RANKS, evaluation.OCCURRENCE)


@dataclass(frozen=True)
class Judged:
    """left, right: what was compared, ``hal (nns)``; difference: of left - right, None where ``why`` says there is none to
    speak of; interval: of 95%; p: two-sided, corrected for all claims of the file that can be judged (Holm)."""

    claim: PaperClaim
    left: str
    right: str
    verdict: str
    why: str = ""
    difference: Difference | None = None
    interval: list[float] | None = None
    p: float | None = None

    @property
    def mean(self) -> float | None:
        return None if self.difference is None else float(self.difference.b.mean() - self.difference.a.mean())


def judged(params: Params, file: ClaimsFile, resamples: int, seed: int, skip_unknown: bool = False) -> list[Judged]:
    """One for each claim, in the order of the file.

    A claim holds where the interval of left - right lies on the side it names and the corrected p is below 0.05, it does not
    where the same is true of the other side, and otherwise these data cannot tell. Of equality the sides are within the
    margin and beyond it. There is no verdict on sides that are not evaluated, have too few trainings, are below the floor or
    have not converged, or that cannot be paired. Raises UsageError with all runs that do not exist, unless ``skip_unknown``;
    IntegrityError for evaluations of another model or of other data than there are now.
    """
    known = sorted({*params.evaluated(), *params.groups})
    sides = [side for claim in file.claims for side in (claim.left, claim.right)]
    strange = {file.run(side): None for side in sides if file.run(side) not in known}
    if strange and not skip_unknown:
        raise UsageError("\n".join(unknown("run", name, known) for name in strange))
    measured: dict[tuple, dict[tuple[str, ...], Difference]] = {}
    found = [_measured(params, file, claim, strange, measured, (resamples, seed)) for claim in file.claims]
    asked = [number for number, one in enumerate(found) if one.p is not None]
    for number, p in zip(asked, holm([found[number].p or 0.0 for number in asked]), strict=True):
        found[number] = replace(found[number], p=p, verdict=_verdict(found[number], p))
    return found


def _measured(
    params: Params, file: ClaimsFile, claim: PaperClaim, strange: dict, measured: dict, draws: tuple[int, int]
) -> Judged:
    """With the p-value of this claim alone. measured: differences by pair of sides, which several claims share."""
    # Left - right is the B - A of a comparison.
    pair = tuple((file.run(side), side.criterion or claim.criterion) for side in (claim.right, claim.left))
    right, left = (f"{run} ({criterion})" for run, criterion in pair)
    for run, criterion in reversed(pair):
        why = f"there is no run '{run}'" if run in strange else _objection(params, file, claim, run, criterion)
        if why:
            return Judged(claim, left, right, NONE, why)
    if pair not in measured:
        a, b = (_method(params, *side) for side in pair)
        try:
            measured[pair] = {one.address: one for one in differences(a, b, *draws)[1]}
        except InputError as error:
            return Judged(claim, left, right, NONE, str(error))
    one = measured[pair].get(claim.address)
    if one is None or one.doubt is None:
        return Judged(claim, left, right, NONE, "a matching's tables do not hold this figure query by query", one)
    return Judged(claim, left, right, UNSURE, "", one, one.doubt.interval(), _p_value(claim, one))


def _objection(params: Params, file: ClaimsFile, claim: PaperClaim, run: str, criterion: str) -> str | None:
    """Why nothing can be said of a side."""
    models = params.models(run)
    for model in models:
        folder = paths.evaluated(model, criterion)
        if not all((folder / name).is_file() for name in _FILES):
            return f"{folder} is not there; `vse-pipe evaluate --run {model} --inference {criterion}` makes it"
        evaluation.require_current(params, model, [criterion])
    if len(models) < file.seeds:
        return f"{run} has {len(models)} training{'s' if len(models) > 1 else ''}, the file asks for {file.seeds}"
    if why := converged.below(params, run, criterion, file.floor_of(claim)):
        return why
    return next(filter(None, (converged.problem(params, model) for model in models)), None)


def _method(params: Params, run: str, criterion: str) -> Method:
    models = {model: Compared.read(model, paths.evaluated(model, criterion)) for model in params.models(run)}
    return Method(run, {model.removeprefix(run).removeprefix("/"): one for model, one in models.items()})


def _p_value(claim: PaperClaim, one: Difference) -> float:
    """Of no difference; of equality, of a difference just as large as the margin, on the side that is nearer."""
    assert one.doubt is not None
    if claim.margin is None:
        return one.doubt.p_value()
    nulls = (-claim.margin, claim.margin)
    mean = one.b.mean() - one.a.mean()
    nearest = nulls if abs(mean) < claim.margin else (nulls[int(mean > 0)],)
    return max(one.doubt.p_value(null) for null in nearest)


def _verdict(one: Judged, p: float) -> str:
    if p >= SIGNIFICANT or one.mean is None:
        return UNSURE
    if one.claim.margin is not None:
        return HOLDS if abs(one.mean) < one.claim.margin else FAILS
    return HOLDS if (one.mean > 0) == (one.claim.says == "greater") else FAILS
