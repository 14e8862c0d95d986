"""The losses of training pairs under a trained run, and better partners for them.

The one doubt of the audit of a run. It has no simulated mismatches, because a run knows the pairs
that it learnt; a mixture of two beta distributions splits the losses instead (L2RM, Han et al.,
CVPR 2024)."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from vse_pipe.artifacts.audit import COSTS_COLUMNS
from vse_pipe.audit.evidence import Doubts
from vse_pipe.core import console
from vse_pipe.train.matches import Matches
from vse_pipe.train.mixture import LossMixture, fit_beta, log_joint
from vse_pipe.train.scored import Scored, sample_losses

BINS = 50
# Score cells that ``partners`` holds at a time: 64 MiB of float32.
_CELLS = 1 << 24
# Below this, sums of float32 differ only by the order of their terms, and the mixture would split
# equal losses by it.
_DECIMALS = 6
# For each pair its loss, the similarity of its image and caption, the best other caption for its
# image and the best other image for its caption, as positions of pairs that have them, and their
# similarities. -1 and -inf where there is none.
COLUMNS = ("loss", "score", "caption", "caption_score", "image", "image_score")

Score = Callable[[Tensor, Tensor], Tensor]


def batches(pairs: int, size: int, rng: np.random.Generator) -> list[ndarray]:
    """All pairs in random order, in batches of nearly equal size, at most ``size`` and never 1 (for
    pairs, size >= 3)."""
    return np.array_split(rng.permutation(pairs), max(1, -(-pairs // size)))


def measured(
    encode: Callable[[ndarray], tuple],
    score: Score,
    owners: Int[ndarray, " pairs"],
    work: Sequence[ndarray],
    matches: Callable[[ndarray], Matches | None] = lambda pairs: None,
) -> pd.DataFrame:
    """``COLUMNS`` of every pair within its batch.

    encode: returns the arguments of ``score`` for pairs; owners: the image of each pair; work:
    batches that hold each pair once; matches: further matches in a batch, as ``Pairs.matches``.

    The loss is that of L2RM (Han et al., CVPR 2024, Eq. 4, as in its code) with two changes:
    captions of the same image are no negatives of each other, and the mean is over negatives only.
    Otherwise the loss of a pair would tell how many captions of its image the batch has, which
    matters with few images. The loss depends on the batch."""

    def of_batch(pairs: ndarray) -> pd.DataFrame:
        scores = score(*encode(pairs))
        owner = torch.from_numpy(owners[pairs])
        batch = Scored.from_scores(scores, owner, mask_same_image=True, matches=matches(pairs))
        mean = sample_losses(batch).double() * len(pairs) / (~batch.same).sum(dim=1).clamp_min(1)
        candidates = scores.float().masked_fill(batch.same, -torch.inf)
        diagonal = scores.diagonal().float().cpu().numpy()
        values = mean.cpu().numpy().round(_DECIMALS), diagonal, *_best(candidates, pairs), *_best(candidates.T, pairs)
        return pd.DataFrame(dict(zip(COLUMNS, values, strict=True)), pairs)

    parts = console.track(map(of_batch, work), len(work), "losses of batches")
    return pd.concat(parts).sort_index()


def _best(scores: Tensor, candidates: ndarray) -> tuple[ndarray, ndarray]:
    """For each row the best candidate, -1 if all are -inf, and its score."""
    best, column = (side.cpu().numpy() for side in scores.max(dim=1))
    return np.where(np.isneginf(best), -1, candidates[column]), best


def partners(
    images: Float[Tensor, "images dim"],
    texts: Float[Tensor, "pairs dim"],
    image_rows: Int[ndarray, " pairs"],
    score: Score,
    matches: tuple[Int[ndarray, " cells"], Int[ndarray, " cells"]] | None = None,
) -> dict[str, ndarray]:
    """The last four of ``COLUMNS``, among all training pairs, for models that compare vectors.

    images: each image once; image_rows: the row of ``images`` for each pair; matches: parallel rows
    of ``images`` and ``texts`` that are known to match and so are no partners, by default those of
    the pairs. Among equal scores the first caption and the first image win; ``image`` is a pair
    with the image."""
    cells = matches or (image_rows, np.arange(len(image_rows)))
    matched_images, matched_texts = (torch.from_numpy(side).to(texts.device) for side in cells)
    height = max(1, _CELLS // max(1, len(texts)))
    captions, best_rows = [], torch.full((len(texts),), -1, device=texts.device)
    best = torch.full((len(texts),), -torch.inf, device=texts.device)
    starts = range(0, len(images), height)
    for start in console.track(starts, len(starts), "partners"):
        scores = score(images[start : start + height], texts).float()
        inside = ((matched_images >= start) & (matched_images < start + height)).nonzero()[:, 0]
        scores[matched_images[inside] - start, matched_texts[inside]] = -torch.inf
        captions.append(_best(scores, np.arange(len(texts))))
        highest, row = scores.max(dim=0)
        best_rows = torch.where(highest > best, row + start, best_rows)
        best = torch.maximum(best, highest)
    caption, caption_score = (np.concatenate(side)[image_rows] for side in zip(*captions, strict=True))
    place, first = best_rows.cpu().numpy(), np.unique(image_rows, return_index=True)[1]
    image = np.where(place < 0, -1, first[place])
    return dict(zip(COLUMNS[2:], (caption, caption_score, image, best.cpu().numpy()), strict=True))


def loss_histogram(
    losses: Float[ndarray, " pairs"], mixture: LossMixture, mismatched: Bool[ndarray, " pairs"] | None
) -> pd.DataFrame:
    """BINS equal bins from the smallest loss to the largest, or one bin for equal losses.

    Columns: low, high, pairs; matched and mismatched, empty if the truth is unknown;
    expected_matched and expected_mismatched, the pairs that each component of the mixture puts into
    the bin by its density in the middle, empty if the mixture split nothing. The mixture is one of
    losses that are scaled to 0..1."""
    bins = BINS if np.ptp(losses) > 0 else 1
    edges = np.linspace(losses.min(), losses.max(), bins + 1)
    table = pd.DataFrame({"low": edges[:-1], "high": edges[1:], "pairs": np.histogram(losses, edges)[0]})
    for name, kind in (("matched", False), ("mismatched", True)):
        counts = [None] * bins if mismatched is None else np.histogram(losses[mismatched == kind], edges)[0]
        table[name] = pd.array(counts, dtype="Int64")
    middles, densities = (np.arange(bins) + 0.5) / bins, np.full((2, bins), np.nan)
    if mixture.components is not None:
        densities = np.exp(log_joint(mixture.components, middles))
    table["expected_matched"], table["expected_mismatched"] = densities * len(losses) / bins
    return table


def most_suspect(probability: Float[ndarray, " pairs"], losses: Float[ndarray, " pairs"]) -> Int[ndarray, " pairs"]:
    """Positions of pairs: highest probability, larger loss, earlier pair first."""
    return np.lexsort((-losses, -probability))


def costs_table(records: list[dict]) -> pd.DataFrame:
    """A row per epoch and bin: pairs with a transport cost in [low, high), matched and mismatched
    ``by`` the truth or the split of the scheme. records: of rematching.json, as ``read_json`` returns
    them."""
    rows = []
    for record in records:
        cost = record["cost"]
        bins = zip(cost["edges"][:-1], cost["edges"][1:], cost["matched"], cost["mismatched"], strict=True)
        rows += [(record["epoch"], record["by"], *cells) for cells in bins]
    return pd.DataFrame(rows, columns=COSTS_COLUMNS)


def pairs_table(truth: pa.Table, table: pd.DataFrame, probability: Float[ndarray, " pairs"]) -> pa.Table:
    """The columns of ``artifacts.audit``. truth: the train rows of pairs.parquet; table:
    ``COLUMNS``, in the same order."""
    columns = {
        "caption_id": truth["caption_id"],
        "image_id": truth["image_id"],
        "loss": table["loss"].to_numpy(),
        "probability": probability,
        "score": table["score"].to_numpy(np.float32),
    }
    for side in ("caption", "image"):
        places, absent = table[side].to_numpy(), (table[side] < 0).to_numpy()
        columns[f"rematch_{side}_id"] = pa.array(truth[f"{side}_id"].to_numpy()[places], mask=absent)
        columns[f"rematch_{side}_score"] = pa.array(table[f"{side}_score"].to_numpy(np.float32), mask=absent)
    return pa.table({**columns, "mismatched": truth["mismatched"]})


def doubts(losses: Float[ndarray, " pairs"]) -> tuple[Doubts, LossMixture]:
    """Pairs are ranked by their loss; the mixture of the losses says how probable a mismatch is."""
    mixture = fit_beta(losses)
    return Doubts(1 - mixture.posterior, losses, pd.DataFrame({"losses": losses})), mixture


def described(mixture: LossMixture) -> dict:
    """alpha, beta and weight of the matched component and of the mismatched one; None if the
    mixture split nothing."""
    components = mixture.components
    values = [None] * 3 if components is None else [part.tolist() for part in components]
    named = dict(zip(("alpha", "beta", "weight"), values, strict=True))
    return {**named, "doubts": [mixture.doubt] if mixture.doubt else []}
