"""``python -m tests.benchmarks.transport``: transport plans a second, ours and the authors' recursion, in turn in one run.

The costs are those of random similarities, 128 x 128, as the cost network gives them at its start; both stop by the same
rule. The authors' side is their loop as it stands: log-sum-exp over the extended matrix, mask and all, in numpy.
"""

import argparse
import time

import numpy as np
import torch

from vse_pipe.train.transport import partial_plan


def theirs(cost: np.ndarray, mass: float, reg: float, mask: bool) -> np.ndarray:
    """Log-domain Sinkhorn as the authors run it."""
    n = len(cost)
    dear = 100 * cost.max()
    extended = np.full((n + 1, n + 1), dear, dtype=np.float32)
    extended[:n, :n] = cost
    extended[n, n] = 2 * dear + cost.max()
    allowed = np.ones((n + 1, n + 1), dtype=np.int64)
    if mask:
        allowed[np.arange(n), np.arange(n)] = 0
    p = np.append(np.full(n, 1 / n), 1 - mass)
    q = p.astype(np.float32)

    def exponents(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        found = (-extended + u[:, None] + v[None, :]) / reg
        found[allowed == 0] = -1e6
        return found

    def soft_max(values: np.ndarray) -> np.ndarray:
        top = values.max(axis=1, keepdims=True)
        return (np.log(np.exp(values - top).sum(axis=1, keepdims=True) + 1e-10) + top).squeeze()

    u, v = np.zeros(n + 1), np.zeros(n + 1)
    for _ in range(1000):
        before = u
        u = reg * (np.log(p) - soft_max(exponents(u, v))) + u
        v = reg * (np.log(q) - soft_max(exponents(u, v).T)) + v
        if np.linalg.norm(u - before) < 1e-3:
            break
    return np.float32(np.exp(exponents(u, v)))[:n, :n]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--plans", type=int, default=50)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    costs = [1 - rng.random((options.batch, options.batch), dtype=np.float32) for _ in range(options.plans)]
    for reg in (0.01, 0.07):
        seconds = {"ours": 0.0, "theirs": 0.0}
        apart = 0.0
        for cost in costs:
            start = time.perf_counter()
            reference = theirs(cost, 0.1, reg, True)
            middle = time.perf_counter()
            found = partial_plan(torch.from_numpy(cost), 0.1, reg)
            seconds["ours"] += time.perf_counter() - middle
            seconds["theirs"] += middle - start
            apart = max(apart, float(np.abs(found.numpy() - reference).max()))
        rates = {side: options.plans / spent for side, spent in seconds.items()}
        print(
            f"regularisation {reg}: ours {rates['ours']:.0f} plans/s, the authors' loop {rates['theirs']:.0f}, "
            f"{rates['ours'] / rates['theirs']:.1f} times; largest difference {apart:.1e}"
        )


if __name__ == "__main__":
    main()
