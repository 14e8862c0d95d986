"""How well a split agrees with what is known of the pairs."""

from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.stats import rankdata


def auc(score: Float[ndarray, " pairs"], wanted: Bool[ndarray, " pairs"]) -> float | None:
    """The chance that a wanted pair scores higher than another, ties counting half; None where one kind is missing."""
    positives = int(wanted.sum())
    negatives = len(wanted) - positives
    if not positives or not negatives:
        return None
    above = rankdata(score)[wanted].sum() - positives * (positives + 1) / 2
    return float(above / (positives * negatives))


def against_truth(
    posterior: Float[ndarray, " pairs"], clean: Bool[ndarray, " pairs"], mismatched: Bool[ndarray, " pairs"]
) -> dict[str, float | None]:
    """Share of mismatched pairs, AUC of ``1 - posterior`` for them, precision and recall of ``~clean``.

    Precision is None where no pair is taken for mismatched, AUC and recall where none is.
    """
    taken, right = int((~clean).sum()), int((~clean & mismatched).sum())
    known = int(mismatched.sum())
    return {
        "mismatched": float(mismatched.mean()),
        "auc": auc(-posterior, mismatched),
        "precision": right / taken if taken else None,
        "recall": right / known if known else None,
    }


def told(trust: Float[ndarray, " pairs"], above: float, mismatched: Bool[ndarray, " pairs"] | None) -> str:
    """How many pairs are trusted more than ``above``, and how well trust tells the mismatched ones, where they are known."""
    area = None if mismatched is None else auc(-trust, mismatched)
    truth = "" if area is None else f", AUC of the mismatched {area:.3f}"
    return f"{int((trust > above).sum())} of {len(trust)} pairs are taken for matched{truth}"
