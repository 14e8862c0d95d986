"""The losses of training pairs under a trained run, and better partners for them.

The one doubt of the audit of a run. It has no simulated mismatches, because a run knows the pairs that it learnt; a
mixture of two beta distributions splits the losses instead (L2RM, Han et al., CVPR 2024)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from vse_pipe.artifacts.audit import COSTS_COLUMNS
from vse_pipe.audit.evidence import Doubts
from vse_pipe.core import workers
from vse_pipe.train.batch import Matches, Scored, sample_losses
from vse_pipe.train.mixture import BetaMixture, fit_beta

BINS = 50
# Score cells that ``search`` holds at a time: 64 MiB of float32.
_CELLS = 1 << 24
# Copies of a block that exist at the same time.
_COPIES = 3
# Below this, sums of float32 differ only by the order of their terms, and the mixture would split equal losses by it.
_DECIMALS = 6
_DIGITS = 6

Score = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Partners:
    """For each pair the best caption for its image and the best image for its caption, as positions of the pairs that
    have them, with the similarities. -1 and -inf if every candidate shows the same image."""

    caption: Int[ndarray, " pairs"]
    caption_score: Float[ndarray, " pairs"]
    image: Int[ndarray, " pairs"]
    image_score: Float[ndarray, " pairs"]

    @classmethod
    def none(cls, pairs: int) -> "Partners":
        places, scores = np.full(pairs, -1), np.full(pairs, -np.inf, np.float32)
        return cls(places, scores, places.copy(), scores.copy())


@dataclass(frozen=True)
class Measured:
    """losses: as in ``measure_pairs``; scores: similarity of each image and its caption."""

    losses: Float[ndarray, " pairs"]
    scores: Float[ndarray, " pairs"]
    partners: Partners


def batches(pairs: int, size: int, rng: np.random.Generator) -> list[ndarray]:
    """All pairs in random order, in batches of nearly equal size, at most ``size`` and never 1 (for pairs, size >=
    3)."""
    return np.array_split(rng.permutation(pairs), max(1, -(-pairs // size)))


def measure_pairs(
    encode: Callable[[ndarray], tuple],
    score: Score,
    owners: Int[ndarray, " pairs"],
    work: Sequence[ndarray],
    matches: Callable[[ndarray], Matches | None] = lambda pairs: None,
    progress: Callable[[Iterable], Iterable] = iter,
) -> Measured:
    """Loss, similarity and partners of every pair within its batch.

    encode: returns the arguments of ``score`` for pairs; owners: the image of each pair; work: batches that hold each
    pair once; matches: further matches in a batch, as ``Pairs.matches``; progress: wraps the results of the batches.

    The loss is that of L2RM (Han et al., CVPR 2024, Eq. 4, as in its code) with two changes: captions of the same image
    are no negatives of each other, and the mean is over negatives only. Otherwise the loss of a pair would tell how
    many captions of its image the batch has, which matters with few images. The loss depends on the batch."""

    def measure_batch(pairs: ndarray) -> tuple[ndarray, ...]:
        scores = score(*encode(pairs))
        owner = torch.from_numpy(owners[pairs])
        batch = Scored.from_scores(scores, owner, mask_same_image=True, matches=matches(pairs))
        mean = sample_losses(batch).double() * len(pairs) / (~batch.same).sum(dim=1).clamp_min(1)
        candidates = scores.float().masked_fill(batch.same, -torch.inf)
        return (
            mean.cpu().numpy().round(_DECIMALS),
            scores.diagonal().float().cpu().numpy(),
            *_best(candidates, pairs),
            *_best(candidates.T, pairs),
        )

    measured = Measured(np.empty(len(owners)), np.empty(len(owners), np.float32), Partners.none(len(owners)))
    columns = measured.losses, measured.scores, *vars(measured.partners).values()
    for pairs, values in zip(work, progress(workers.run_parts(partial(map, measure_batch), work)), strict=True):
        for column, part in zip(columns, values, strict=True):
            column[pairs] = part
    return measured


def _best(scores: Tensor, pairs: ndarray) -> tuple[ndarray, ndarray]:
    """For each row the entry of ``pairs`` with the largest score, -1 if all scores are -inf, and that score."""
    best, column = (side.cpu().numpy() for side in scores.max(dim=1))
    return np.where(np.isneginf(best), -1, pairs[column]), best


def search(
    images: Float[Tensor, "images dim"],
    texts: Float[Tensor, "pairs dim"],
    image_rows: Int[ndarray, " pairs"],
    score: Score,
    cells: int = _CELLS,
    progress: Callable[[Iterable, int], Iterable] = lambda blocks, total: blocks,
    matches: tuple[Int[ndarray, " cells"], Int[ndarray, " cells"]] | None = None,
) -> Partners:
    """Partners among all training pairs, for models that compare vectors.

    images: each image once; image_rows: the row of ``images`` for each pair; cells: maximum number of scores at a time,
    but at least a row; progress: wraps the results of the blocks and gets their number; matches: parallel rows of
    ``images`` and ``texts`` that are known to match and so are no partners, by default those of the pairs. Among equal
    scores the first caption and the first image win; ``image`` is a pair with the image."""
    matched_images, matched_texts = (
        torch.from_numpy(side).to(texts.device) for side in matches or (image_rows, np.arange(len(image_rows)))
    )
    caption, caption_score = np.full(len(images), -1), np.full(len(images), -np.inf, np.float32)
    best = torch.full((len(texts),), -torch.inf, device=texts.device)
    best_rows = torch.full((len(texts),), -1, device=texts.device)
    height = max(1, cells // max(1, len(texts)))
    blocks = [slice(start, min(start + height, len(images))) for start in range(0, len(images), height)]

    def search_block(rows: slice) -> tuple[ndarray, ndarray, Tensor, Tensor]:
        scores = score(images[rows], texts).float()
        inside = ((matched_images >= rows.start) & (matched_images < rows.stop)).nonzero()[:, 0]
        scores[matched_images[inside] - rows.start, matched_texts[inside]] = -torch.inf
        return *_best(scores, np.arange(len(texts))), *scores.max(dim=0)

    results = workers.run_parts(partial(map, search_block), blocks, _COPIES * 4 * height * len(texts))
    for rows, (*best_captions, highest, row) in zip(blocks, progress(results, len(blocks)), strict=True):
        caption[rows], caption_score[rows] = best_captions
        better = highest > best
        best = torch.where(better, highest, best)
        best_rows = torch.where(better, row + rows.start, best_rows)
    first = np.full(len(images), -1)
    first[image_rows[::-1]] = np.arange(len(image_rows))[::-1]
    place = best_rows.cpu().numpy()
    image = np.where(place < 0, -1, first[place])
    return Partners(caption[image_rows], caption_score[image_rows], image, best.cpu().numpy())


def measure_vectors(
    images: Float[Tensor, "images dim"],
    texts: Float[Tensor, "pairs dim"],
    image_rows: Int[ndarray, " pairs"],
    score: Score,
    work: Sequence[ndarray],
    batch_matches: Callable[[ndarray], Matches | None] = lambda pairs: None,
    matches: tuple[Int[ndarray, " cells"], Int[ndarray, " cells"]] | None = None,
    progress: Callable[[Iterable, int, str], Iterable] = lambda results, total, title: results,
) -> Measured:
    """Losses within batches by ``measure_pairs``, partners among all pairs by ``search``: for models that compare vectors.

    images: each image once; image_rows: the row of ``images`` for each pair; work, batch_matches: as there ``work`` and
    ``matches``; matches: as for ``search``; progress: wraps results and gets their number and what they are."""

    def encode(pairs: ndarray) -> tuple[Tensor, Tensor]:
        return images[image_rows[pairs]], texts[pairs]

    measured = measure_pairs(
        encode, score, image_rows, work, batch_matches, lambda results: progress(results, len(work), "losses")
    )
    partners = search(
        images,
        texts,
        image_rows,
        score,
        progress=lambda results, total: progress(results, total, "partners"),
        matches=matches,
    )
    return Measured(measured.losses, measured.scores, partners)


def loss_histogram(
    losses: Float[ndarray, " pairs"], mixture: BetaMixture, mismatched: Bool[ndarray, " pairs"] | None
) -> pd.DataFrame:
    """BINS equal bins from the smallest loss to the largest, or one bin for equal losses.

    Columns: low, high, pairs; matched and mismatched, empty if the truth is unknown; expected_matched and
    expected_mismatched, the pairs that each component of the mixture puts into the bin by its density in the middle,
    empty if the mixture split nothing. The mixture is one of losses that are scaled to 0..1."""
    low, high = float(losses.min()), float(losses.max())
    bins = BINS if high > low else 1
    edges = np.linspace(low, high, bins + 1)
    edges[-1] = high
    # The same bins for all counts, so that matched and mismatched pairs add up.
    places = np.clip(np.searchsorted(edges, losses, "right") - 1, 0, bins - 1)
    table = pd.DataFrame({"low": edges[:-1], "high": edges[1:], "pairs": np.bincount(places, minlength=bins)})
    for name, kind in (("matched", False), ("mismatched", True)):
        counts = None if mismatched is None else np.bincount(places[mismatched == kind], minlength=bins)
        table[name] = pd.array([None] * bins if counts is None else counts, dtype="Int64")
    expected = np.full((2, bins), np.nan)
    if bins > 1 and np.isfinite(mixture.alpha).all():
        expected = mixture.density((np.arange(bins) + 0.5) / bins) * len(losses) / bins
    table["expected_matched"], table["expected_mismatched"] = expected
    return table


def most_suspect(probability: Float[ndarray, " pairs"], losses: Float[ndarray, " pairs"]) -> Int[ndarray, " pairs"]:
    """Positions of the pairs: the highest probability first, then the larger loss, then the earlier pair."""
    return np.lexsort((np.arange(len(losses)), -losses, -probability))


def gallery_pairs(
    probability: Float[ndarray, " pairs"], losses: Float[ndarray, " pairs"], images: Int[ndarray, " pairs"], limit: int
) -> Int[ndarray, " gallery"]:
    """Positions of the ``limit`` most suspect pairs. At most one pair of each image, or the five captions of one wrong
    picture would fill the page."""
    order = most_suspect(probability, losses)
    _, first = np.unique(images[order], return_index=True)
    return order[np.sort(first)[:limit]]


def costs_table(records: list[dict]) -> pd.DataFrame:
    """A row per epoch and bin: pairs with a transport cost in [low, high), matched and mismatched ``by`` the truth or
    the split of the scheme. records: as ``pairs.read_rematching`` returns them."""
    rows = []
    for record in records:
        cost = record["cost"]
        bins = zip(cost["edges"][:-1], cost["edges"][1:], cost["matched"], cost["mismatched"], strict=True)
        rows += [(record["epoch"], record["by"], *cells) for cells in bins]
    return pd.DataFrame(rows, columns=COSTS_COLUMNS)


def pairs_table(truth: pa.Table, measured: Measured, probability: Float[ndarray, " pairs"]) -> pa.Table:
    """The columns of ``artifacts.audit``. truth: the train rows of pairs.parquet, in the order of ``measured``."""
    ids = {"caption": truth["caption_id"].to_numpy(), "image": truth["image_id"].to_numpy()}
    columns = {
        "caption_id": truth["caption_id"],
        "image_id": truth["image_id"],
        "loss": measured.losses,
        "probability": probability,
        "score": measured.scores.astype(np.float32),
    }
    for side in ("caption", "image"):
        places, scores = getattr(measured.partners, side), getattr(measured.partners, f"{side}_score")
        absent = places < 0
        columns[f"rematch_{side}_id"] = pa.array(ids[side][places], mask=absent)
        columns[f"rematch_{side}_score"] = pa.array(scores.astype(np.float32), mask=absent)
    return pa.table({**columns, "mismatched": truth["mismatched"]})


def doubts(losses: Float[ndarray, " pairs"]) -> tuple[Doubts, BetaMixture]:
    """Pairs are ranked by their loss; the mixture of the losses says how probable a mismatch is."""
    mixture = fit_beta(losses)
    open_pairs = np.zeros(len(losses), np.int8)
    columns = pd.DataFrame({"losses": losses})
    return Doubts(1 - mixture.posterior, losses, open_pairs, columns), mixture


def rematched(content: pa.Table, truth: pa.Table) -> dict[str, float | None]:
    """The share of the mismatched pairs whose partner truly belongs to the image or to the caption, None without such a
    pair; empty where the truth is unknown. content: of ``pairs_table``; truth: as there."""
    if truth["mismatched"].null_count:
        return {}
    mismatched = truth["mismatched"].to_numpy()
    if not mismatched.any():
        return {"rematched_caption_right": None, "rematched_image_right": None}
    described = truth["true_image_id"].take(
        pc.index_in(content["rematch_caption_id"], value_set=truth["caption_id"].combine_chunks())
    )
    right = {
        "rematched_caption_right": pc.equal(described, content["image_id"]),
        "rematched_image_right": pc.equal(content["rematch_image_id"], truth["true_image_id"]),
    }
    shares = {name: pc.fill_null(mask, False).to_numpy()[mismatched].mean() for name, mask in right.items()}
    return {name: round(float(share), _DIGITS) for name, share in shares.items()}


def described(mixture: BetaMixture) -> dict:
    """alpha, beta, mean and weight of the matched component and of the mismatched one; None if the mixture split
    nothing."""

    def numbers(values: np.ndarray) -> list[float] | None:
        return [float(value) for value in values] if np.isfinite(values).all() else None

    return {
        **{name: numbers(getattr(mixture, name)) for name in ("alpha", "beta", "mean", "weight")},
        "converged": bool(mixture.converged),
        "iterations": int(mixture.iterations),
        "doubts": list(mixture.doubts),
    }
