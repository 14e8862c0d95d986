"""How far scores agree with people."""

import numpy as np
from jaxtyping import Float


def kendall(scores: Float[np.ndarray, " rows"], grades: Float[np.ndarray, " rows"]) -> dict[str, float]:
    """Kendall's tau_b and tau_c, -1 to 1, of a row a judgement; empty where all scores or all grades are the same.

    The literature on captions has tau_c of Flickr8k's expert and tau_b of its crowd annotations, times 100 (Hessel et al.,
    CLIPScore, EMNLP 2021).
    """
    if len(np.unique(scores)) < 2 or len(np.unique(grades)) < 2:
        return {}
    from scipy.stats import kendalltau

    return {f"tau_{variant}": float(kendalltau(scores, grades, variant=variant).statistic) for variant in "bc"}
