"""audit --dataset, and audit of vectors in files: what is wrong with a data set, without a trained run."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import audit as artefact
from vse_pipe.artifacts import captions, decisions, evaluation, features, identity, images
from vse_pipe.audit import defects, evidence, suspects
from vse_pipe.audit.declaration import features_of, text_vectors_of
from vse_pipe.audit.figures import figures
from vse_pipe.audit.pairs import JudgedPairs, of_dataset, of_vectors
from vse_pipe.core import console
from vse_pipe.core.errors import InputError, UsageError, unknown
from vse_pipe.core.files import whole_folder
from vse_pipe.core.locks import claim
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.vectors import Vectors


def audit_data(
    params: Params,
    dataset: str,
    noise: str | None = None,
    of_features: str | None = None,
    of_texts: str | None = None,
    split: str = "train",
    limit: int | None = None,
) -> dict:
    """Write data/audit/datasets/<dataset>/<noise or prepared>/ and return what its metrics.json holds.

    of_features: by default the first of the data set in params.yaml; of_texts: vectors of captions beside the words, by
    default the first texts of the data set that are vectors; limit: number of doubtful pairs among the findings. Raises
    InputError where nothing can be compared."""
    started = time.monotonic()
    prepared, out = paths.prepared(dataset), paths.audited_pairs(dataset, noise)
    with claim(out):
        _require_undecided(out / decisions.FINDINGS)
        of_features = _features(params, dataset, of_features)
        read = identity.parts_of(prepared, *images.SPLITS)
        read |= identity.parts_of(paths.injected(dataset, noise)) if noise else {}
        image_table, caption_table = images.read(prepared), captions.read(prepared)
        array = features.read(paths.extracted(dataset, of_features))
        identity.require_current(paths.extracted(dataset, of_features))
        of_texts = of_texts or text_vectors_of(params, dataset)
        both = of_dataset(params, dataset, noise, array, of_texts, caption_table, {split, "val"})
        judged = both.split(split)
        judged.require_images(f"audit {dataset}: the pairs of split {split}")
        validation = both.split("val") if split != "val" else None
        texts = caption_table["text"].take(pc.index_in(pa.array(judged.captions.ids), caption_table["caption_id"]))
        of_data = defects.findings(image_table, caption_table, images.root(image_table), array)
        audit = _audited(judged, validation, image_table, texts, params.seed, limit)
        metrics = {
            "dataset": dataset,
            "noise": noise,
            "features": array.folder.name if array.folder else None,
            "texts": of_texts,
            "split": split,
            "leaks": _leaks(params, dataset, of_data, image_table),
        }
        metrics = audit.write(of_data, metrics, out, read)
    paths.record_seconds(out, time.monotonic() - started)
    return metrics


def audit_vectors(vectors: Vectors, limit: int | None = None, out: Path | None = None, seed: int = 0) -> dict:
    """What ``audit_data`` finds by the vectors of any model that gives images and captions one space, such as CLIP.

    out: folder for doubts.parquet, findings.csv, review.csv and metrics.json; None: nothing is written. Ids that are text
    are numbered in the order of the files, and ``file`` and ``caption`` of the findings have them. Raises InputError where
    the vectors do not fit."""
    if out is not None:
        _require_undecided(out / decisions.FINDINGS)
    judged = of_vectors(vectors)
    files = _texts(vectors, "image_id", judged.images.ids)
    sentences = _texts(vectors, "caption_id", judged.captions.ids)
    image_table = pa.table({"image_id": judged.images.ids, "file": files, "sha256": [""] * len(files)})
    audit = _audited(judged, None, image_table, sentences, seed, limit, joint=True)
    of_data = defects.of_vectors(judged.images.vectors, judged.images.ids)
    metrics = {"dataset": vectors.files[1].name, "noise": None, "data": {}, "leaks": {"pictures": 0, "recall": {}}}
    return audit.write(of_data, metrics, out)


def _texts(vectors: Vectors, key: str, ids: np.ndarray) -> pa.Array:
    """Ids as text: those of the files, or the numbers."""
    texts = None if vectors.names is None else vectors.names.texts(key, ids)
    return pa.array(ids).cast(pa.string()) if texts is None else texts


@dataclass(frozen=True)
class _Audit:
    """doubts: the rows of doubts.parquet; findings: of kind ``pair``; review: of review.csv; figures: of metrics.json."""

    doubts: pa.Table
    findings: pd.DataFrame
    review: pd.DataFrame
    figures: dict

    def write(
        self, of_data: pd.DataFrame, metrics: dict, out: Path | None, read: identity.Inputs | None = None
    ) -> dict:
        """Returns ``metrics`` with the figures. of_data: findings of other kinds; out: None writes nothing; read: what a
        data set was made from."""
        rows = pd.concat([self.findings, of_data])
        metrics |= {"findings": rows["kind"].value_counts().sort_index().to_dict(), **self.figures}
        if out is not None:
            with whole_folder(out, artefact.DATA_FILES) as folder:
                artefact.write_doubts(folder, self.doubts, rows, self.review, metrics)
                if read is not None:
                    identity.write(folder, read, {})
            console.say(f"audit {metrics['dataset']}: {len(rows)} findings, {out / decisions.FINDINGS}")
        return metrics


def _audited(
    judged: JudgedPairs,
    validation: JudgedPairs | None,
    image_table: pa.Table,
    texts: pa.Array,
    seed: int,
    limit: int | None,
    joint: bool = False,
) -> _Audit:
    """texts: of the captions of ``judged``; joint: images and captions lie in one space."""
    if validation is not None and not len(validation.images.ids):
        validation = None
    vectors = judged.images.vectors, judged.captions.vectors
    pool = evidence.PairPool.of(*vectors, judged.owners, joint=joint, seed=seed, verdicts=judged.verdicts)
    doubts = evidence.measure(pool)
    first = suspects.suspects(pool, doubts, limit)
    image_count = len(np.unique(judged.owners[judged.verdicts >= 0]))
    return _Audit(
        _table(doubts, judged),
        suspects.findings(first, doubts, judged, image_table, texts),
        suspects.reviewed(pool, doubts, judged.mismatched, validation),
        {
            **figures(doubts, image_count, judged.mismatched),
            "together": round(doubts.together, 4),
            "weights": doubts.weights,
        },
    )


def _table(doubts: evidence.Doubts, judged: JudgedPairs) -> pa.Table:
    """The rows of doubts.parquet."""
    truth = judged.mismatched
    columns = {
        "caption_id": judged.captions.ids,
        "image_id": judged.captions.image_ids,
        "probability": doubts.probability,
        "odds": doubts.odds,
        "fit": doubts.columns.iloc[:, 0].to_numpy(np.float64),
        "mismatched": pa.nulls(len(judged.owners), pa.bool_()) if truth is None else pa.array(truth),
    }
    return pa.table(columns).filter(pa.array(judged.verdicts >= 0))


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


def _leaks(params: Params, dataset: str, findings: pd.DataFrame, image_table: pa.Table) -> dict:
    """``pictures``: of test that stand in another split too; ``recall`` with and without them, of each evaluated run.

    Raises IntegrityError where a run was evaluated on other pictures or captions, or is another model now."""
    leaked = defects.leaked(findings, image_table)
    effects = {}
    for run in params.evaluated():
        folder = paths.evaluated(run, "nns")
        if params.dataset(run) == dataset and len(leaked) and (folder / evaluation.RANKS).exists():
            identity.require_current(paths.evaluations(run))
            effects[run] = defects.leak_effect(folder, leaked)
    return {"pictures": len(leaked), "recall": effects}
