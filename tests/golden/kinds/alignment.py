"""Similarities of regions and words: SCAN's and SGRAF's."""

import re
from functools import partial

import torch

from tests.golden.compare import TIGHT, Result, Vectors, compare
from vse_pipe.project.registry import LOSSES, SIMILARITIES
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.batch import Scored

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
    return [
        compare("loss", total, arrays["loss"]),
        compare("grad_images", images.grad, arrays["grad_images"]),
        compare("grad_captions", captions.grad, arrays["grad_captions"]),
    ]


def _sgraf(name: str, arrays: Vectors) -> list[Result]:
    """SGR or SAF under the authors' weights, in evaluation."""
    return [
        compare("sims", _sgraf_scores(name, arrays, torch.float32), arrays["sims"]),
        compare("sims_f64", _sgraf_scores(name, arrays, torch.float64), arrays["sims_f64"], **TIGHT),
    ]


check_sgraf_sgr = partial(_sgraf, "sgr")
check_sgraf_saf = partial(_sgraf, "saf")


def check_sgraf_average(arrays: Vectors) -> list[Result]:
    """The mean of SGR's and SAF's scores; ``sgraf_average_X`` has its inputs in ``sgraf_sgr_X`` and ``sgraf_saf_X``."""
    scores = [
        _sgraf_scores(name, Vectors(arrays.path.with_stem(arrays.path.stem.replace("average", name))), torch.float32)
        for name in ("sgr", "saf")
    ]
    return [compare("sims", sum(scores) / 2, arrays["sims"])]


def _sgraf_scores(name: str, arrays: Vectors, dtype: torch.dtype) -> torch.Tensor:
    """The network takes its sizes from the weights and must take every one of them."""
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
