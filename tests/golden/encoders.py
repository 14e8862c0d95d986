"""Encoders and their pooling from the authors' weights, canonical correlations, and whole training steps."""

from itertools import product

import numpy as np
import torch

from tests.golden import Result, Vectors, compare
from tests.train.some import member, some_run
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import LOSSES, SIMILARITIES
from vse_pipe.train.closed_form import moments_of
from vse_pipe.train.data import Batch, Pairs
from vse_pipe.train.encoders import gru, linear
from vse_pipe.train.encoders.options import ImageLinearOptions
from vse_pipe.train.heads import GPO
from vse_pipe.train.model import DualEncoder, build
from vse_pipe.train.optimise import optimizer_for, step
from vse_pipe.train.scheme import Scheme, Setting
from vse_pipe.train.schemes.cca import canonical

# A step needs its batch and no other pair.
_NO_PAIRS = Pairs.__new__(Pairs)


def check_encoder_image(arrays: Vectors) -> list[Result]:
    """The linear image encoder. no_imgnorm and use_abs are not stored: the stored output tells them."""
    stored = arrays["out"]
    is_unit = np.allclose(np.linalg.norm(stored, axis=1), 1.0, atol=1e-4)
    params = ImageLinearOptions(no_imgnorm=not is_unit, use_abs=bool((stored >= 0).all()))
    encoder = linear.build_image(params, arrays["x"].shape[1], stored.shape[1], torch.Generator())
    encoder.load_state_dict(arrays.weights())
    return [compare("out", encoder(torch.tensor(arrays["x"])), stored)]


def check_encoder_text_vsepp(arrays: Vectors) -> list[Result]:
    """The GRU text encoder. use_abs is not stored: the stored output tells it."""
    encoder = _text_encoder(arrays, use_abs=bool((arrays["out"] >= 0).all()))
    return [compare("out", encoder(torch.tensor(arrays["tokens"]), torch.tensor(arrays["lengths"])), arrays["out"])]


def check_encoder_text_sgraf(arrays: Vectors) -> list[Result]:
    """The words of the local models: each token's state, directions averaged, zero past the caption's end."""
    words = _text_encoder(arrays, rnn="cap_rnn", dropout=0.4).words
    return [compare("out", words(torch.tensor(arrays["tokens"]), torch.tensor(arrays["lengths"])), arrays["out"])]


def _text_encoder(arrays: Vectors, rnn: str = "rnn", **options) -> gru.GRUTextEncoder:
    """Sizes, layers and directions follow from the weights; ``rnn``: the authors' name of the GRU."""
    words, word_dim = arrays["w/embed.weight"].shape
    weights = {name.replace(f"{rnn}.", "rnn.", 1): weight for name, weight in arrays.weights().items()}
    params = gru.Params(
        word_dim=word_dim,
        layers=sum(name.startswith("rnn.weight_ih") and not name.endswith("_reverse") for name in weights),
        bidirectional="rnn.weight_ih_l0_reverse" in weights,
        **options,
    )
    encoder = gru.build_text(params, words, arrays["out"].shape[-1], torch.Generator())
    encoder.load_state_dict(weights)
    return encoder.eval().requires_grad_(False)


def check_pool_gpo(arrays: Vectors) -> list[Result]:
    """GPO on padded sets: the pooled vectors, the weights of the places, and the gradient of what was pooled."""
    gpo = GPO(torch.Generator(), int(arrays["d_pe"]), int(arrays["d_hidden"]))
    parts = {f"{part}.{name}": one for part in ("gru", "linear") for name, one in arrays.weights(f"{part}_").items()}
    gpo.load_state_dict(parts)
    (features,), lengths = arrays.leaves("features"), torch.tensor(arrays["lengths"])
    pooled = gpo(features, torch.arange(features.shape[1]) < lengths[:, None])
    pooled.backward(torch.tensor(arrays["upstream"]))
    found = arrays.compared(pooled=pooled, weights=gpo.weights(lengths, features.shape[1]))
    return found + arrays.compared(atol=1e-4, grad_features=features.grad)


