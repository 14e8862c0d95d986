"""The probability that a hit is a match: a curve fitted on the run's val queries, computed once, then kept in data/search/."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from jaxtyping import Float

from vse_pipe.core.console import say, warn
from vse_pipe.core.errors import InputError, MissingResource, UsageError
from vse_pipe.project import code, paths
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.metrics.calibration import ISOTONIC, Curve
from vse_pipe.tools.search import stored
from vse_pipe.tools.search.correction import PLAIN, Correction, Rescoring, correction_of, files_of
from vse_pipe.tools.search.network import Network
from vse_pipe.tools.search.together import Together

_VAL, _MAKES = "val", "vse_pipe.ranking.engine.calibration"
_KNOTS = "knots"
# A run, a split
Opens = Callable[[str, str], Network | Together]
# Criteria whose scores grow or fall with the number of the bank's queries.
_SUMS = ("is", "dual_is")


@dataclass(frozen=True)
class Calibration:
    """about: method, candidates, whose queries (run, split), on how many queries and pairs of val it was fitted, their base_rate, when and how long it took,
    and whether it was kept from an earlier call."""

    curve: Curve
    about: dict

    def __call__(self, scores: Float[np.ndarray, " items"]) -> Float[np.ndarray, " items"]:
        """Of corrected scores."""
        return self.curve(scores)


def calibration_of(
    params: Params,
    run: str,
    criterion: Rescoring,
    network: Network | Together,
    searched: Correction,
    direction: str,
    opens: Opens,
) -> Calibration:
    """Of one direction, by ``evaluate.calibrate``, isotonic where that is none, on val of what is searched; of a transfer to a data
    set without one, on that of its run. searched: of what is searched. Warns where it and that of val are sums over other numbers
    of queries. Raises InputError where neither has embedded captions of val, UsageError where val would correct itself, and as
    ``correction_of`` there."""
    if params.evaluate.bank == _VAL and criterion.name != PLAIN:
        raise UsageError(
            f"a probability is learnt on val, and evaluate.bank=val would correct those queries by themselves: no probability under "
            f"{criterion.name}, or -S evaluate.bank=test or train"
        )
    method = ISOTONIC if params.evaluate.calibrate == "none" else params.evaluate.calibrate
    learnt, val = _val(params, run, network, opens)
    correction = correction_of(params, learnt, criterion, val, direction)
    ours, theirs = (one.about.get("queries") for one in (searched, correction))
    if criterion.name in _SUMS and ours != theirs:
        warn(
            f"{criterion.name} sums over the queries of its bank, {ours:,} for what is searched and {theirs:,} where probabilities are "
            "learnt, and scores with them: probabilities are off; evaluate.bank=train has one bank for both"
        )
    files = files_of(val)
    identity = {
        "method": method,
        "criterion": criterion.name,
        "parameters": criterion.params.model_dump(mode="json"),
        "correction": {key: value for key, value in correction.about.items() if key != "kept"},
        "weights": network.weights if isinstance(network, Together) else None,
        "code": code.digest(code.closure([_MAKES])),
    }
    path = paths.searched(run) / f"{criterion.name}.{method}.{direction}.safetensors"
    found = stored.read(path, identity, files)
    kept = found is not None
    if found is None:
        found = _computed(params, method, learnt, val, correction, direction)
        stored.write(path, found, identity, files)
    return Calibration(Curve(method, np.array(found.tensors[_KNOTS])), {**found.about, "kept": kept})


def _val(params: Params, run: str, network: Network | Together, opens: Opens) -> tuple[str, Network | Together]:
    """Queries with known answers, and the run or transfer that embedded them."""
    own = params.trained(run)
    try:
        return run, network.of(_VAL)
    except InputError as error:
        if run == own:
            raise InputError(f"a probability of a match is learnt from val: {error}") from error
    try:
        return own, opens(own, _VAL)
    except (InputError, MissingResource) as error:
        raise type(error)(
            f"a probability of a match is learnt from val, of '{own}' where '{run}' has none: {error}"
        ) from error


def _computed(
    params: Params, method: str, run: str, val: Network | Together, correction: Correction, direction: str
) -> stored.Stored:
    import torch

    from vse_pipe.ranking.engine.calibration import CANDIDATES, candidates
    from vse_pipe.ranking.engine.scores import Scores
    from vse_pipe.ranking.metrics.calibration import fitted
    from vse_pipe.tools.search.computed import split_of

    started, split = time.monotonic(), split_of(val)
    scores = Scores.of(split.images, split.captions, val.similarity(), memory=params.evaluate.memory)
    scores = scores.transposed() if direction == "text_to_image" else scores
    if correction.bias is not None:
        bias, scale = torch.from_numpy(np.array(correction.bias)), correction.scale
        scores = scores.mapped(lambda strip, rows: scale * strip - bias.to(strip))
    known = candidates(scores, split.truth(direction))
    curve = fitted(method, known.scores, known.matched)
    about = {
        "method": method,
        "run": run,
        "split": _VAL,
        "candidates": CANDIDATES,
        **known.about,
        "computed": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - started, 3),
    }
    say(f"probability of a match: {method} on {len(known.scores):,} pairs of {_VAL}, fitted once")
    return stored.Stored({_KNOTS: np.ascontiguousarray(curve.knots)}, about)
