"""Compile numba's loops and bundle Vega in advance, so that the first stage need not do it.

``make setup`` runs ``python -m vse_pipe.tools.kernels``. Both results lie in ``__pycache__`` next to their source and
are renewed when the source changes. The functions of ``train`` and ``evaluate`` call the loops, so that numba compiles
them for the types in use.
"""

import numpy as np
import torch

from vse_pipe.core import console
from vse_pipe.evaluate.measure import Inputs, measure
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.project.registry import INFERENCES, SIMILARITIES, TEXT_ENCODERS
from vse_pipe.ranking import criteria, kernels
from vse_pipe.ranking.split import BankSource, Split, cosine
from vse_pipe.report import charts

# More captions than the longest list of the compiled loop, and few enough to take no time.
_IMAGES, _EACH, _DIM, _SEED = 60, 5, 8, 1


def compile_all() -> None:
    """Rank random vectors under every criterion, take a step of a recurrent encoder and of order violations, and call
    the loops that a small gallery does not reach."""
    inputs = Inputs(_split(0), BankSource("test"), _split(_IMAGES), BankSource("val"), cosine, {})
    for _ in measure(inputs, [criteria.parse(name, {}) for name in INFERENCES.names()], EvaluateParams(resamples=1)):
        pass
    options = TEXT_ENCODERS.options("gru")(pooling="gpo")
    gru = TEXT_ENCODERS.load("gru").build_text(options, _DIM, _DIM, torch.Generator())
    gru(torch.ones(2, 3, dtype=torch.int64), torch.tensor([3, 2])).sum().backward()
    vectors = torch.ones(1, _DIM, requires_grad=True)
    SIMILARITIES.load("order").score(vectors, vectors, SIMILARITIES.options("order")()).sum().backward()
    score, item = np.zeros((1, 1), np.float32), np.zeros((1, 1), np.int32)
    kernels.count(score, np.arange(2), score[0], False, np.zeros(1, np.int64))
    for loop in (kernels.of_rows, kernels.of_columns):
        loop(score, 0, 0, score, item, item, score, item, 0, 1)


def _split(first: int) -> Split:
    """first: the smallest id; it must differ between splits, which share no ids."""
    rng = np.random.default_rng([_SEED, first])
    images, captions = np.arange(_IMAGES) + first, np.arange(_IMAGES * _EACH) + first * _EACH
    image_vectors, caption_vectors = (
        torch.from_numpy(rng.normal(size=(len(ids), _DIM)).astype(np.float32)) for ids in (images, captions)
    )
    return Split(images, captions, images.repeat(_EACH), image_vectors, caption_vectors)


if __name__ == "__main__":
    console.set_level(console.QUIET)
    compile_all()
    charts.library()
