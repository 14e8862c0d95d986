"""Schemes of two networks at the start of an epoch, with chosen divisions."""

import numpy as np
import pytest
import torch

from tests.train.some import CPU, member, some_model, some_pairs, some_scheme
from vse_pipe.project.registry import TEXT_ENCODERS
from vse_pipe.train.scored import Scored

SAMPLED = np.split(np.arange(40), 5)


def _apart(clean: int) -> np.ndarray:
    return np.where(np.arange(40) < clean, 0.1, 0.9) + 0.01 * np.sin(np.arange(40))


def divided(name: str, clean=(24, 30), epoch: int = 1, epochs: int = 2, losses=None, chunk: int = 0, **options):
    """The scheme at the start of an epoch whose networks take the first 24 and the first 30 of 40 pairs for clean."""
    pairs = some_pairs(40, each=2)
    model = some_model(pairs, text=member(TEXT_ENCODERS, "gru", word_dim=5, dropout=0.5)).train()
    scheme = some_scheme(pairs, "max", name, model, {"epochs": epochs, "chunk": chunk}, **{"warm_up": 1, **options})
    given = dict(zip(scheme.models, losses or map(_apart, clean), strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheme, "pair_losses", lambda network, *rest: given[network])
        scheme.start(epoch)
    return scheme


def scored(network, batch) -> Scored:
    with torch.no_grad():
        images, texts = network.eval().encode(batch, CPU)
    network.train()
    return Scored.from_scores(images @ texts.T)


def steps(scheme, epoch: int = 1):
    for number, pairs in enumerate(scheme.batches(epoch, SAMPLED)):
        scheme.step = number
        batch = scheme.setting.pairs.batch(pairs)
        scheme.prepare(batch)
        yield batch
