"""audit --dataset, and audit of vectors in files: what is wrong with a data set, without a trained run."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from vse_pipe.artifacts import audit as artefact
from vse_pipe.artifacts import decisions, evaluation, features, images, joins, pairs, texts
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.audit import defects, evidence
from vse_pipe.audit.declaration import features_of, text_vectors_of
from vse_pipe.audit.doubts import linear
from vse_pipe.audit.doubts.options import LinearOptions
from vse_pipe.audit.summary import figures
from vse_pipe.core import console
from vse_pipe.core.errors import InputError, UsageError, unknown
from vse_pipe.core.files import sha256, whole_folder
from vse_pipe.core.locks import claim
from vse_pipe.extract.text_methods import tokenize
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.recall import Truth, hits_at, positions, recall
from vse_pipe.ranking.rows import repetition
from vse_pipe.ranking.vectors import NO_IMAGE, Vectors

# Pairs of findings: those that are probably wrong, within these numbers, unless ``limit`` says otherwise.
PROBABLE, FEWEST, MOST = 0.5, 100, 50_000
# Points of the curve of reviewing, in shares of the pairs that are probably wrong.
_REVIEWED = (0, 0.25, 0.5, 0.75, 1, 1.5, 2)


@dataclass(frozen=True)
class Suspects:
    """The most doubtful pairs, the worst first. places: of pairs in the pool; partner: row of the image that suits the
    caption best, other than its own; mutual: of these captions, that one suits the image best too, and better than
    most pairs suit each other; share: of images that suit the caption better than its own."""

    places: Int[ndarray, " suspects"]
    partner: Int[ndarray, " suspects"]
    mutual: Bool[ndarray, " suspects"]
    share: Float[ndarray, " suspects"]


def word_vectors(
    sentences: list[str], seed: int, dimensions: int = evidence.DIMENSIONS
) -> Float[ndarray, "captions e"]:
    """Captions as tf-idf of their words along the main directions, whose spreads are evened out by a square root."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    counted = TfidfVectorizer(
        tokenizer=tokenize,
        token_pattern=None,
        lowercase=False,
        sublinear_tf=True,
        max_features=20_000,
        dtype=np.float32,
    ).fit_transform(sentences)
    size = min(dimensions, min(counted.shape) - 1)
    if size < 1:
        raise InputError("audit: the captions have one word in all; nothing tells them apart")
    model = TruncatedSVD(size, n_iter=2, random_state=seed)
    with np.errstate(invalid="ignore"):  # of equal captions the share of variance is 0 / 0; it is not used
        rows = model.fit_transform(counted)
    return evidence.reduced(rows / np.sqrt(np.maximum(model.singular_values_, 1e-6)), size)


