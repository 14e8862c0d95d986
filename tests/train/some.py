"""Small pairs and a small model: what the tests of one step and one epoch run on."""

from functools import partial

import numpy as np
import torch

from vse_pipe.artifacts.texts import Texts
from vse_pipe.core.text import SPECIAL, Tokens
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import IMAGE_ENCODERS, LOSSES, SCHEMES, SIMILARITIES, TEXT_ENCODERS
from vse_pipe.train.data import Pairs
from vse_pipe.train.model import DualEncoder, build, objective
from vse_pipe.train.optimise import optimizer_for
from vse_pipe.train.scheme import Scheme, Setting


def some_tokens(count: int, longest: int = 5, words: int = 12, seed: int = 0) -> Texts:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, count)
    ids = rng.integers(4, words, lengths.sum())
    starts = lengths.cumsum() - lengths
    vocabulary = [*SPECIAL, *(f"w{i}" for i in range(words - 4))]
    return Texts("tokens", np.arange(count), {}, Tokens(ids, starts, lengths), vocabulary, None, None)


def some_pairs(count: int = 24, each: int = 3, dim: int = 6, seed: int = 0) -> Pairs:
    """``count`` captions, ``each`` to an image with id 10, 20, ...; feature rows in reverse order of images."""
    rng = np.random.default_rng(seed)
    owner = np.arange(count) // each
    images = owner.max() + 1
    array = rng.standard_normal((images, dim)).astype(np.float16)
    return Pairs(array, images - 1 - owner, some_tokens(count, seed=seed), np.arange(count), 10 * (owner + 1))


def member(family, name: str, **options) -> Member:
    return Member(name, family.options(name)(**options))


def some_model(
    pairs: Pairs, image: Member | None = None, text: Member | None = None, size: int = 8, seed: int = 0
) -> DualEncoder:
    image = image or member(IMAGE_ENCODERS, "linear")
    text = text or member(TEXT_ENCODERS, "gru", word_dim=5)
    cosine = member(SIMILARITIES, "cosine")
    return build(image, text, cosine, pairs.array.shape[1:], pairs.texts.inputs, size, seed=seed)


def some_scheme(
    pairs: Pairs, loss: str = "sum", name: str = "plain", model: DualEncoder | None = None, train=None, **options
) -> Scheme:
    model, chosen = model or some_model(pairs), member(LOSSES, loss)
    if LOSSES.traits(loss).learns:
        learned = LOSSES.load(loss).network(chosen.params)
        model.loss = learned and learned.to(next(model.parameters()).dtype)
    params = TrainParams(**{"batch_size": 8, "embed_size": 8, **(train or {})})
    setting = Setting(
        model,
        objective(chosen, model),
        pairs,
        params,
        3,
        torch.device("cpu"),
        lambda seed: some_model(pairs, seed=seed),
        partial(objective, chosen, model),
        loss_options=chosen.params,
    )
    return SCHEMES.load(name).scheme(setting, member(SCHEMES, name, **options).params)


def adam(model: torch.nn.Module, lr: float) -> torch.optim.Optimizer:
    return optimizer_for(model, TrainParams(lr=lr))
