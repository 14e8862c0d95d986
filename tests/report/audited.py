"""Audits of the report's test project, by the artefact writers."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from tests.report.project import CAPTIONS_EACH, IMAGES, caption_ids
from vse_pipe.artifacts import audit
from vse_pipe.core.files import write_json
from vse_pipe.project import paths

DIGEST = "a" * 64


def write_audit(root: Path, run: str, known: bool = True, **changes: object) -> Path:
    """All captions as training pairs, every fifth mismatched; ``changes`` replace what metrics.json says."""
    rng = np.random.default_rng(0)
    count = IMAGES * CAPTIONS_EACH
    mismatched = np.arange(count) % 5 == 4
    losses = np.where(mismatched, rng.beta(8, 3, count), rng.beta(2, 9, count))
    images = np.repeat(np.arange(IMAGES), CAPTIONS_EACH)
    ids = np.array([number for image in range(IMAGES) for number in caption_ids(image)])
    absent = np.arange(count) == 4
    table = pa.table(
        {
            "caption_id": ids,
            "image_id": images,
            "loss": losses,
            "probability": losses,
            "score": (1 - losses).astype(np.float32),
            "rematch_caption_id": pa.array(np.roll(ids, 7), mask=absent),
            "rematch_caption_score": pa.array(np.full(count, 0.71, np.float32), mask=absent),
            "rematch_image_id": pa.array(np.roll(images, 13), mask=absent),
            "rematch_image_score": pa.array(np.full(count, 0.72, np.float32), mask=absent),
            "mismatched": pa.array(mismatched, mask=None if known else np.ones(count, bool)),
        }
    )
    metrics = {
        "run": run,
        "model_sha256": DIGEST,
        "gallery": ids[[4, 9, 19]].tolist(),
        "partners_from": "all",
        "pairs": count,
        "images": IMAGES,
        "threshold": 0.5,
        "flagged": 61,
        "ranked": [{"first": 100, "estimated": 0.5, "precision": 0.6 if known else None}],
        "truth": "known" if known else "unknown",
        "mixture": {"doubts": []},
    }
    if known:
        metrics |= {"mismatched": 60, "auc": 0.987, "average_precision": 0.9, "precision": None, "recall": 0.85}
    edges = np.linspace(0, 1, 11)
    counts = [np.histogram(losses[mismatched == kind], edges)[0] for kind in (False, True)]
    bins = pd.DataFrame({"low": edges[:-1], "high": edges[1:], "pairs": counts[0] + counts[1]})
    bins["matched"], bins["mismatched"] = counts if known else (np.nan, np.nan)
    bins["expected_matched"], bins["expected_mismatched"] = 20.0, 5.0
    costs = pd.DataFrame(
        {"epoch": [6, 6, 7, 7], "by": ["truth"] * 4, "low": [0.0, 0.5] * 2, "high": [0.5, 1.0] * 2, "matched": [8, 0, 9, 1], "mismatched": [0, 4, 1, 3]}
    )  # fmt: skip
    folder = root / paths.audited(run)
    folder.mkdir(parents=True, exist_ok=True)
    audit.write(folder, table, {**metrics, **changes}, bins, costs if known else None)
    write_json(root / paths.trained(run) / "config.json", {"sha256": {"model.safetensors": DIGEST}})
    return folder