@dataclass(frozen=True)
class JudgedPairs:
    """rows: caption_id, image_id and split of each pair; used: the distinct image_ids; images, texts: vectors of these
    and of the captions; owners: the place in ``used`` of each caption's image; verdicts: 1 for a pair that is known to be
    matched, -1 for a dropped one, which is evidence and no more, else 0; mismatched: None where it is unknown."""

    rows: pa.Table
    used: Int[ndarray, " images"]
    images: Float[ndarray, "images d"]
    texts: Float[ndarray, "pairs e"]
    owners: Int[ndarray, " pairs"]
    verdicts: Int[ndarray, " pairs"]
    mismatched: Bool[ndarray, " pairs"] | None

    def only(self, mask: Bool[ndarray, " pairs"]) -> "JudgedPairs":
        places, owners = np.unique(self.owners[mask], return_inverse=True)
        truth = None if self.mismatched is None else self.mismatched[mask]
        rows = self.rows.filter(pa.array(mask))
        vectors = self.images[places], self.texts[mask]
        return JudgedPairs(rows, self.used[places], *vectors, owners, self.verdicts[mask], truth)


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
        image_table, caption_table = joins.images_of(prepared), joins.captions_of(prepared)
        array = features.read(paths.extracted(dataset, of_features))
        features.require_images(array, prepared)
        of_texts = of_texts or text_vectors_of(params, dataset)
        both = _pairs(params, dataset, noise, array, of_texts, caption_table, {split, "val"})
        splits = both.rows["split"].to_numpy(zero_copy_only=False)
        judged = both.only(splits == split)
        validation = both.only(splits == "val") if split != "val" and "val" in splits else None
        _require_images(f"audit {dataset}: the pairs of split {split}", len(judged.used))
        of_data = defects.findings(image_table, caption_table, images.root(image_table), array)
        leaks = _leaks(params, dataset, of_data, image_table)
        verdicts = judged.verdicts
        pool = evidence.PairPool.of(judged.images, judged.texts, judged.owners, seed=params.seed, verdicts=verdicts)
        doubts = evidence.measure(pool)
        suspects = _suspects(pool, doubts, limit)
        of_pairs = _pair_findings(suspects, doubts, judged, image_table, caption_table)
        findings = pd.concat([of_pairs, of_data])
        metrics = {
            "dataset": dataset,
            "noise": noise,
            "features": array.folder.name if array.folder else None,
            "texts": of_texts,
            "data": joins.digests(prepared),
            "pairs_sha256": None if noise is None else sha256(paths.injected(dataset, noise) / pairs.NAME),
            "split": split,
            "findings": findings["kind"].value_counts().sort_index().to_dict(),
            **figures(doubts, len(np.unique(judged.owners[judged.verdicts >= 0])), judged.mismatched),
            "leaks": leaks,
        }
        review = _reviewed(pool, doubts, judged.mismatched, validation)
        with whole_folder(out, artefact.DATA_FILES) as folder:
            artefact.write_doubts(folder, _table(doubts, judged), findings, review, metrics)
            _require_undecided(out / decisions.FINDINGS)  # it may have got decisions meanwhile
    paths.record_seconds(out, time.monotonic() - started)
    console.say(f"audit {dataset}: {len(findings)} findings, {out / decisions.FINDINGS}")
    return metrics


def _require_undecided(findings: Path) -> None:
    """Raises InputError where a spreadsheet wrote decisions into an earlier audit's findings."""
    if findings.exists() and (decisions.read(findings)["decision"] != "").any():
        raise InputError(
            f"{findings}: has decisions, which a new audit would lose; move it, in a project to {decisions.NAME} beside params.yaml"
        )


def _require_images(subject: str, count: int) -> None:
    if count < evidence.FEWEST_IMAGES:
        images = "one image" if count == 1 else f"{count} images"
        raise InputError(f"{subject} show {images}; an audit compares {evidence.FEWEST_IMAGES} or more")


def _features(params: Params, dataset: str, name: str | None) -> str:
    names = features_of(params, dataset)
    if not names:
        raise UsageError(f"data set '{dataset}' has no entry under features: in params.yaml; an audit needs features")
    if name is not None and name not in names:
        raise UsageError(unknown("features of the data set", name, names))
    return name or names[0]


def _vectors(dataset: str, name: str | None, rows: pa.Table) -> Float[ndarray, "captions e"] | None:
    if name is None:
        return None
    folder = paths.extracted(dataset, name)
    texts.require_captions(folder, paths.prepared(dataset))
    stored = texts.read(folder)
    if stored.array is None or stored.rows is None:
        raise UsageError(f"--texts {name}: of kind {stored.kind}; name texts that are one vector a caption")
    return stored.array[stored.rows[stored.places_of(rows["caption_id"].to_numpy())]].astype(np.float32)


def _pair_rows(
    params: Params, dataset: str, noise: str | None, caption_table: pa.Table
) -> tuple[pa.Table, ndarray | None, ndarray]:
    """caption_id, image_id and split of the pairs; which are mismatched, None where that is unknown; and ``verdicts`` of
    ``JudgedPairs``."""
    columns = ["caption_id", "image_id", "split"]
    if noise is None:
        return caption_table.select(columns), None, np.zeros(caption_table.num_rows, np.int8)
    if params.pairs(noise).dataset != dataset:
        raise UsageError(f"--noise {noise}: of data set '{params.pairs(noise).dataset}', not of '{dataset}'")
    folder = paths.injected(dataset, noise)
    pairs.require_for(folder, paths.prepared(dataset))
    table = pairs.read(folder)
    truth = table["mismatched"].to_numpy(zero_copy_only=False)
    verdicts = np.zeros(table.num_rows, np.int8)
    if pairs.WEIGHT in table.column_names:
        verdicts[table[pairs.WEIGHT].to_numpy() == 0] = -1
        verdicts[table[pairs.KEPT].to_numpy(zero_copy_only=False)] = 1
    return table.select(columns), truth.astype(bool) if table["mismatched"].null_count == 0 else None, verdicts


