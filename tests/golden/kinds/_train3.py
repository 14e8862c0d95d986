"""Several optimisation steps on one batch: losses and every weight afterwards.

Loss, image normalisation and absolute values are not stored. They are found by the first step's loss, which differs
between the combinations; the later losses and the weights then have to agree.
"""

from functools import partial
from itertools import product

import numpy as np
import torch

from tests.golden.compare import compare
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import LOSSES, SIMILARITIES
from vse_pipe.train.data import Batch, Pairs
from vse_pipe.train.encoders.image import linear
from vse_pipe.train.encoders.text import gru
from vse_pipe.train.model import DualEncoder, build
from vse_pipe.train.optimise import optimizer_for, step
from vse_pipe.train.scheme import Scheme, Setting

# A step asks for its batch and for no other pair.
_NO_PAIRS = Pairs.__new__(Pairs)


def check_steps(similarity: str, arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    losses, ours = steps(similarity, arrays)
    last = f"w{len(arrays['losses'])}"
    return [
        compare("losses", losses, arrays["losses"]),
        *(compare(name, ours[name], array) for name, array in weights(arrays, last).items()),
    ]


def steps(
    similarity: str, arrays: dict[str, np.ndarray], precision: str = "float32"
) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The loss before each step, and the weights after the last."""
    tried = [
        _steps(arrays, similarity, precision, loss, *options)
        for loss, *options in product(("sum", "max"), (False, True), (False, True))
    ]
    return min(tried, key=lambda result: abs(result[0][0] - arrays["losses"][0]))


def _steps(
    arrays: dict[str, np.ndarray], similarity: str, precision: str, loss: str, no_imgnorm: bool, use_abs: bool
) -> tuple[list[float], dict[str, torch.Tensor]]:
    member, model = LOSSES.load(loss), _model(arrays, similarity, no_imgnorm, use_abs)
    objective = partial(member.loss, params=member.Params(margin=float(arrays["margin"])))
    train = TrainParams(lr=float(arrays["lr"]), grad_clip=float(arrays["grad_clip"]), precision=precision)
    setting = Setting(model, objective, _NO_PAIRS, train, seed=0, device=torch.device("cpu"), build=lambda seed: model)
    optimizer = optimizer_for(model, train)
    images, tokens, lengths = (torch.tensor(arrays[name]) for name in ("images", "tokens", "lengths"))
    batch = Batch(images, (tokens, lengths), torch.arange(len(images)), np.arange(len(images)))
    losses = [step(Scheme(setting), optimizer, batch)[0] for _ in arrays["losses"]]
    return losses, model.state_dict()


def _model(arrays: dict[str, np.ndarray], similarity: str, no_imgnorm: bool, use_abs: bool) -> DualEncoder:
    start = {name: torch.tensor(array) for name, array in weights(arrays, "w0").items()}
    embed_size, in_features = start["img.fc.weight"].shape
    words, word_dim = start["txt.embed.weight"].shape
    image = Member("linear", linear.Params(no_imgnorm=no_imgnorm, use_abs=use_abs))
    text = Member("gru", gru.Params(word_dim=word_dim, use_abs=use_abs))
    measure = Member(similarity, SIMILARITIES.options(similarity)())
    model = build(image, text, measure, (in_features,), words, embed_size, seed=0)
    model.load_state_dict(start)
    return model


def weights(arrays: dict[str, np.ndarray], when: str) -> dict[str, np.ndarray]:
    """``w0/txt/rnn.bias_hh_l0`` of w0 as ``txt.rnn.bias_hh_l0``."""
    start = f"{when}/"
    return {
        name.removeprefix(start).replace("/", "."): array for name, array in arrays.items() if name.startswith(start)
    }
