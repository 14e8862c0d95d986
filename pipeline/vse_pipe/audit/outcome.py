"""Transport costs over the epochs, from what a scheme that transports has recorded."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts.audit import COSTS_COLUMNS
from vse_pipe.audit import measure
from vse_pipe.audit.measure import Measured
from vse_pipe.train.mixture import BetaMixture, auc


def table(records: list[dict]) -> pd.DataFrame:
    """A row per epoch and bin: pairs whose own cost lay in [low, high), matched and mismatched ``by`` the truth or the
    scheme's split. records: those of ``artifacts.rematching``."""
    rows = [
        (record["epoch"], record["by"], low, high, matched, mismatched)
        for record in records
        for low, high, matched, mismatched in zip(
            record["cost"]["edges"][:-1],
            record["cost"]["edges"][1:],
            record["cost"]["matched"],
            record["cost"]["mismatched"],
            strict=True,
        )
    ]
    return pd.DataFrame(rows, columns=COSTS_COLUMNS)


_FINITE = 6


def pairs_table(truth: pa.Table, found: Measured, mixture: BetaMixture) -> pa.Table:
    """The columns of ``artifacts.audit``. truth: the train rows of pairs.parquet, in the order of ``found``."""
    ids = {"caption": truth["caption_id"].to_numpy(), "image": truth["image_id"].to_numpy()}
    columns = {
        "caption_id": truth["caption_id"],
        "image_id": truth["image_id"],
        "loss": found.losses,
        "probability": 1 - mixture.posterior,
        "score": found.scores.astype(np.float32),
    }
    for side in ("caption", "image"):
        places, scores = getattr(found.partners, side), getattr(found.partners, f"{side}_score")
        absent = places < 0
        columns[f"rematch_{side}_id"] = pa.array(ids[side][places], mask=absent)
        columns[f"rematch_{side}_score"] = pa.array(scores.astype(np.float32), mask=absent)
    return pa.table({**columns, "mismatched": truth["mismatched"]})


def metrics(content: pa.Table, truth: pa.Table, mixture: BetaMixture, threshold: float) -> dict:
    """Figures for metrics.json. expected: pairs that the mixture takes for mismatched in all, a sum of probabilities; ranked:
    see ``figures.ranked``. Those against the truth are there only where it is known for every pair; None where a figure
    is not defined, as the recall where nothing is mismatched. AUC and average precision rank the pairs by loss, of which
    the probability is a function that saturates; precision and recall are those of the probability above ``threshold``.
    rematched_..._right: of the mismatched pairs, how many of the partners found truly belong to the image or caption."""
    probability, losses = content["probability"].to_numpy(), content["loss"].to_numpy()
    unknown = truth["mismatched"].null_count > 0
    mismatched = None if unknown else truth["mismatched"].to_numpy()
    said = {
        "pairs": content.num_rows,
        "images": pc.count_distinct(content["image_id"]).as_py(),
        "threshold": threshold,
        "flagged": int((probability > threshold).sum()),
        "expected": round(float(probability.sum()), 1),
        "ranked": measure.ranked(losses, probability, mismatched),
        "mixture": _described(mixture),
        "truth": "unknown" if unknown else "known",
    }
    if mismatched is None:
        return said
    precision, recall = measure.at_threshold(probability, mismatched, threshold)
    measured = {
        "auc": auc(losses, mismatched),
        "average_precision": measure.average_precision(losses, mismatched),
        "precision": precision,
        "recall": recall,
        **_rematched(content, truth, mismatched),
    }
    rounded = {name: None if value is None else round(value, _FINITE) for name, value in measured.items()}
    return {**said, "mismatched": int(mismatched.sum()), **rounded}


def doubt(metrics: dict) -> str:
    """What to say where the threshold finds less than half of the pairs that are mismatched, or, with the truth unknown, flags
    less than half as many as the mixture expects; empty elsewhere."""
    known = metrics["truth"] == "known"
    count = metrics["mismatched"] if known else round(metrics["expected"])
    found = (1.0 if metrics["recall"] is None else metrics["recall"]) * count if known else metrics["flagged"]
    if 2 * found >= count:
        return ""
    missed = f"the recall is {metrics['recall']:.2f}" if known else "most of them stay below the threshold"
    return (
        f"{metrics['flagged']} pairs are flagged and {'' if known else 'about '}{count} are mismatched: {missed}; take the "
        "first pairs by loss instead, as many as are precise enough"
    )


def histogram(content: pa.Table, mixture: BetaMixture) -> pd.DataFrame:
    """``figures.histogram`` of the audit's losses."""
    unknown = content["mismatched"].null_count
    mismatched = None if unknown else content["mismatched"].to_numpy()
    return measure.histogram(content["loss"].to_numpy(), mixture, mismatched)


def _rematched(content: pa.Table, truth: pa.Table, mismatched: np.ndarray) -> dict[str, float | None]:
    if not mismatched.any():
        return {"rematched_caption_right": None, "rematched_image_right": None}
    describes = truth["true_image_id"].take(
        pc.index_in(content["rematch_caption_id"], value_set=truth["caption_id"].combine_chunks())
    )
    right = {
        "rematched_caption_right": pc.equal(describes, content["image_id"]),
        "rematched_image_right": pc.equal(content["rematch_image_id"], truth["true_image_id"]),
    }
    return {name: float(pc.fill_null(found, False).to_numpy()[mismatched].mean()) for name, found in right.items()}


def _described(mixture: BetaMixture) -> dict:
    """alpha, beta, mean and weight of the matched component and of the other; None where there was nothing to split."""

    def numbers(values: np.ndarray) -> list[float] | None:
        return [float(value) for value in values] if np.isfinite(values).all() else None

    named = {name: numbers(getattr(mixture, name)) for name in ("alpha", "beta", "mean", "weight")}
    return {
        **named,
        "converged": bool(mixture.converged),
        "iterations": int(mixture.iterations),
        "doubts": list(mixture.doubts),
    }