def _pairs(
    params: Params,
    dataset: str,
    noise: str | None,
    array: features.Features,
    of_texts: str | None,
    caption_table: pa.Table,
    splits: set[str],
) -> JudgedPairs:
    """The pairs of ``splits`` whose image is readable."""
    rows, truth, verdicts = _pair_rows(params, dataset, noise, caption_table)
    mask = pc.is_in(rows["split"], pa.array(sorted(splits))).to_numpy(zero_copy_only=False)
    mask &= array.readable(rows["image_id"].to_numpy())
    rows, sentences = rows.filter(pa.array(mask)), caption_table["text"].filter(pa.array(mask))
    if rows.num_rows < 2:
        raise InputError(
            f"audit {dataset}: splits {', '.join(sorted(splits))} have no pairs with a readable image; --split names another"
        )
    used, owners = np.unique(rows["image_id"].to_numpy(), return_inverse=True)
    pictures = array.array[array.rows_of(used)].astype(np.float32)
    pictures = evidence.reduced(pictures.mean(axis=1) if pictures.ndim == 3 else pictures)
    words, vectors = word_vectors(sentences.to_pylist(), params.seed), _vectors(dataset, of_texts, rows)
    sides = words if vectors is None else evidence.unit(np.hstack([words, evidence.reduced(vectors)]))
    return JudgedPairs(rows, used, pictures, sides, owners, verdicts[mask], None if truth is None else truth[mask])


def _suspects(pool: evidence.PairPool, doubts: evidence.Doubts, limit: int | None) -> Suspects:
    order = np.argsort(-doubts.odds, kind="stable")
    order = order[doubts.verdicts[order] == 0]
    count = int(np.clip((doubts.probability[order] >= PROBABLE).sum(), FEWEST, MOST)) if limit is None else limit
    places = order[:count]
    predict = linear.predictions(pool, LinearOptions(), "texts")
    fits, image_count, predicted = _fits(pool, predict), len(pool.images), predict(places)
    winner, partner = np.full(len(places), -np.inf, np.float32), np.full(len(places), -1)
    better, suits = np.zeros(len(places), np.int64), np.full(image_count, -1)
    for tile in pool.blocks(np.arange(image_count)):
        vectors, best = pool.image_vectors(tile), np.full(len(tile), -np.inf, np.float32)
        for block in pool.blocks(np.arange(len(places))):
            scores = predicted[block] @ vectors.T
            owners = pool.owners[places[block]] - tile[0]
            inside = np.flatnonzero((owners >= 0) & (owners < len(tile)))
            scores[inside, owners[inside]] = -np.inf
            better[block] += (scores > fits[places[block], None]).sum(axis=1)
            _raise(winner[block[0] : block[-1] + 1], partner[block[0] : block[-1] + 1], scores, tile)
            _raise(best, suits[tile[0] : tile[-1] + 1], scores.T, block)
    is_right = doubts.probability < PROBABLE
    usual = np.median(fits[is_right] if is_right.any() else fits)
    mutual = (suits[partner] == np.arange(len(places))) & (winner > usual)
    return Suspects(places, partner, mutual, better / image_count)


def _raise(best: ndarray, places: ndarray, scores: ndarray, candidates: ndarray) -> None:
    """Put the best score of each row into ``best`` where it is higher, and its candidate into ``places``."""
    highest = scores.max(axis=1)
    rows = np.flatnonzero(highest > best)
    best[rows] = highest[rows]
    places[rows] = candidates[scores[rows].argmax(axis=1)]


def _fits(pool: evidence.PairPool, predict) -> Float[ndarray, " pairs"]:
    """The similarity of each pair in the space of images."""
    rows = pool.blocks(np.arange(len(pool.owners)))
    return np.concatenate(
        [np.einsum("rd,rd->r", predict(block), pool.image_vectors(pool.owners[block])) for block in rows]
    )


