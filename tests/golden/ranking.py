"""Criteria, matchings and hubness on a dense matrix (rows = queries), figures of rankings, overlaps of boxes, SCAN and SGRAF."""

import re
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from tests.golden import TIGHT, Result, Vectors, compare, exact
from vse_pipe.project.registry import INFERENCES, LOSSES, SIMILARITIES
from vse_pipe.ranking import outcomes, recall
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.boxes import iou, surviving
from vse_pipe.ranking.fragments import Words
from vse_pipe.ranking.hubness import skewness
from vse_pipe.ranking.inference import csls, gm, nnn, qb_norm, rgm
from vse_pipe.ranking.matching import Allowance, MatchedPairs
from vse_pipe.ranking.outcomes import Outcome
from vse_pipe.ranking.recall import Truth, positions
from vse_pipe.ranking.scores import Scores, ever_in_top, mean_of_top, top_k
from vse_pipe.train.scored import Scored

_KS = (1, 5, 10)
_PAIRS = re.compile(r"rgm_(literal|rows)_k(\d+)_lam([0-9.]+)")
_TABLE = re.compile(r"rgm_(literal|rows)_(recall|nmatched)_(nns|is|csls)")
inverted_softmax = INFERENCES.load("is")
_close = partial(compare, atol=1e-9, rtol=1e-9)


def listed(correct: list[np.ndarray], columns: int) -> Truth:
    """From the correct columns of each query."""
    starts = np.concatenate([[0], np.cumsum([len(items) for items in correct])])
    return Truth(starts, np.concatenate(correct).astype(np.int64), columns)


def _matrix(scores: Scores) -> np.ndarray:
    return torch.cat([block for _, block in scores.blocks()]).numpy()


def _products(queries: torch.Tensor, items: torch.Tensor) -> Scores:
    return Scores.from_sides(queries, items, lambda left, right: left @ right.T)


def check_csls_muse(arrays: Vectors) -> list[Result]:
    """MUSE's get_nn_avg_dist for both sides, and the scores made from it."""
    scores, k = _products(*(torch.from_numpy(arrays[name]) for name in ("query", "items"))), int(arrays["k"])
    rescored = csls.rerank(scores, Bank(scores, is_transductive=True), csls.Params(k=k))
    means = {"r_query": mean_of_top(scores, k), "r_item": mean_of_top(scores.transposed(), k)}
    return arrays.compared(scores=_matrix(rescored), **means)


def check_nnn(arrays: Vectors) -> list[Result]:
    """NNNRanker of the authors' repository: bias of each item and scores after it."""
    queries, items, reference = (torch.from_numpy(arrays[name]) for name in ("query", "items", "reference"))
    params = nnn.Params(k=int(arrays["k"]), alpha=float(arrays["alpha"]))
    bank = _products(reference, items)
    rescored = nnn.rerank(_products(queries, items), Bank(bank, False), params)
    return arrays.compared(bias=mean_of_top(bank.transposed(), params.k), scores=_matrix(rescored))


def check_qbnorm(arrays: Vectors) -> list[Result]:
    """qb_norm of the authors' repository: corrected rows are exponentials of ours, the others raw similarities."""
    scores, bank = (Scores.dense(torch.from_numpy(arrays[name])) for name in ("sims", "bank_sims"))
    params = qb_norm.Params(k=int(arrays["k"]), beta=float(arrays["beta"]))
    rescored = _matrix(qb_norm.rerank(scores, Bank(bank, False), params))
    active = ever_in_top(bank, params.k).numpy()
    corrected = active[arrays["sims"].argmax(axis=1)]
    return [
        exact("activation", np.flatnonzero(active), arrays["activation"]),
        compare("out", np.where(corrected[:, None], np.exp(rescored), rescored), arrays["out"], atol=1e-12, rtol=1e-9),
    ]


