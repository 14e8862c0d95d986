"""A judged claim in words and numbers, the same on the terminal, in Markdown and on the page."""

from collections import Counter

import numpy as np

from vse_pipe.report.claims.verdict import FAILS, HOLDS, NONE, UNSURE, Judged
from vse_pipe.report.engine.formatting import spread

HEADER = ("claim", "source", "figure", "left", "right", "left - right", "95% interval", "p (Holm)", "verdict")
_WORDS = {"greater": "left greater", "less": "left less"}


def cells(one: Judged) -> list[str]:
    """In the order of HEADER."""
    claim = one.claim
    says = _WORDS.get(claim.says, f"within {claim.margin or 0:g}")
    head = [claim.text, claim.source, f"{' '.join(claim.address)}, {says}"]
    if one.difference is None or one.mean is None:
        return [*head, one.left, one.right, "-", "-", "-", said(one)]
    sides = [
        f"{name} {_mean(values)}" for name, values in ((one.left, one.difference.b), (one.right, one.difference.a))
    ]
    if one.interval is None:
        return [*head, *sides, f"{one.mean:+z.2f}", "-", "-", said(one)]
    low, high = one.interval
    return [*head, *sides, f"{one.mean:+z.2f}", f"{low:+z.2f} to {high:+z.2f}", f"{one.p:.3f}", said(one)]


def said(one: Judged) -> str:
    return f"{one.verdict}: {one.why}" if one.why else one.verdict


def counted(found: list[Judged]) -> str:
    """``12 hold, 3 do not hold, ...``"""
    counts = Counter(one.verdict for one in found)
    words = {HOLDS: "hold", FAILS: "do not hold", UNSURE: "cannot be told from these data", NONE: "without a verdict"}
    return ", ".join(f"{counts[verdict]} {word}" for verdict, word in words.items())


def caption(resamples: int, seed: int) -> str:
    return (
        f"mean ± standard deviation over seeds; {resamples} draws of images, seed {seed}; "
        "p corrected for all claims with a verdict"
    )


def _mean(values: np.ndarray) -> str:
    return spread(float(values.mean()), float(np.std(values, ddof=1)) if len(values) > 1 else None)