def check_cca(arrays: Vectors) -> list[Result]:
    """Canonical correlations and the cosines of the mapped sides; columns of the file are samples."""
    rows = np.concatenate([arrays["X"], arrays["Y"]]).T
    width, size = len(arrays["X"]), len(arrays["r"])
    mean, covariance = moments_of(lambda: np.array_split(rows, 3))
    r, *maps = canonical(covariance, width, float(arrays["eta"]), size)
    centred = rows - mean
    mapped = centred[:, :width] @ maps[0].T, centred[:, width:] @ maps[1].T
    images, texts = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in mapped)
    return arrays.compared(atol=1e-9, rtol=0.0, r=r, cosine=images @ texts.T)


def check_train3_vsepp(arrays: Vectors) -> list[Result]:
    """Optimisation steps on one batch, as the VSE++ code takes them: losses and every weight afterwards."""
    losses, ours = steps(arrays)
    weights = step_weights(arrays, len(losses)).items()
    return arrays.compared(losses=losses) + [compare(name, ours[name], weight) for name, weight in weights]


def steps(arrays: Vectors, precision: str = "float32") -> tuple[list[float], dict[str, torch.Tensor]]:
    """The loss before each step, and the weights after the last. The name of the file has the similarity.

    Loss, image normalisation and absolute values are not stored. The loss of the first step, which differs between the
    combinations, tells them; the later losses and the weights then have to agree.
    """
    combinations = product(("sum", "max"), (False, True), (False, True))
    similarity = "order" if "order" in arrays.path.stem else "cosine"
    results = [_steps(arrays, similarity, precision, *combination) for combination in combinations]
    return min(results, key=lambda result: abs(result[0][0] - arrays["losses"][0]))


def step_weights(arrays: Vectors, number: int) -> dict[str, torch.Tensor]:
    """The weights after step ``number``: ``w0/txt/rnn.bias_hh_l0`` of step 0 as ``txt.rnn.bias_hh_l0``."""
    return {name.replace("/", "."): weight for name, weight in arrays.weights(f"w{number}/").items()}


def _steps(
    arrays: Vectors, similarity: str, precision: str, loss: str, no_imgnorm: bool, use_abs: bool
) -> tuple[list[float], dict[str, torch.Tensor]]:
    model = _model(arrays, similarity, no_imgnorm, use_abs)
    train = TrainParams(lr=float(arrays["lr"]), grad_clip=float(arrays["grad_clip"]), precision=precision)
    run = some_run(member(LOSSES, loss, margin=float(arrays["margin"])), train)
    setting = Setting(run, model, _NO_PAIRS, torch.device("cpu"), lambda seed: model)
    optimizer = optimizer_for(model, train)
    images, tokens, lengths = (torch.tensor(arrays[name]) for name in ("images", "tokens", "lengths"))
    batch = Batch(images, (tokens, lengths), torch.arange(len(images)), np.arange(len(images)))
    losses = [step(Scheme(setting), optimizer, batch)[0] for _ in arrays["losses"]]
    return losses, model.state_dict()


def _model(arrays: Vectors, similarity: str, no_imgnorm: bool, use_abs: bool) -> DualEncoder:
    start = step_weights(arrays, 0)
    embed_size, in_features = start["img.fc.weight"].shape
    words, word_dim = start["txt.embed.weight"].shape
    image = Member("linear", ImageLinearOptions(no_imgnorm=no_imgnorm, use_abs=use_abs))
    text = Member("gru", gru.Params(word_dim=word_dim, use_abs=use_abs))
    measure = Member(similarity, SIMILARITIES.options(similarity)())
    model = build(image, text, measure, (in_features,), words, embed_size, seed=0)
    model.load_state_dict(start)
    return model