def check_inference(arrays: Vectors) -> list[Result]:
    """IS, CSLS, GM, RGM and hubness; both directions are the same check."""
    scores = Scores.dense(torch.from_numpy(arrays["X"]))
    truth = listed(list(arrays["gt"]), scores.shape[1])
    rescored = {"nns": scores, **_rescored(arrays, scores)}
    found = {name: _matrix(one) for name, one in rescored.items()}
    softmax = {"IS_paper": np.exp(found["is"]), "IS_muse": np.exp(found["is_muse"])}
    results = arrays.compared(**TIGHT, **softmax, CSLS_two_sided=found["csls"], CSLS_one_sided=found["csls_one"])
    for name in ("nns", "is", "csls"):
        metrics = outcomes.rank(rescored[name], truth, "pessimistic").metrics()
        results.append(_close(f"recall_{name}", [metrics[f"r@{k}"] for k in _KS], arrays[f"recall_{name}"]))
    return [*results, *_matchings(arrays, rescored, truth), *_hubness(arrays, scores, truth)]


def _rescored(arrays: Vectors, scores: Scores) -> dict[str, Scores]:
    beta, k = float(arrays["beta"]), int(arrays["csls_k"])
    bank = Bank(scores, is_transductive=True)
    return {
        "is": inverted_softmax.rerank(scores, bank, inverted_softmax.Params(beta=beta)),
        "is_muse": inverted_softmax.rerank(scores, bank, inverted_softmax.Params(beta=beta, include_query=True)),
        "csls": csls.rerank(scores, bank, csls.Params(k=k)),
        "csls_one": csls.rerank(scores, bank, csls.Params(k=k, two_sided=False)),
    }


def _matchings(arrays: Vectors, rescored: dict[str, Scores], truth: Truth) -> list[Result]:
    one_to_one = next(gm.match(rescored["nns"], [Allowance(1)], gm.Params(mode="literal")))
    results = [exact("gm", _stacked(one_to_one), arrays["gm"])]
    for name, stored in arrays.items():
        if parts := _PAIRS.fullmatch(name):
            setting = Allowance(int(parts[2]), float(parts[3]))
            pairs = next(rgm.match(rescored["nns"], [setting], rgm.Params(mode=parts[1])))
            results.append(exact(name, _stacked(pairs), stored))
        elif parts := _TABLE.fullmatch(name):
            mode, quantity, criterion = parts.groups()
            table = _table(rescored[criterion], mode, quantity, arrays["lambdas"], truth)
            results.append((_close if quantity == "recall" else exact)(name, table, stored))
    return results


def _table(scores: Scores, mode: str, quantity: str, lambdas: np.ndarray, truth: Truth) -> np.ndarray:
    """Rows: lambdas, columns: K; R@K, or the number of matched pairs."""
    settings = [Allowance(k, float(lam)) for lam in lambdas for k in _KS]
    values = []
    for setting, pairs in zip(settings, rgm.match(scores, settings, rgm.Params(mode=mode)), strict=True):
        recall = outcomes.matched({setting.k: pairs}, truth).metrics()[f"r@{setting.k}"]
        values.append(recall if quantity == "recall" else len(pairs.rows))
    return np.reshape(values, (len(lambdas), len(_KS)))


def _hubness(arrays: Vectors, scores: Scores, truth: Truth) -> list[Result]:
    occurrence = outcomes.rank(scores, truth, "pessimistic").occurrence
    counts = [exact(f"N{k}", occurrence[k], arrays[f"N{k}"]) for k in _KS]
    return counts + [_close(f"skew{k}", skewness(occurrence[k]), arrays[f"skew{k}"]) for k in _KS]


def _stacked(pairs: MatchedPairs) -> np.ndarray:
    return np.stack([pairs.rows, pairs.columns], axis=1)


