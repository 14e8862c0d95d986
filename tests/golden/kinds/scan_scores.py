"""SCAN's two directions under every normalisation and aggregation, in float32 and float64.

The key of an array names direction, aggregation, normalisation and precision: ``t2i_LogSumExp_clipped_l2norm_f64``.
"""

import re

import numpy as np
import torch

from tests.golden.compare import compare
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.ranking.fragments import Words

AGGREGATES = {"Mean": "mean", "LogSumExp": "lse", "Max": "max", "Sum": "sum"}
KEY = re.compile(r"(t2i|i2t)_([A-Za-z]+)_(\w+)_f(32|64)")


def words_of(arrays: dict[str, np.ndarray]) -> Words:
    return Words.from_padded(torch.tensor(arrays["captions"]), torch.tensor(arrays["cap_lens"]))


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    images, words = torch.tensor(arrays["images"]), words_of(arrays)
    wide = images.double(), Words(words.vectors.double(), words.lengths)
    results = []
    for key, stored in arrays.items():
        found = KEY.fullmatch(key)
        if found is None:
            continue
        way, aggregate, norm, bits = found.groups()
        member = SIMILARITIES.load(f"scan_{way}")
        params = member.Params(
            aggregate=AGGREGATES[aggregate],
            temperature=float(arrays[f"{way}_lambda_softmax"]),
            lse=float(arrays[f"{way}_lambda_lse"]),
            norm=norm,
        )
        scores = member.score(*(wide if bits == "64" else (images, words)), params)
        tight = {"atol": 1e-9, "rtol": 1e-9} if bits == "64" else {}
        results.append(compare(key, scores, stored, **tight))
    return results
