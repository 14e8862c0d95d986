"""The scheme by its steps; what it shares with other schemes is in test_peers, whole runs in test_noise_runs."""

from functools import partial
from itertools import islice

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from tests.naive import losses as naive
from tests.train.divided import divided, scored, steps
from tests.train.some import CPU
from vse_pipe.train.schemes.bicro import consistency

bicro = partial(divided, "bicro")
VARIANTS = pytest.mark.parametrize("variant", ["paper", "code"])


def _sides(count: int, seed: int, dim: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    images, texts = (torch.randn(count, dim, generator=rng, dtype=torch.float64) for _ in range(2))
    return normalize(images), normalize(texts)


def _lists(sides) -> tuple[list, list]:
    return sides[0].tolist(), sides[1].tolist()


def _vectors(network, batch) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.no_grad():
        vectors = network.eval().encode(batch, CPU)
    network.train()
    return vectors


def _loss(scheme, batch) -> tuple[list, list]:
    """The scores of the model that the step trains, and the loss of each pair."""
    images, texts = scheme.model.encode(batch, CPU)
    return (images @ texts.T).tolist(), scheme.terms(images, texts, batch).per_pair.tolist()


def _triplets(scores: list, labels: list, margin: float, code: bool) -> list[float]:
    """In the authors' code a negative text comes with the margin of its own pair."""
    n, found = len(scores), []
    margins = [naive.soft_margin(label, margin) for label in labels]
    for i in range(n):
        texts = [max(0.0, margins[t if code else i] - scores[i][i] + scores[i][t]) for t in range(n) if t != i]
        images = [max(0.0, margins[i] - scores[i][i] + scores[j][i]) for j in range(n) if j != i]
        found.append(max(texts) + max(images))
    return found


@pytest.mark.parametrize(("share", "count"), [(0.3, 2), (0.01, 1), (1.0, 8)])
def test_the_warm_up_trains_on_the_pairs_of_smallest_loss(share, count):
    scheme = bicro(epoch=0, margin=0.3, share=share)
    for batch in steps(scheme, 0):
        scores, losses = _loss(scheme, batch)
        expected = sorted(naive.hinge(scores, 0.3, False))[:count]
        assert sorted(losses) == pytest.approx([each / 8 for each in expected], abs=1e-6)


@pytest.mark.parametrize("floor", [0.0, 0.4])
def test_clean_pairs_have_the_label_1_and_noisy_ones_what_the_teacher_says_of_the_clean_batch_before(floor):
    scheme = bicro(margin=0.4, floor=floor)
    clean = None
    for number, batch in enumerate(steps(scheme)):
        teacher = scheme.models[number < 8]
        scores, losses = _loss(scheme, batch)
        if clean is None:
            clean, labels = _vectors(teacher, batch), [1.0] * len(scores)
        else:
            noisy = _lists(_vectors(teacher, batch))
            labels = [label * (label > floor) for label in naive.consistency(noisy, _lists(clean), False)]
            clean = None
            assert 0 < np.mean(labels) < 1
        assert losses == pytest.approx(_triplets(scores, labels, 0.4, False), abs=1e-5)
    assert all(network.training for network in scheme.models)


def test_the_authors_code_trusts_the_best_of_the_clean_batch_and_labels_the_rest_by_them():
    scheme = bicro(variant="code", floor=0.5)
    labelled, teacher = None, scheme.models[1]
    for batch in islice(steps(scheme), 2):
        scores, losses = _loss(scheme, batch)
        sides = _vectors(teacher, batch)
        if labelled is None:
            fits = naive.hinge(scored(teacher, batch).scores.tolist(), 0.2, False)
            order = sorted(range(len(fits)), key=lambda pair: -fits[pair])
            count = len(fits) // 10 + 1
            labelled = [[side[place].tolist() for place in order[-count:]] for side in sides]
            found = [0.5 + each / 2 for each in naive.consistency(_lists(sides), labelled, True)]
            labels = [1.0] * len(fits)
            for place, other in enumerate(order[:-count]):
                labels[other] = found[place] * (found[place] > 0.5)
        else:
            labels = [each * (each > 0.5) for each in naive.consistency(_lists(sides), labelled, True)]
        assert losses == pytest.approx(_triplets(scores, labels, 0.2, True), abs=1e-5)


@VARIANTS
@pytest.mark.parametrize(("pairs", "anchors"), [(7, 5), (1, 1), (4, 1), (1, 6), (30, 12)])
def test_labels_equal_plain_loops(variant, pairs, anchors):
    for seed in range(5):
        noisy, clean = _sides(pairs, seed), _sides(anchors, 100 + seed)
        labels = consistency(noisy, clean, variant)
        assert labels.tolist() == pytest.approx(naive.consistency(_lists(noisy), _lists(clean), variant == "code"))
        assert labels.min() >= 0
        assert labels.max() <= 1