# The last bits of a float32 product depend on how it was blocked, so an item within this distance of the best correct one may
# stand on either side of it. Each query's rank may differ by the number of such items, and each figure by what that does to
# it; without such items everything must agree.
_CLOSE = 1e-6
_ROUNDING = 1e-9
_RECALLS = slice(0, 3)
_RECALLS_OF_TEN = [0, 1, 2, 5, 6, 7]


def _ranking(arrays: Vectors, similarity: str = "cosine") -> list[Result]:
    """HAL's outcomes.i2t and t2i on one set of images with the same number of captions each."""
    directions = dict(zip(("i2t", "t2i"), _directions(arrays["images"], arrays["captions"], similarity), strict=True))
    results = []
    for name, direction in directions.items():
        ranks = direction.outcome.ranks
        results += [
            _least_to_spare(name, direction.figures(), arrays[name], direction.leeway()),
            _least_to_spare(f"{name}_ranks", ranks, arrays[f"{name}_ranks"], direction.unclear),
        ]
        if f"{name}_top1" in arrays:
            results.append(_first(f"{name}_top1", direction, arrays[f"{name}_top1"]))
    if "rsum" in arrays:
        rsum = sum(direction.figures()[_RECALLS].sum() for direction in directions.values())
        leeway = sum(direction.leeway()[_RECALLS].sum() for direction in directions.values())
        results.append(_least_to_spare("rsum", rsum, arrays["rsum"], leeway))
    return results


check_metrics_1k = _ranking
check_metrics_order = partial(_ranking, similarity="order")


def check_metrics_5fold(arrays: Vectors) -> list[Result]:
    """HAL's evaluation on consecutive folds, their mean, and all images at once."""
    images, captions = arrays["images"], arrays["captions"]
    count = len(arrays["per_fold"])
    folds = zip(np.split(images, count), np.split(captions, count), strict=True)
    figures, leeway = (np.array(part) for part in zip(*[_ten(*fold) for fold in folds], strict=True))
    mean, mean_leeway = figures.mean(axis=0), leeway.mean(axis=0)
    rsum, rsum_leeway = mean[_RECALLS_OF_TEN].sum(), mean_leeway[_RECALLS_OF_TEN].sum()
    full, full_leeway = _ten(images, captions)
    return [
        _least_to_spare("per_fold", figures, arrays["per_fold"], leeway),
        _least_to_spare("mean", mean, arrays["mean"], mean_leeway),
        _least_to_spare("rsum_mean", rsum, arrays["rsum_mean"], rsum_leeway),
        _least_to_spare("full_5k", full, arrays["full_5k"], full_leeway),
    ]


def check_metrics_ties(arrays: Vectors) -> list[Result]:
    """0-based ranks of the best correct item when scores tie, under three policies."""
    scores = torch.from_numpy(arrays["X"])
    truth = listed(list(arrays["gt"]), scores.shape[1])
    results = [
        exact(ties, positions(scores, slice(0, len(scores)), truth, ties)[truth.starts[:-1]], arrays[ties])
        for ties in ("optimistic", "pessimistic")
    ]
    # Equal scores by descending column: top_k of the mirror image.
    items = scores.shape[1]
    columns = items - 1 - top_k(scores.flip(1), items)[1].numpy()
    rows = np.repeat(np.arange(len(scores)), items)
    ranks = truth.holds(rows, columns.ravel()).reshape(columns.shape).argmax(axis=1)
    return [*results, exact("stable_reversed", ranks, arrays["stable_reversed"])]


def check_boxes_iou_nms(arrays: Vectors) -> list[Result]:
    """Overlaps of boxes and what non-maximum suppression leaves, corners counted in ("plus1") and not ("plain")."""
    boxes, scores = torch.tensor(arrays["boxes"]), torch.tensor(arrays["scores"])
    # Without the last pixel that ours counts in, boxes in continuous coordinates have the same width here.
    corners = {"plus1": boxes, "plain": boxes - torch.tensor([0.0, 0.0, 1.0, 1.0])}
    best = scores.argsort(descending=True, stable=True)
    results = [compare("iou_plus1", iou(boxes, boxes), arrays["iou_plus1"], 1e-12)]
    for name in sorted(arrays):
        if name.startswith("nms_"):
            _, kind, tenths = name.split("_")
            stays = surviving(corners[kind], scores[None], int(tenths) / 10)[0]
            results.append(exact(name, best[stays[best]], arrays[name]))
    return results


