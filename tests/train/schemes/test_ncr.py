"""The scheme by its steps; what it shares with other schemes is in test_peers, whole runs in test_noise_runs."""

import itertools
from functools import partial

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import losses as naive
from tests.train.divided import SAMPLED, divided, scored, steps
from tests.train.losses.contract import some_scores
from tests.train.some import CPU
from vse_pipe.train.mixture import Division
from vse_pipe.train.peers import soft_margins, soft_triplets
from vse_pipe.train.schemes.ncr import predicted
from vse_pipe.train.scored import Scored

ncr = partial(divided, "ncr")


def _per_pair(scheme, batch, labels, margin: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The scheme's loss of each pair, and that of a triplet with the margins of ``labels``."""
    images, texts = scheme.model.encode(batch, CPU)
    expected = soft_triplets(Scored.from_scores(images @ texts.T), soft_margins(labels, margin))
    return scheme.terms(images, texts, batch).per_pair, expected


def test_the_warm_up_is_the_mean_of_all_violations_of_both_networks():
    scheme = ncr(epoch=0, margin=0.3)
    batches = list(steps(scheme, 0))
    assert [batch.pairs.tolist() for batch in batches[:5]] == [pairs.tolist() for pairs in SAMPLED]
    assert sorted(batch.pairs[0] for batch in batches[5:]) == [0, 8, 16, 24, 32]
    assert scheme.model is scheme.models[1]
    images, texts = scheme.model.encode(batches[-1], CPU)
    expected = sum(naive.hinge((images @ texts.T).tolist(), 0.3, False)) / 8
    torch.testing.assert_close(scheme.terms(images, texts, batches[-1]).total().item(), expected)


def test_labels_of_clean_pairs_are_refined_by_the_network_itself():
    scheme, probability = ncr(threshold=0.0), np.linspace(0.2, 1, 40)
    scheme.teachers[0] = Division(probability, scheme.teachers[0].clean)
    batch = next(steps(scheme))
    clean = torch.from_numpy(probability[batch.pairs]).float()
    labels = clean + (1 - clean) * predicted(scored(scheme.models[0], batch), 0.2)
    torch.testing.assert_close(*_per_pair(scheme, batch, labels, 0.2))
    assert all(network.training for network in scheme.models)


def test_labels_of_noisy_pairs_are_the_mean_of_both_predictions():
    scheme = ncr(margin=0.4)
    _, batch = itertools.islice(steps(scheme), 2)
    assert (batch.pairs >= 30).all()
    labels = sum(predicted(scored(network, batch), 0.4) for network in scheme.models) / 2
    torch.testing.assert_close(*_per_pair(scheme, batch, labels, 0.4))


# Labels and margins.


def _equal(ours: torch.Tensor, theirs: list[float]) -> None:
    torch.testing.assert_close(ours, torch.tensor(theirs, dtype=ours.dtype))


@settings(deadline=None, max_examples=20)
@given(pairs=st.integers(2, 23), seed=st.integers(0, 50), margin=st.floats(0.05, 2))
def test_predictions_equal_plain_loops(pairs, seed, margin):
    scores = some_scores(pairs, seed)
    _equal(predicted(Scored.from_scores(scores), margin), naive.predicted(scores.tolist(), margin))
