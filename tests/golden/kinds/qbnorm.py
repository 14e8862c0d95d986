"""qb_norm of the authors' repository: corrected rows are exponentials of ours, the others raw similarities."""

import numpy as np
import torch

from tests.golden.compare import compare, exact
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.inference import qb_norm
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.tiles import ever_in_top


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    scores, bank = (Scores.dense(torch.from_numpy(arrays[name])) for name in ("sims", "bank_sims"))
    params = qb_norm.Params(k=int(arrays["k"]), beta=float(arrays["beta"]))
    rescored = torch.cat([block for _, block in qb_norm.rerank(scores, Bank(bank, False), params).blocks()])
    active = ever_in_top(bank, params.k).numpy()
    corrected = active[arrays["sims"].argmax(axis=1)]
    found = np.where(corrected[:, None], np.exp(rescored.numpy()), rescored.numpy())
    return [
        exact("activation", np.flatnonzero(active), arrays["activation"]),
        compare("out", found, arrays["out"], atol=1e-12, rtol=1e-9),
    ]
