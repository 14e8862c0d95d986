"""Several optimisation steps on one batch: losses and every weight afterwards.

Loss and image normalisation are not stored. They are found by the first step's loss, which differs between all four
combinations; the later losses and the weights then have to agree.
"""

import numpy as np
import torch

from pipeline.params.typed import Member
from pipeline.registry import LOSSES, SIMILARITIES
from pipeline.train.encoders.image import linear
from pipeline.train.encoders.text import gru
from pipeline.train.model import DualEncoder, build
from pipeline.train.optimise import adam, step
from tests.golden.compare import compare


def _model(arrays: dict[str, np.ndarray], no_imgnorm: bool) -> DualEncoder:
    start = {
        name[3:].replace("/", "."): torch.tensor(a) for name, a in arrays.items() if name.startswith("w0/")
    }
    embed_size, in_features = start["img.fc.weight"].shape
    words, word_dim = start["txt.embed.weight"].shape
    image = Member("linear", linear.Params(no_imgnorm=no_imgnorm))
    text = Member("gru", gru.Params(word_dim=word_dim))
    similarity = Member("cosine", SIMILARITIES.load("cosine").Params())
    model = build(image, text, similarity, (in_features,), words, embed_size, seed=0)
    model.load_state_dict(start)
    return model


def _steps(
    arrays: dict[str, np.ndarray], loss: str, no_imgnorm: bool
) -> tuple[list[float], dict[str, torch.Tensor]]:
    member, model = LOSSES.load(loss), _model(arrays, no_imgnorm)
    params = member.Params(margin=float(arrays["margin"]))
    optimizer = adam(model, float(arrays["lr"]))
    batch = [torch.tensor(arrays[name]) for name in ("images", "tokens", "lengths")]
    clip = float(arrays["grad_clip"])
    losses = [
        step(model, optimizer, lambda s: member.loss(s, params), *batch, clip) for _ in arrays["losses"]
    ]
    return losses, model.state_dict()


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    tried = [_steps(arrays, loss, plain) for loss in ("sum", "max") for plain in (False, True)]
    losses, weights = min(tried, key=lambda result: abs(result[0][0] - arrays["losses"][0]))
    after = sorted(
        {name.split("/")[0] for name in arrays if name.startswith("w") and name.split("/")[0] != "w0"}
    )
    last = max(after, key=lambda name: int(name[1:]))
    stored = {
        name.split("/", 1)[1].replace("/", "."): a
        for name, a in arrays.items()
        if name.startswith(f"{last}/")
    }
    return [
        compare("losses", losses, arrays["losses"]),
        *(compare(name, weights[name], array) for name, array in stored.items()),
    ]
