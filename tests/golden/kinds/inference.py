"""Criteria, matchings and hubness on a dense matrix, rows = queries."""

import re
from functools import partial

import numpy as np
import torch

from tests.golden.compare import Result, Vectors, compare, exact
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import evaluation
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.inference import csls, gm, nnn, qb_norm, rgm
from vse_pipe.ranking.matching import Allowance, MatchedPairs
from vse_pipe.ranking.metrics.hubness import skewness
from vse_pipe.ranking.metrics.recall import Truth
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.tiles import ever_in_top, mean_of_top

_KS = (1, 5, 10)
_PAIRS = re.compile(r"rgm_(literal|rows)_k(\d+)_lam([0-9.]+)")
_TABLE = re.compile(r"rgm_(literal|rows)_(recall|nmatched)_(nns|is|csls)")
inverted_softmax = INFERENCES.load("is")
_close = partial(compare, atol=1e-9, rtol=1e-9)


def _matrix(scores: Scores) -> np.ndarray:
    return torch.cat([block for _, block in scores.blocks()]).numpy()


def _products(queries: torch.Tensor, items: torch.Tensor) -> Scores:
    return Scores.from_sides(queries, items, lambda left, right: left @ right.T)


def check_csls_muse(arrays: Vectors) -> list[Result]:
    """MUSE's get_nn_avg_dist for both sides, and the scores made from it."""
    scores, k = _products(*(torch.from_numpy(arrays[name]) for name in ("query", "items"))), int(arrays["k"])
    rescored = csls.rerank(scores, Bank(scores, is_transductive=True), csls.Params(k=k))
    return [
        compare("r_query", mean_of_top(scores, k), arrays["r_query"]),
        compare("r_item", mean_of_top(scores.transposed(), k), arrays["r_item"]),
        compare("scores", _matrix(rescored), arrays["scores"]),
    ]


def check_nnn(arrays: Vectors) -> list[Result]:
    """NNNRanker of the authors' repository: bias of each item and scores after it."""
    queries, items, reference = (torch.from_numpy(arrays[name]) for name in ("query", "items", "reference"))
    params = nnn.Params(k=int(arrays["k"]), alpha=float(arrays["alpha"]))
    bank = _products(reference, items)
    rescored = nnn.rerank(_products(queries, items), Bank(bank, False), params)
    return [
        compare("bias", mean_of_top(bank.transposed(), params.k), arrays["bias"]),
        compare("scores", _matrix(rescored), arrays["scores"]),
    ]


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


def _inference(arrays: Vectors) -> list[Result]:
    """IS, CSLS, GM, RGM and hubness; both directions are the same check."""
    scores = Scores.dense(torch.from_numpy(arrays["X"]))
    truth = Truth.listed(list(arrays["gt"]), scores.shape[1])
    rescored = {"nns": scores, **_rescored(arrays, scores)}
    results = [
        _close("IS_paper", np.exp(_matrix(rescored["is"])), arrays["IS_paper"]),
        _close("IS_muse", np.exp(_matrix(rescored["is_muse"])), arrays["IS_muse"]),
        _close("CSLS_two_sided", _matrix(rescored["csls"]), arrays["CSLS_two_sided"]),
        _close("CSLS_one_sided", _matrix(rescored["csls_one"]), arrays["CSLS_one_sided"]),
    ]
    for name in ("nns", "is", "csls"):
        metrics = evaluation.rank(rescored[name], truth, "pessimistic", _KS).metrics()
        results.append(_close(f"recall_{name}", [metrics[f"r@{k}"] for k in _KS], arrays[f"recall_{name}"]))
    return [*results, *_matchings(arrays, rescored, truth), *_hubness(arrays, scores, truth)]


check_inference_i2t = _inference
check_inference_t2i = _inference


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
        recall = evaluation.matched({setting.k: pairs}, truth).metrics()[f"r@{setting.k}"]
        values.append(recall if quantity == "recall" else len(pairs.rows))
    return np.reshape(values, (len(lambdas), len(_KS)))


def _hubness(arrays: Vectors, scores: Scores, truth: Truth) -> list[Result]:
    occurrence = evaluation.rank(scores, truth, "pessimistic", _KS).occurrence
    counts = [exact(f"N{k}", occurrence[k], arrays[f"N{k}"]) for k in _KS]
    return counts + [_close(f"skew{k}", skewness(occurrence[k]), arrays[f"skew{k}"]) for k in _KS]


def _stacked(pairs: MatchedPairs) -> np.ndarray:
    return np.stack([pairs.rows, pairs.columns], axis=1)