def _pair_findings(
    suspects: Suspects, doubts: evidence.Doubts, judged: JudgedPairs, image_table: pa.Table, caption_table: pa.Table
) -> pd.DataFrame:
    """The rows of kind ``pair``, the most doubtful first."""
    rows = judged.rows
    texts = caption_table["text"].take(pc.index_in(rows["caption_id"], caption_table["caption_id"].combine_chunks()))
    findings = pd.DataFrame(
        {
            "kind": "pair",
            "id": rows["caption_id"].to_numpy()[suspects.places],
            "doubt": doubts.probability[suspects.places].round(4),
            "why": [f"the caption suits {share:.0%} of the pictures better" for share in suspects.share.tolist()],
            "proposal": np.where(suspects.mutual, "picture", "drop"),
            "other": judged.used[suspects.partner],
        }
    )
    return decisions.described(findings, image_table, rows.append_column("text", texts))


def _reviewed(
    pool: evidence.PairPool, doubts: evidence.Doubts, mismatched: ndarray | None, validation: JudgedPairs | None
) -> pd.DataFrame:
    """What reviewing the first pairs by doubt finds: ``expected`` by the probabilities, ``found`` in truth, ``left``
    mismatches after it, and the ``rsum`` on val of linear maps that are learnt from the pairs that then stay.

    Where the truth is unknown, a reviewer is assumed to drop each pair by its probability."""
    order = np.argsort(-doubts.odds, kind="stable")
    order = order[doubts.verdicts[order] == 0]
    expected = doubts.probability[order].cumsum()
    total = max(round(doubts.number()[0]), 1)
    records = []
    for count in sorted({min(round(share * total), len(order)) for share in _REVIEWED}):
        reviewed = order[:count]
        trust = (doubts.verdicts >= 0).astype(np.float32)
        trust[reviewed] = 1 - (doubts.probability if mismatched is None else mismatched)[reviewed]
        hits = None if mismatched is None else int(mismatched[reviewed].sum())
        sure = float(expected[count - 1]) if count else 0.0
        left = (
            float(doubts.probability[order].sum()) - sure
            if mismatched is None
            else float(mismatched[order].sum()) - (hits or 0)
        )
        records.append((count, round(sure, 1), hits, round(left, 1), _linear_rsum(pool, trust, validation)))
    table = pd.DataFrame(records, columns=artefact.REVIEW_COLUMNS)
    return table.astype({"found": "Int64"})


def _linear_rsum(pool: evidence.PairPool, trust: ndarray, validation: JudgedPairs | None) -> float | None:
    """rsum on val of a ridge map from captions to images, learnt from ``pool``; None without val."""
    if validation is None:
        return None
    queries = evidence.unit(validation.texts @ linear.whole_map(pool, trust, LinearOptions()))
    scores, items = queries @ validation.images.T, np.arange(len(validation.used))
    ways = (scores, Truth.by_image(validation.owners, items)), (scores.T, Truth.by_image(items, validation.owners))
    return round(sum(recall(hits_at(_ranks(block, truth), k)) for block, truth in ways for k in (1, 5, 10)), 4)


def _ranks(scores: ndarray, truth: Truth) -> ndarray:
    strip = torch.from_numpy(np.ascontiguousarray(scores))
    return positions(strip, slice(0, len(scores)), truth, "pessimistic")[truth.starts[:-1]]


def _table(doubts: evidence.Doubts, judged: JudgedPairs) -> pa.Table:
    """The rows of doubts.parquet."""
    stays, is_known = pa.array(judged.verdicts >= 0), judged.mismatched is not None
    columns = {
        "caption_id": judged.rows["caption_id"],
        "image_id": judged.rows["image_id"],
        "probability": doubts.probability,
        "odds": doubts.odds,
        "fit": doubts.columns.iloc[:, 0].to_numpy(np.float64),
        "mismatched": pa.array(judged.mismatched) if is_known else pa.nulls(judged.rows.num_rows, pa.bool_()),
    }
    return pa.table(columns).filter(stays)


