"""The split of losses in two: EM to convergence exactly, the authors' random start in its decisions and within 0.05."""

import numpy as np

from tests.golden.compare import compare
from vse_pipe.train import mixture


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    found = mixture.fit_beta(arrays["loss"], monotone=False, gain=None)
    stopped = mixture.fit_beta(arrays["loss"])
    parameters = np.stack([found.alpha, found.beta, found.weight], axis=1)
    theirs = arrays["l2rm_prob_clean"]
    # A pair on the other side of 0.5 counts unless their own starts move it there.
    spread = float(arrays["l2rm_seed_spread"])
    decided = np.abs(theirs - 0.5) > max(spread, 0.05)
    return [
        compare("em_converged_prob_clean", found.posterior, arrays["em_converged_prob_clean"], 0.0, 1e-6),
        compare("em_converged_alpha_beta_weight", parameters, arrays["em_converged_alpha_beta_weight"], 1e-6, 1e-6),
        compare("l2rm_prob_clean", found.posterior, theirs, 0.0, 0.05),
        compare("l2rm_prob_clean", stopped.posterior, theirs, 0.0, 0.05),
        compare("l2rm_prob_clean", (found.posterior > 0.5)[decided], (theirs > 0.5)[decided], 0.0, 0.0),
    ]
