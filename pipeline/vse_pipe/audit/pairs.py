"""The pairs of a data set that an audit judges, and those that are probably mismatched."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from vse_pipe.artifacts import decisions, features, identity, pairs, texts
from vse_pipe.audit import evidence
from vse_pipe.audit.pool import DIMENSIONS, FEWEST_IMAGES, PairPool, blocks, reduced, unit
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.extract.text_methods import tokenize
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params

# Pairs of findings: those that are probably wrong, within these numbers, unless ``limit`` says
# otherwise.
_PROBABLE, _FEWEST, _MOST = 0.5, 100, 50_000
# Images that all of these are compared with at once: 100 MiB of scores.
_TILE = 512


@dataclass(frozen=True)
class JudgedPairs:
    """pool: the vectors; image_ids: of its images; caption_ids, texts: of its captions; mismatched:
    None where it is unknown."""

    pool: PairPool
    image_ids: Int[ndarray, " images"]
    caption_ids: Int[ndarray, " pairs"]
    texts: pa.Array
    mismatched: Bool[ndarray, " pairs"] | None = None

    @property
    def image_of_pairs(self) -> Int[ndarray, " pairs"]:
        """The image_id of each pair."""
        return self.image_ids[self.pool.owners]


def of_dataset(
    params: Params,
    dataset: str,
    noise: str | None,
    array: features.Features,
    of_texts: str | None,
    caption_table: pa.Table,
    split: str,
) -> JudgedPairs:
    """The pairs of readable images of a split that nobody dropped. Raises InputError for too few."""
    rows = _pair_rows(params, dataset, noise, caption_table)
    mask = pc.equal(rows["split"], split).to_numpy(zero_copy_only=False)
    mask &= array.readable(rows["image_id"].to_numpy())
    if pairs.WEIGHT in rows.column_names:
        mask &= rows[pairs.WEIGHT].to_numpy() > 0
        warn(f"audit {dataset}: the pairs of {noise} were decided on; mismatches that are left are more than it tells")
    sentences = caption_table["text"].filter(pa.array(mask)).combine_chunks()
    caption_ids, pictured = (rows[key].to_numpy()[mask] for key in ("caption_id", "image_id"))
    image_ids, owners = np.unique(pictured, return_inverse=True)
    if len(image_ids) < FEWEST_IMAGES:
        number = f"the pairs of split {split} show {len(image_ids)} images"
        raise InputError(f"audit {dataset}: {number}; an audit compares {FEWEST_IMAGES} or more")
    pictures = array.array[array.rows_of(image_ids)].astype(np.float32)
    pictures = reduced(pictures.mean(axis=1) if pictures.ndim == 3 else pictures)
    words = word_vectors(sentences.to_pylist(), params.seed)
    if of_texts is not None:
        words = unit(np.hstack([words, reduced(_vectors(dataset, of_texts, caption_ids))]))
    pool = PairPool.create(pictures, words, owners, seed=params.seed)
    truth = rows["mismatched"].filter(pa.array(mask))
    is_known = truth.null_count == 0
    return JudgedPairs(pool, image_ids, caption_ids, sentences, truth.to_numpy() if is_known else None)


def _pair_rows(params: Params, dataset: str, noise: str | None, caption_table: pa.Table) -> pa.Table:
    """The captions with their images: as prepared, or rows of pairs.parquet."""
    if noise is None:
        return caption_table.append_column("mismatched", pa.nulls(caption_table.num_rows, pa.bool_()))
    if params.pairs(noise).dataset != dataset:
        raise UsageError(f"--noise {noise}: of data set '{params.pairs(noise).dataset}', not of '{dataset}'")
    folder = paths.injected(dataset, noise)
    identity.require_current(folder)
    return pairs.read(folder)


def _vectors(dataset: str, name: str, caption_ids: ndarray) -> Float[ndarray, "captions e"]:
    folder = paths.extracted(dataset, name)
    identity.require_current(folder)
    stored = texts.read(folder)
    if stored.array is None or stored.rows is None:
        raise UsageError(f"--texts {name}: of kind {stored.kind}; name texts that are one vector a caption")
    return stored.array[stored.rows[stored.places_of(caption_ids)]].astype(np.float32)


def word_vectors(sentences: list[str], seed: int) -> Float[ndarray, "captions e"]:
    """Captions as tf-idf along the main directions, spreads evened by a square root."""
    model = TfidfVectorizer(
        tokenizer=tokenize,
        token_pattern=None,
        lowercase=False,
        sublinear_tf=True,
        max_features=20_000,
        dtype=np.float32,
    )
    counts = model.fit_transform(sentences)
    size = min(DIMENSIONS, min(counts.shape) - 1)
    if size < 1:
        raise InputError("audit: the captions have one word in all; nothing tells them apart")
    directions = TruncatedSVD(size, n_iter=2, random_state=seed)
    # Of equal captions the share of variance is 0 / 0; it is not used.
    with np.errstate(invalid="ignore", divide="ignore"):
        rows = directions.fit_transform(counts)
    return reduced(rows / np.sqrt(np.maximum(directions.singular_values_, 1e-6)))


def suspects(doubts: evidence.Doubts, judged: JudgedPairs, image_table: pa.Table, limit: int | None) -> pd.DataFrame:
    """The rows of kind ``pair``, the most doubtful first. limit: their number; None: the pairs that
    are probably wrong.

    The proposal is ``picture`` where an image suits the caption better than its own, that caption
    suits the image best of all these, and better than most pairs suit each other; else
    ``drop``."""
    pool = judged.pool
    order = np.argsort(-doubts.odds, kind="stable")
    if limit is None:
        limit = int(np.clip((doubts.probability >= _PROBABLE).sum(), _FEWEST, _MOST))
    places, image_count = order[:limit], len(pool.images)
    predict = evidence.predictors(pool)[0]
    parts = [
        np.einsum("rd,rd->r", predict(rows), pool.images[pool.owners[rows]])
        for rows in blocks(np.arange(len(pool.owners)))
    ]
    fits, predicted = np.concatenate(parts), predict(places)
    best, partner = np.full(len(places), -np.inf, np.float32), np.full(len(places), -1)
    better, suits = np.zeros(len(places), np.int64), np.full(image_count, -1)
    for rows in blocks(np.arange(image_count if len(places) else 0), _TILE):
        scores = predicted @ pool.images[rows].T
        scores[pool.owners[places, None] == rows] = -np.inf
        better += (scores > fits[places, None]).sum(axis=1)
        suits[rows] = scores.argmax(axis=0)
        partner = np.where(scores.max(axis=1) > best, rows[scores.argmax(axis=1)], partner)
        best = np.maximum(best, scores.max(axis=1))
    is_right = doubts.probability < _PROBABLE
    usual = np.median(fits[is_right] if is_right.any() else fits)
    mutual = (suits[partner] == np.arange(len(places))) & (best > usual)
    shares = (better / image_count).tolist()
    columns = {
        "kind": "pair",
        "id": judged.caption_ids[places],
        "doubt": doubts.probability[places].round(4),
        "why": [f"the caption suits {share:.0%} of the pictures better" for share in shares],
        "proposal": np.where(mutual, "picture", "drop"),
        "other": judged.image_ids[partner],
    }
    captions = {"caption_id": judged.caption_ids, "image_id": judged.image_of_pairs, "text": judged.texts}
    return decisions.described(pd.DataFrame(columns), image_table, pa.table(captions))