def _leaks(params: Params, dataset: str, findings: pd.DataFrame, image_table: pa.Table) -> dict:
    """``pictures``: of test that stand in another split too; ``recall`` with and without them, of each evaluated run.

    Raises IntegrityError where a run was evaluated on other pictures or captions, or is another model now."""
    leaked = defects.leaked(findings, image_table)
    effects = {}
    for run in params.evaluated():
        folder = paths.evaluated(run, "nns")
        if params.dataset(run) == dataset and len(leaked) and (folder / evaluation.RANKS).exists():
            evaluation.require_current(params, run, ["nns"])
            effects[run] = defects.leak_effect(folder, leaked)
    return {"pictures": len(leaked), "recall": effects}


def audit_vectors(vectors: Vectors, limit: int | None = None, out: Path | None = None, seed: int = 0) -> dict:
    """What ``audit_data`` finds by the vectors of any model that gives images and captions one space, such as CLIP.

    out: folder for doubts.parquet, findings.csv and metrics.json; None: nothing is written. Ids that are text are
    numbered in the order of the files, and ``file`` and ``caption`` of the findings have them. Raises UsageError and
    InputError as the readers of the files."""
    if out is not None:
        _require_undecided(out / decisions.FINDINGS)
    pictures, sentences, where = vectors.images, vectors.captions, vectors.where
    assert isinstance(pictures, Side)
    assert isinstance(sentences, Side)
    if (sentences.image_ids == NO_IMAGE).all():
        raise InputError(f"{where[1]}: nothing says which caption belongs to which image; give --caption-images")
    used, owners = np.unique(sentences.image_ids, return_inverse=True)
    places = np.flatnonzero(np.isin(pictures.ids, used))
    places = places[np.argsort(pictures.ids[places])]
    if len(places) < len(used):
        absent = np.setdiff1d(used, pictures.ids)
        raise InputError(
            f"{where[1]}: {len(absent)} images of captions are not in {where[0]}: {vectors.label('image_id', absent)}"
        )
    _require_images(f"{where[1]}: the captions", len(used))
    rows = pa.table({"caption_id": sentences.ids, "image_id": sentences.image_ids})
    if not np.array_equal(places, np.arange(len(pictures.ids))):
        pictures = replace(pictures, ids=used, vectors=pictures.vectors[places])
    judged = JudgedPairs(rows, used, pictures.vectors, sentences.vectors, owners, np.zeros(len(owners), np.int8), None)
    if message := repetition(where[0], torch.from_numpy(judged.images), owners):
        console.warn(message)
    pool = evidence.PairPool.of(judged.images, judged.texts, owners, joint=True, seed=seed)
    doubts = evidence.measure(pool)
    names, caption_file = vectors.names, vectors.files[1]
    names_of_images, sentences_of_captions = (
        pa.array(ids).cast(pa.string()) if names is None or (texts := names.texts(key, ids)) is None else texts
        for key, ids in (("image_id", used), ("caption_id", sentences.ids))
    )
    image_table = pa.table({"image_id": used, "file": names_of_images, "sha256": pa.array([""] * len(used))})
    caption_table = rows.append_column("text", sentences_of_captions)
    of_pairs = _pair_findings(_suspects(pool, doubts, limit), doubts, judged, image_table, caption_table)
    review = _reviewed(pool, doubts, None, None)
    judged = replace(judged, texts=judged.texts[:0].copy())
    del (
        pool,
        sentences,
        vectors,
    )  # with the captions' vectors: the search for copies among pictures needs as much memory
    findings = pd.concat([of_pairs, defects.of_vectors(judged.images, used)])
    metrics = {
        **{"dataset": caption_file.name, "noise": None, "data": {}, "leaks": {"pictures": 0, "recall": {}}},
        "findings": findings["kind"].value_counts().sort_index().to_dict(),
        **figures(doubts, len(used), None),
    }
    if out is not None:
        with whole_folder(out, artefact.DATA_FILES) as folder:
            artefact.write_doubts(folder, _table(doubts, judged), findings, review, metrics)
            _require_undecided(out / decisions.FINDINGS)
        console.say(f"audit: {len(findings)} findings, {out / decisions.FINDINGS}")
    return metrics
