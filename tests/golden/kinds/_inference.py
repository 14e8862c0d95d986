"""IS, CSLS, GM, RGM and hubness on a dense matrix, rows = queries. Both directions are the same check."""

import re
from functools import partial

import numpy as np
import torch

from tests.golden.compare import compare, exact
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import evaluation
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.inference import csls, gm, rgm
from vse_pipe.ranking.matching import Allowance, MatchedPairs
from vse_pipe.ranking.metrics.hubness import skewness
from vse_pipe.ranking.metrics.recall import Truth
from vse_pipe.ranking.scores import Scores

KS = (1, 5, 10)
_PAIRS = re.compile(r"rgm_(literal|rows)_k(\d+)_lam([0-9.]+)")
_TABLE = re.compile(r"rgm_(literal|rows)_(recall|nmatched)_(nns|is|csls)")
inverted_softmax = INFERENCES.load("is")
_close = partial(compare, atol=1e-9, rtol=1e-9)


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    scores = Scores.dense(torch.from_numpy(arrays["X"]))
    truth = Truth.listed(list(arrays["gt"]), scores.shape[1])
    rescored = {"nns": scores, **_rescored(arrays, scores)}
    lines = [
        _close("IS_paper", np.exp(_whole(rescored["is"])), arrays["IS_paper"]),
        _close("IS_muse", np.exp(_whole(rescored["is_muse"])), arrays["IS_muse"]),
        _close("CSLS_two_sided", _whole(rescored["csls"]), arrays["CSLS_two_sided"]),
        _close("CSLS_one_sided", _whole(rescored["csls_one"]), arrays["CSLS_one_sided"]),
    ]
    for name in ("nns", "is", "csls"):
        found = evaluation.rank(rescored[name], truth, "pessimistic", KS).metrics()
        lines.append(_close(f"recall_{name}", [found[f"r@{k}"] for k in KS], arrays[f"recall_{name}"]))
    return [*lines, *_matchings(arrays, rescored, truth), *_hubness(arrays, scores, truth)]


def _rescored(arrays: dict[str, np.ndarray], scores: Scores) -> dict[str, Scores]:
    beta, k = float(arrays["beta"]), int(arrays["csls_k"])
    bank = Bank(scores, is_transductive=True)
    return {
        "is": inverted_softmax.rerank(scores, bank, inverted_softmax.Params(beta=beta)),
        "is_muse": inverted_softmax.rerank(scores, bank, inverted_softmax.Params(beta=beta, include_query=True)),
        "csls": csls.rerank(scores, bank, csls.Params(k=k)),
        "csls_one": csls.rerank(scores, bank, csls.Params(k=k, two_sided=False)),
    }


def _matchings(
    arrays: dict[str, np.ndarray], rescored: dict[str, Scores], truth: Truth
) -> list[tuple[str, float, float]]:
    one_to_one = next(gm.match(rescored["nns"], [Allowance(1)], gm.Params(mode="literal")))
    lines = [exact("gm", _stacked(one_to_one), arrays["gm"])]
    for name, wanted in arrays.items():
        if parts := _PAIRS.fullmatch(name):
            setting = Allowance(int(parts[2]), float(parts[3]))
            found = next(rgm.match(rescored["nns"], [setting], rgm.Params(mode=parts[1])))
            lines.append(exact(name, _stacked(found), wanted))
        elif parts := _TABLE.fullmatch(name):
            mode, what, criterion = parts.groups()
            found = _table(rescored[criterion], mode, what, arrays["lambdas"], truth)
            lines.append((_close if what == "recall" else exact)(name, found, wanted))
    return lines


def _table(scores: Scores, mode: str, what: str, lambdas: np.ndarray, truth: Truth) -> list[list[float]]:
    """Rows: lambdas, columns: K; R@K, or the number of matched pairs."""
    settings = [Allowance(k, float(lam)) for lam in lambdas for k in KS]
    values = []
    for setting, pairs in zip(settings, rgm.match(scores, settings, rgm.Params(mode=mode)), strict=True):
        recall = evaluation.matched({setting.k: pairs}, truth).metrics()[f"r@{setting.k}"]
        values.append(recall if what == "recall" else len(pairs.rows))
    return np.reshape(values, (len(lambdas), len(KS)))


def _hubness(arrays: dict[str, np.ndarray], scores: Scores, truth: Truth) -> list[tuple[str, float, float]]:
    occurrence = evaluation.rank(scores, truth, "pessimistic", KS).occurrence
    counts = [exact(f"N{k}", occurrence[k], arrays[f"N{k}"]) for k in KS]
    return counts + [_close(f"skew{k}", skewness(occurrence[k]), arrays[f"skew{k}"]) for k in KS]


def _stacked(pairs: MatchedPairs) -> np.ndarray:
    return np.stack([pairs.rows, pairs.columns], axis=1)


def _whole(scores: Scores) -> np.ndarray:
    return torch.cat([block for _, block in scores.blocks()]).numpy()
