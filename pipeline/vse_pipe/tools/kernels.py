"""What would else be computed by the first stage that needs it: numba's compiled loops and the page's bundle of Vega.

``make setup`` runs ``python -m vse_pipe.tools.kernels``. Both are kept in ``__pycache__`` beside their source, as byte code
is, and made again when that changes. The loops are reached through what calls them in ``train`` and ``evaluate``, so that
they are compiled for the types that they are used with.
"""

import numpy as np
import torch

from vse_pipe.core import console
from vse_pipe.evaluate.measure import Inputs, measure
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.project.registry import INFERENCES, SIMILARITIES, TEXT_ENCODERS
from vse_pipe.ranking import criteria, kernels
from vse_pipe.ranking.bank import BankSource, cosine
from vse_pipe.ranking.metrics import listed
from vse_pipe.ranking.split import Split
from vse_pipe.ranking.statistics_kernels import by_class
from vse_pipe.report import charts

# More captions than a list that is chosen by the compiled loop is long, fewer than take any time.
_IMAGES, _EACH, _DIM, _SEED = 60, 5, 8, 1


def compile_all() -> None:
    """Rank random vectors under every criterion, take one step of a recurrent encoder and of order violations, and call the loops that a gallery
    of this size or a page without phrases does without."""
    inputs = Inputs(_split(0), BankSource("test"), _split(_IMAGES), BankSource("val"), cosine, {})
    chosen = [criteria.parse(name, {}) for name in INFERENCES.names()]
    for _ in measure(inputs, chosen, EvaluateParams(resamples=1)):
        pass
    options = TEXT_ENCODERS.options("gru")(pooling="gpo")
    gru = TEXT_ENCODERS.load("gru").build(options, _DIM, _DIM, torch.Generator())
    gru(torch.ones(2, 3, dtype=torch.int64), torch.tensor([3, 2])).sum().backward()
    vectors = torch.ones(1, _DIM, requires_grad=True)
    SIMILARITIES.load("order").score(vectors, vectors, SIMILARITIES.options("order")()).sum().backward()
    one, bounds = np.zeros(1, np.int64), np.arange(2)
    by_class(np.ones((1, 1), np.int64), bounds, one, bounds, one, one + 1, bounds, one, False)
    listed.compiled(torch.zeros(1, 1), bounds, np.zeros(1, np.float32), False)
    score, item = np.zeros((1, 1), np.float32), np.zeros((1, 1), np.int32)
    for loop in (kernels.of_rows, kernels.of_columns):
        loop(score, 0, 0, score, item, item, score, item, 0, 1)


def _split(first: int) -> Split:
    """first: the smallest id, other for splits that must have nothing in common."""
    rng = np.random.default_rng([_SEED, first])
    images, captions = np.arange(_IMAGES) + first, np.arange(_IMAGES * _EACH) + first * _EACH
    seen, read = (torch.from_numpy(rng.normal(size=(len(ids), _DIM)).astype(np.float32)) for ids in (images, captions))
    return Split(images, captions, images.repeat(_EACH), seen, read)


if __name__ == "__main__":
    console.set_level(console.QUIET)
    compile_all()
    charts.library()