@dataclass(frozen=True)
class _Direction:
    """The outcome of a direction, its scores, and per query the number of wrong items too close to call."""

    outcome: Outcome
    scores: Scores
    unclear: np.ndarray

    def figures(self) -> np.ndarray:
        """R@1, R@5, R@10, Med r, Mean r."""
        return _figures(self.outcome.ranks)

    def leeway(self) -> np.ndarray:
        """How far each figure may be off."""
        ranks = self.outcome.ranks
        return np.abs(_figures((ranks - self.unclear).clip(0)) - _figures(ranks + self.unclear)) + _ROUNDING


def _directions(images: np.ndarray, captions: np.ndarray, similarity: str = "cosine") -> tuple[_Direction, _Direction]:
    """Image to text and text to image; captions i c .. i c + c - 1 belong to image i."""
    member = SIMILARITIES.load(similarity)
    image_ids = np.arange(len(images))
    owners = np.repeat(image_ids, len(captions) // len(images))
    measure = partial(member.score, params=member.Params())
    scores = Scores.from_sides(torch.from_numpy(images), torch.from_numpy(captions), measure)
    back = _direction(scores.transposed(), Truth.by_image(owners, image_ids))
    return _direction(scores, Truth.by_image(image_ids, owners)), back


def _direction(scores: Scores, truth: Truth) -> _Direction:
    unclear = []
    for rows, block in scores.blocks():
        local, columns = truth.correct_pairs(rows, block.device)
        correct = block[local, columns]
        best = torch.full((len(block),), -torch.inf).scatter_reduce(0, local, correct, "amax")
        close = ((block - best[:, None]).abs() <= _CLOSE).sum(dim=1)
        unclear.append(close - torch.bincount(local[correct >= best[local] - _CLOSE], minlength=len(block)))
    return _Direction(outcomes.rank(scores, truth, "pessimistic"), scores, torch.cat(unclear).numpy())


def _figures(ranks: np.ndarray) -> np.ndarray:
    recalls = [recall.recall(ranks < k) for k in (1, 5, 10)]
    return np.array([*recalls, recall.median_rank(ranks), recall.mean_rank(ranks)])


def _ten(images: np.ndarray, captions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The figures of both directions, and how far each may be off."""
    both = [(direction.figures(), direction.leeway()) for direction in _directions(images, captions)]
    return tuple(map(np.concatenate, zip(*both, strict=True)))


def _first(name: str, direction: _Direction, stored: np.ndarray) -> Result:
    """By how much the stored first item scores below ours: 0 where they are the same."""
    ours = torch.from_numpy(direction.outcome.top.reshape(len(stored), -1)[:, :1])
    theirs = torch.from_numpy(stored)[:, None]
    gaps = [block.gather(1, ours[rows]) - block.gather(1, theirs[rows]) for rows, block in direction.scores.blocks()]
    return name, float(torch.cat(gaps).max()), 1e-6


def _least_to_spare(name: str, ours: np.ndarray, stored: np.ndarray, allowed: np.ndarray) -> Result:
    """Error and allowance of the element with the least to spare."""
    if np.shape(ours) != np.shape(stored):
        return name, np.inf, 0.0
    error, allowed = np.abs(np.ravel(ours) - np.ravel(stored)), np.ravel(allowed)
    at = (error - allowed).argmax()
    return name, float(error[at]), float(allowed[at])


_AGGREGATES = {"Mean": "mean", "LogSumExp": "lse", "Max": "max", "Sum": "sum"}
_SCAN = re.compile(r"(t2i|i2t)_([A-Za-z]+)_(\w+)_f(32|64)")
_PRECISIONS = {"32": torch.float32, "64": torch.float64}


def _fragments(arrays: Vectors, dtype: torch.dtype) -> tuple[torch.Tensor, Words]:
    images, captions = (torch.tensor(arrays[name]).to(dtype) for name in ("images", "captions"))
    return images, Words.from_padded(captions, torch.tensor(arrays["cap_lens"]))


def check_scan_scores(arrays: Vectors) -> list[Result]:
    """SCAN's two directions under every normalisation and aggregation, in float32 and float64.

    The key of an array names direction, aggregation, normalisation and precision: ``t2i_LogSumExp_clipped_l2norm_f64``.
    """
    results = []
    for key, stored in arrays.items():
        if not (parts := _SCAN.fullmatch(key)):
            continue
        direction, aggregate, norm, bits = parts.groups()
        member = SIMILARITIES.load(f"scan_{direction}")
        params = member.Params(
            aggregate=_AGGREGATES[aggregate],
            temperature=float(arrays[f"{direction}_lambda_softmax"]),
            lse=float(arrays[f"{direction}_lambda_lse"]),
            norm=norm,
        )
        scores = member.score(*_fragments(arrays, _PRECISIONS[bits]), params)
        results.append(compare(key, scores, stored, **(TIGHT if bits == "64" else {})))
    return results


def check_scan_t2i_mean_max_loss(arrays: Vectors) -> list[Result]:
    """MAX over SCAN's text-to-image scores: the loss and its gradients in regions and words."""
    images, captions = arrays.leaves("images", "captions")
    similarity, loss = SIMILARITIES.load("scan_t2i"), LOSSES.load("max")
    words = Words.from_padded(captions, torch.tensor(arrays["cap_lens"]))
    scores = similarity.score(images, words, similarity.Params(temperature=9.0))
    total = loss.loss(Scored.from_scores(scores), loss.Params(margin=0.2)).total()
    total.backward()
    return arrays.compared(loss=total, grad_images=images.grad, grad_captions=captions.grad)


def check_sgraf(arrays: Vectors) -> list[Result]:
    """SGR or SAF under the authors' weights, in evaluation; ``sgraf_sgr_X`` or ``sgraf_saf_X``."""
    single, double = (_sgraf_scores(arrays, dtype) for dtype in (torch.float32, torch.float64))
    return arrays.compared(sims=single) + arrays.compared(**TIGHT, sims_f64=double)


def check_sgraf_average(arrays: Vectors) -> list[Result]:
    """The mean of SGR's and SAF's scores; ``sgraf_average_X`` has its inputs in ``sgraf_sgr_X`` and ``sgraf_saf_X``."""
    paths = (arrays.path.with_stem(arrays.path.stem.replace("average", name)) for name in ("sgr", "saf"))
    return arrays.compared(sims=sum(_sgraf_scores(Vectors(path), torch.float32) for path in paths) / 2)


def _sgraf_scores(arrays: Vectors, dtype: torch.dtype) -> torch.Tensor:
    """The network takes its sizes from the weights and must take every one of them."""
    name = arrays.path.stem.split("_")[1]
    weights = arrays.weights()
    images, words = _fragments(arrays, dtype)
    member = SIMILARITIES.load(name)
    sizes = {"sim_dim": weights["sim_eval_w.weight"].shape[1]}
    if name == "sgr":
        sizes["steps"] = 1 + max(int(key.split(".")[1]) for key in weights if key.startswith("SGR_module"))
    params = member.Params(**sizes)
    network = member.network(params, images.shape[2], images.shape[1], torch.Generator())
    network.load_state_dict(weights)
    network = network.to(dtype).eval()
    with torch.no_grad():
        return member.score(images, words, params, network)
