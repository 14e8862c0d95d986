"""audit --dataset: what is wrong, without a trained run."""

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from vse_pipe.artifacts import audit as artefact
from vse_pipe.artifacts import captions, decisions, features, identity, images
from vse_pipe.audit import defects, evidence
from vse_pipe.audit.declaration import features_of, text_vectors_of
from vse_pipe.audit.figures import figures
from vse_pipe.audit.pairs import JudgedPairs, of_dataset, suspects
from vse_pipe.core.console import say
from vse_pipe.core.errors import InputError, UsageError, unknown
from vse_pipe.core.files import whole_folder
from vse_pipe.core.locks import claim
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params


def audit_data(
    params: Params,
    dataset: str,
    noise: str | None = None,
    of_features: str | None = None,
    of_texts: str | None = None,
    split: str = "train",
    limit: int | None = None,
) -> dict:
    """Write data/audit/datasets/<dataset>/<noise or prepared>/ and return what its metrics.json
    holds.

    of_features: by default the first of the data set in params.yaml; of_texts: vectors of captions
    beside the words, by default the first texts of the data set that are vectors; limit: number of
    doubtful pairs among the findings. Raises InputError where nothing can be compared."""
    started = time.monotonic()
    prepared, out = paths.prepared(dataset), paths.audited_pairs(dataset, noise)
    with claim(out):
        _require_undecided(out / decisions.FINDINGS)
        of_features = _features(params, dataset, of_features)
        of_texts = of_texts or text_vectors_of(params, dataset)
        read = identity.parts_of(prepared, *images.SPLITS)
        for name in filter(None, (of_features, of_texts)):
            read |= identity.parts_of(paths.extracted(dataset, name))
        read |= identity.parts_of(paths.injected(dataset, noise)) if noise else {}
        image_table, caption_table = images.read(prepared), captions.read(prepared)
        array = features.read(paths.extracted(dataset, of_features))
        identity.require_current(paths.extracted(dataset, of_features))
        judged = of_dataset(params, dataset, noise, array, of_texts, caption_table, split)
        of_data = defects.findings(image_table, caption_table, images.root(image_table))
        about = {
            "dataset": dataset,
            "noise": noise,
            "features": of_features,
            "texts": of_texts,
            "split": split,
        }
        table, rows, metrics = _audited(judged, image_table, of_data, limit)
        with whole_folder(out) as folder:
            identity.write(folder, read, {})
            artefact.write_doubts(folder, table, rows, about | metrics)
    paths.record_seconds(out, time.monotonic() - started)
    say(f"audit {dataset}: {len(rows)} findings, {out / decisions.FINDINGS}")
    return about | metrics


def _audited(
    judged: JudgedPairs, image_table: pa.Table, of_data: pd.DataFrame, limit: int | None
) -> tuple[pa.Table, pd.DataFrame, dict]:
    """The rows of doubts.parquet and of findings.csv, and the figures of metrics.json. of_data:
    findings that are no pairs."""
    pool, doubts = judged.pool, evidence.measure(judged.pool)
    rows = pd.concat([suspects(doubts, judged, image_table, limit), of_data])
    metrics = {
        **figures(doubts, len(pool.images), judged.mismatched),
        "findings": rows["kind"].value_counts().sort_index().to_dict(),
    }
    truth = judged.mismatched
    columns = {
        "caption_id": judged.caption_ids,
        "image_id": judged.image_of_pairs,
        "probability": doubts.probability,
        "odds": doubts.odds,
        "fit": doubts.columns.iloc[:, 0].to_numpy(np.float64),
        "mismatched": pa.nulls(len(pool.owners), pa.bool_()) if truth is None else pa.array(truth),
    }
    return pa.table(columns), rows, metrics


def _require_undecided(findings: Path) -> None:
    """Raises InputError where a spreadsheet wrote decisions into an earlier audit's findings."""
    if findings.exists() and (decisions.read(findings)["decision"] != "").any():
        raise InputError(
            f"{findings}: has decisions, which a new audit would lose; "
            f"move it, in a project to {decisions.NAME} beside params.yaml"
        )


def _features(params: Params, dataset: str, name: str | None) -> str:
    names = features_of(params, dataset)
    if not names:
        raise UsageError(f"data set '{dataset}' has no entry under features: in params.yaml; an audit needs features")
    if name is not None and name not in names:
        raise UsageError(unknown("features of the data set", name, names))
    return name or names[0]
