"""The encoder against loops over words."""

import math
from collections.abc import Callable
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.naive import training as naive
from tests.train.encoders.contract import check_gradients, weights_of
from vse_pipe.train.encoders import gru
from vse_pipe.train.encoders.gru import build_text
from vse_pipe.train.encoders.options import TextGruOptions as Params
from vse_pipe.train.heads import thinned

WORDS, SIZE = 12, 4
POOLINGS = ("last", "mean", "max", "gpo")
LAYOUTS = list(product(POOLINGS, (1, 2), (False, True)))
LAID_OUT = pytest.mark.parametrize(("pooling", "layers", "bidirectional"), LAYOUTS)
CAPTIONS = st.lists(st.lists(st.integers(0, WORDS - 1), min_size=1, max_size=6), min_size=1, max_size=4)
XAVIER = {
    "embed.weight": math.sqrt(6 / 330),
    "weight_ih": math.sqrt(6 / 94),
    "weight_hh": math.sqrt(6 / 128),
    "bias": 0,
}


def _encoder(seed: int = 0, **options):
    return build_text(Params(word_dim=3, **options), WORDS, SIZE, torch.Generator().manual_seed(seed)).eval()


def _padded(captions, filler: int = 7, extra: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, captions)) + extra
    tokens = [caption + [filler] * (width - len(caption)) for caption in captions]
    return torch.tensor(tokens), torch.tensor([len(caption) for caption in captions])


@LAID_OUT
@given(captions=CAPTIONS)
@settings(max_examples=8, deadline=None)
def test_equals_the_loops_whatever_the_lengths_and_with_a_projection(pooling, layers, bidirectional, captions):
    projection = {"projection": True} if bidirectional else {}
    encoder = _encoder(pooling=pooling, layers=layers, bidirectional=bidirectional, **projection).double()
    with torch.no_grad():
        if bidirectional:
            # The bias makes the scale of what was pooled count: a mean over padding would show.
            encoder.fc.bias.copy_(torch.tensor([0.3, -0.2, 0.1, -0.4]))
        ours = encoder(*_padded(captions)).tolist()
    weights = weights_of(encoder)
    for row, caption in zip(ours, captions, strict=True):
        assert row == pytest.approx(naive.caption(weights, caption, pooling, layers, bidirectional), abs=1e-9)


@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (1, True), (2, True)])
@given(captions=CAPTIONS)
@settings(max_examples=8, deadline=None)
def test_words_equal_the_loops_and_end_with_the_caption(layers, bidirectional, captions):
    encoder = _encoder(layers=layers, bidirectional=bidirectional).double()
    weights, (tokens, lengths) = weights_of(encoder), _padded(captions, extra=2)
    with torch.no_grad():
        ours = encoder.words(tokens, lengths)
    assert ours.shape == (*tokens.shape, SIZE)
    for vectors, caption in zip(ours, captions, strict=True):
        assert not vectors[len(caption) :].any()
        expected = naive.words(weights, caption, layers, bidirectional)
        for vector, wanted in zip(vectors.tolist(), expected, strict=False):
            assert vector == pytest.approx(wanted, abs=1e-9)


@torch.no_grad()
def test_dropout_is_of_word_vectors_and_only_in_training():
    encoder, plain, tokens = _encoder(dropout=0.4), _encoder(), _padded([[1, 2, 3, 4], [5, 6]])
    assert torch.equal(encoder(*tokens), plain(*tokens))
    encoder.train()
    dropped, again = _after(3, encoder, *tokens), _after(3, encoder, *tokens)
    assert not torch.equal(dropped, plain(*tokens))
    assert torch.equal(dropped, again)
    alone = _padded([[1, 2, 3, 2]])
    last = plain.rnn(_after(3, nn.functional.dropout, plain.embed(alone[0]), 0.4))[1][-1]
    torch.testing.assert_close(_after(3, encoder, *alone), last / last.norm())
    before = torch.get_rng_state()
    plain.train()(*tokens)
    assert torch.equal(torch.get_rng_state(), before), "without dropout the generator is left alone"


def _after(seed: int, work: Callable, *arguments: object) -> torch.Tensor:
    torch.manual_seed(seed)
    return work(*arguments)


@pytest.mark.parametrize(
    ("init", "bounds"),
    [("code", {"embed.weight": 0.1, "weight_ih": 1 / 8, "weight_hh": 1 / 8, "bias": 1 / 8}), ("xavier", XAVIER)],
)
def test_initial_weights_fill_the_stated_range(init, bounds):
    encoder = build_text(Params(word_dim=30, init=init, projection=True), 300, 64, torch.Generator().manual_seed(1))
    bounds = {"fc.weight": math.sqrt(6 / 128), "fc.bias": 0.0, **bounds}
    for name, values in encoder.state_dict().items():
        bound = next(size for part, size in bounds.items() if part in name)
        assert 0.97 * bound <= values.abs().max() <= bound, name


@torch.no_grad()
def test_words_are_left_out_in_training_only_and_one_of_every_caption_stays():
    encoder, plain = _encoder(pooling="mean", drop_words=0.5), _encoder(pooling="mean")
    captions = [[1, 2, 3, 4, 5, 6], [7], [8, 9]]
    tokens = _padded(captions)
    assert torch.equal(encoder(*tokens), plain(*tokens))
    encoder.train()
    read = _after(2, thinned, torch.arange(6) < tokens[1][:, None], 0.5)
    left = [[word for word, stays in zip(*both, strict=False) if stays] for both in zip(captions, read, strict=True)]
    assert 0 < len(left[0]) < 6
    torch.testing.assert_close(_after(2, encoder, *tokens), plain(*_padded(left)))
    assert torch.equal(encoder.words(*tokens), plain.words(*tokens))


def test_autocast_rounds_the_products_only():
    encoder, tokens = _encoder(bidirectional=True), _padded([[1, 2, 3, 4], [5, 6]])
    exact = encoder(*tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = encoder(*tokens)
    assert rough.dtype == torch.float32
    assert not torch.equal(rough, exact)
    torch.testing.assert_close(rough, exact, rtol=0, atol=0.03)
    check_gradients(encoder, rough)


def test_a_gru_that_autocast_would_make_float16_stays_float32(monkeypatch):
    monkeypatch.setattr(gru, "_CUDNN", "cpu")
    encoder, tokens = _encoder(bidirectional=True), _padded([[1, 2, 3, 4], [5, 6]])
    exact = encoder(*tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(encoder(*tokens), exact)


@pytest.mark.parametrize(("pooling", "layers"), list(product(POOLINGS, (1, 2))))
def test_padding_as_a_gpu_reads_it_gives_the_values_and_gradients_of_packed_words(pooling, layers, monkeypatch):
    encoder = _encoder(pooling=pooling, layers=layers).double()
    tokens = _padded([[1, 2, 3], [5], [6, 7, 8, 9, 1]], extra=2)

    def read() -> list[torch.Tensor]:
        encoder.zero_grad()
        vectors = [encoder(*tokens), encoder.words(*tokens)]
        sum((side**3).sum() for side in vectors).backward()
        return [*vectors, *(weight.grad.clone() for weight in encoder.parameters())]

    of_packed = read()
    monkeypatch.setattr(gru, "_CUDNN", "cpu")
    monkeypatch.setattr(gru, "packed", None)
    torch.testing.assert_close(read(), of_packed, rtol=1e-9, atol=1e-12)
