"""What is ranked on a GPU has the ranks of the loops, and so those of the CPU, whatever ties there are."""

import numpy as np
import pytest
import torch

from tests.naive import evaluate as naive
from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.ranking import criteria, evaluation
from vse_pipe.ranking.bank import BankSource, Split
from vse_pipe.ranking.criteria import trials
from vse_pipe.ranking.inference.options import CslsOptions as Params
from vse_pipe.ranking.scores import STRIP

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
IMAGES, EACH, K = STRIP + 44, 2, 8


def tied(device: str) -> Split:
    """Vectors of whole numbers, whose products any device has to the bit, and many of them alike."""
    rng = np.random.default_rng(0)
    images = rng.integers(-2, 3, (IMAGES, 6))
    captions = images.repeat(EACH, axis=0) + rng.integers(-1, 2, (IMAGES * EACH, 6))
    ids = np.arange(IMAGES)
    sides = (torch.from_numpy(side.astype(np.float32)).to(device) for side in (images, captions))
    return Split(ids, np.arange(IMAGES * EACH), ids.repeat(EACH), *sides)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])
@pytest.mark.parametrize("name", ["nns", "csls"])
@pytest.mark.parametrize("ties", ["pessimistic", "average", "optimistic"])
def test_ranks_and_best_items_are_those_of_the_loops(device, name, ties):
    """csls with k = 8: means of whole numbers that every device has to the bit too."""
    split = tied(device)
    criterion = criteria.parse(name, {"csls": Params(k=K)})
    for direction in DIRECTIONS:
        (trial,) = trials([split], BankSource("test"), lambda left, right: left @ right.T, 0)[direction]
        found = evaluation.rank(trial.under(criterion), trial.truth, ties)
        scores = split.images.cpu().numpy() @ split.captions.cpu().numpy().T
        scores = scores if direction == "image_to_text" else scores.T
        if name == "csls":
            near = [np.sort(side, axis=1)[:, -K:].mean(axis=1) for side in (scores, scores.T)]
            scores = 2 * scores - near[0][:, None] - near[1]
        rows = scores.tolist()
        correct = [set(items.tolist()) for items in np.split(trial.truth.items, trial.truth.starts[1:-1])]
        expected = [naive.best_rank(row, own, ties) for row, own in zip(rows, correct, strict=True)]
        assert len({value for row in rows for value in row}) < 1000  # of 180,000 cells
        assert found.ranks.tolist() == expected
        assert found.top.reshape(len(rows), 10).tolist() == [naive.top(row, 10) for row in rows]
