"""The loss at several widths against one width at a time, and what the scheme refuses."""

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from tests.train.some import CPU, some_pairs, some_scheme
from vse_pipe.core.errors import UsageError
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.scored import Scored


@pytest.mark.parametrize("loss", LOSSES.names())
def test_it_is_the_sum_of_every_loss_at_each_width(loss):
    pairs = some_pairs()
    scheme = some_scheme(pairs, loss, "matryoshka", dims=[2, 5])
    batch = pairs.batch(np.array([3, 20, 7, 11, 0]))
    images, texts = (side.detach().requires_grad_() for side in scheme.model.encode(batch, CPU))
    found = scheme.terms(images, texts, batch)
    expected = 0
    for width in (2, 5, 8):
        one, other = (side if width == 8 else normalize(side[:, :width], dim=1) for side in (images, texts))
        scored = Scored.from_scores(one @ other.T, batch.owners, images=one, texts=other)
        expected = expected + scheme.loss(scored).per_pair
    torch.testing.assert_close(found.per_pair, expected)
    slopes = [torch.autograd.grad(value.sum(), (images, texts)) for value in (found.per_pair, expected)]
    torch.testing.assert_close(*slopes)


def test_the_full_width_always_counts_and_wider_ones_are_refused():
    assert some_scheme(some_pairs(), name="matryoshka", dims=[8, 2]).widths == [8, 2]
    assert some_scheme(some_pairs(), name="matryoshka", dims=[4]).widths == [8, 4]
    with pytest.raises(UsageError, match=r"dims has 16, and train\.embed_size is 8"):
        some_scheme(some_pairs(), name="matryoshka", dims=[2, 16])
