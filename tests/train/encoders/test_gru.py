"""The encoder against loops over words, and its compiled recurrence against PyTorch's GRU."""

import math
from collections.abc import Callable
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tests.naive import training as naive
from tests.train.encoders.contract import check_draws, check_gradients, weights_of
from vse_pipe.core.errors import InputError
from vse_pipe.project.registry import TEXT_ENCODERS
from vse_pipe.train.encoders.gru import _can_be_packed, build_text, packed_gru
from vse_pipe.train.encoders.options import TextGruOptions as Params
from vse_pipe.train.heads import thinned

WORDS, SIZE = 12, 4
POOLINGS = ("last", "mean", "max", "gpo")
LAYOUTS = list(product(POOLINGS, (1, 2), (False, True)))
LAID_OUT = pytest.mark.parametrize(("pooling", "layers", "bidirectional"), LAYOUTS)
POOLED = pytest.mark.parametrize("pooling", POOLINGS)
CAPTIONS = st.lists(st.lists(st.integers(0, WORDS - 1), min_size=1, max_size=6), min_size=1, max_size=4)
XAVIER = {
    "embed.weight": math.sqrt(6 / 330),
    "weight_ih": math.sqrt(6 / 94),
    "weight_hh": math.sqrt(6 / 128),
    "bias": 0,
}
LENGTHS = torch.tensor([3, 6, 1, 1, 2, 5, 4, 6, 3])
CPU = torch.device("cpu")


def _encoder(seed: int = 0, **options):
    return build_text(Params(word_dim=3, **options), WORDS, SIZE, torch.Generator().manual_seed(seed)).eval()


def _padded(captions, filler: int = 7, extra: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, captions)) + extra
    tokens = [caption + [filler] * (width - len(caption)) for caption in captions]
    return torch.tensor(tokens), torch.tensor([len(caption) for caption in captions])


@LAID_OUT
@given(captions=CAPTIONS)
@settings(max_examples=8, deadline=None)
def test_equals_the_loops_whatever_the_lengths(pooling, layers, bidirectional, captions):
    encoder = _encoder(pooling=pooling, layers=layers, bidirectional=bidirectional).double()
    weights = weights_of(encoder)
    with torch.no_grad():
        ours = encoder(*_padded(captions)).tolist()
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


@LAID_OUT
def test_padding_has_no_part_and_gradients_reach_every_weight(pooling, layers, bidirectional):
    encoder = _encoder(pooling=pooling, layers=layers, bidirectional=bidirectional, projection=True)
    captions = [[1, 4, 5, 2], [1, 3, 2], [1, 4, 4, 4, 4, 2], [6]]
    with torch.no_grad():
        together = encoder(*_padded(captions, filler=9))
        assert torch.equal(together, encoder(*_padded(captions, filler=0, extra=3)))
        for row, caption in zip(together, captions, strict=True):
            torch.testing.assert_close(row, encoder(*_padded([caption]))[0])
    check_gradients(encoder, encoder.train()(*_padded(captions)))


@POOLED
@pytest.mark.parametrize("bidirectional", [False, True])
def test_padding_gets_no_gradient(pooling, bidirectional):
    encoder = _encoder(pooling=pooling, bidirectional=bidirectional)
    encoder(*_padded([[1, 2, 3, 4], [5]], filler=9))[:, 0].sum().backward()
    reached = set(encoder.embed.weight.grad.any(dim=1).nonzero().flatten().tolist())
    assert {5} <= reached <= {1, 2, 3, 4, 5}


@POOLED
def test_projection_comes_after_pooling_and_use_abs_last(pooling):
    """The bias makes the scale of what was pooled count: a mean over padding would show."""
    encoder, captions = _encoder(pooling=pooling, projection=True).double(), [[1, 2, 3, 4], [5]]
    with torch.no_grad():
        encoder.fc.bias.copy_(torch.tensor([0.3, -0.2, 0.1, -0.4]))
        ours = encoder(*_padded(captions)).tolist()
        plain = _encoder(pooling=pooling)(*_padded(captions))
        assert (plain < 0).any()
        assert torch.equal(_encoder(pooling=pooling, use_abs=True)(*_padded(captions)), plain.abs())
    for row, caption in zip(ours, captions, strict=True):
        assert row == pytest.approx(naive.caption(weights_of(encoder), caption, pooling), abs=1e-9)


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


@pytest.mark.parametrize("init", ["code", "xavier"])
def test_weights_come_from_the_generator(init):
    params = Params(bidirectional=True, projection=True, pooling="gpo", init=init)
    check_draws(lambda rng: build_text(params, 12, 7, rng))


def test_options_do_not_move_the_draws_of_the_default():
    plain, more = _encoder().state_dict(), _encoder(pooling="gpo", dropout=0.5, projection=True).state_dict()
    assert all(torch.equal(values, more[name]) for name, values in plain.items())
    assert list(plain) == ["embed.weight", "rnn.weight_ih_l0", "rnn.weight_hh_l0", "rnn.bias_ih_l0", "rnn.bias_hh_l0"]
    assert {name.partition(".")[0] for name in set(more) - set(plain)} == {"fc", "gpo"}


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


def test_gradients_of_words_reach_every_weight():
    encoder = _encoder(bidirectional=True)
    check_gradients(encoder, encoder.words(*_padded([[1, 2, 3], [4]])))


@pytest.mark.parametrize(
    ("rows", "lengths", "message"),
    [
        (2, [2, 0], "captions of 1 to 3 tokens, got lengths 0 to 2"),
        (2, [4, 1], "captions of 1 to 3 tokens, got lengths 1 to 4"),
        (2, [3], r"a length each, got shapes \(2, 3\) and \(1,\)"),
        (0, [], r"got shapes \(0, 3\) and \(0,\)"),
    ],
)
def test_lengths_that_are_none_of_the_tokens(rows, lengths, message):
    with pytest.raises(InputError, match=f"text encoder 'gru' needs .*{message}"):
        _encoder()(torch.ones(rows, 3, dtype=torch.int64), torch.tensor(lengths, dtype=torch.int64))


@pytest.mark.parametrize("options", [{"pooling": "first"}, {"dropout": 1.0}, {"init": "he"}, {"layers": 0}])
def test_unknown_options_are_refused(options):
    assert TEXT_ENCODERS.traits("gru").reads == "tokens"
    with pytest.raises(ValidationError):
        Params(**options)


def _gru(inputs=5, dim=7, dtype=torch.float64, seed=0, scale=1.0, **options):
    torch.manual_seed(seed)
    rnn = nn.GRU(inputs, dim, batch_first=True, dtype=dtype, **options)
    with torch.no_grad():
        for weight in rnn.parameters():
            weight.mul_(scale)
    return rnn


def _tokens(lengths=LENGTHS, words=12, seed=1):
    return torch.randint(0, words, (len(lengths), int(lengths.max())), generator=torch.Generator().manual_seed(seed))


def _pack(values, lengths=LENGTHS, enforce_sorted=False):
    return pack_padded_sequence(values, lengths, batch_first=True, enforce_sorted=enforce_sorted)


def _vectors(rows=12, inputs=5, dtype=torch.float64):
    return torch.randn(rows, inputs, dtype=dtype, generator=torch.Generator().manual_seed(2), requires_grad=True)


def _gradients(result, wanted, use=("states", "final")):
    """Of a sum in which no two outputs count the same."""
    parts = {"states": pad_packed_sequence(result[0], batch_first=True)[0], "final": result[1]}
    total = sum((parts[name] * torch.linspace(-1, 2, parts[name].numel()).view_as(parts[name])).sum() for name in use)
    return torch.autograd.grad(total, wanted)


def _setting(inputs=5, dim=7, dtype=torch.float64, **options):
    """A GRU, word vectors, tokens, and all that takes a gradient."""
    rnn, vectors = _gru(inputs, dim, dtype, **options), _vectors(inputs=inputs, dtype=dtype)
    return rnn, vectors, _pack(_tokens()), [vectors, *rnn.parameters()]


@pytest.mark.parametrize("lengths", [LENGTHS, *map(torch.tensor, ([4], [1], [1, 1], [5, 5]))])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_equals_the_gru_of_pytorch_in_values_and_gradients(lengths, bidirectional, dtype, close):
    rnn, vectors, _, wanted = _setting(dtype=dtype, bidirectional=bidirectional)
    tokens = _tokens(lengths)
    expected = rnn(_pack(vectors[tokens], lengths))
    slopes = _gradients(expected, wanted)
    for result in (packed_gru(rnn, _pack(vectors[tokens], lengths)), packed_gru(rnn, _pack(tokens, lengths), vectors)):
        torch.testing.assert_close(result, expected, rtol=close, atol=close)
        torch.testing.assert_close(_gradients(result, wanted), slopes, rtol=close, atol=close)


@pytest.mark.parametrize("use", ["states", "final"])
def test_either_output_alone_has_its_gradient(use):
    rnn, vectors, packed, wanted = _setting(bidirectional=True)
    ours, expected = packed_gru(rnn, packed, vectors), rnn(_pack(vectors[_tokens()]))
    torch.testing.assert_close(_gradients(ours, wanted, [use]), _gradients(expected, wanted, [use]))


def test_many_columns_large_gates_and_any_argument_are_exact_to_single_precision():
    """Whole vectors and a rest in the compiled loops; gates shut to the last bit."""
    rnn, vectors, packed, wanted = _setting(dim=133, dtype=torch.float32, scale=30.0)
    # In float64 from the same weights: products of that size differ by more than the gates do.
    exact = _gru(dim=133)
    exact.load_state_dict(rnn.state_dict())
    expected = exact(_pack(vectors[_tokens()].double()))
    torch.testing.assert_close(packed_gru(rnn, packed, vectors)[0].data.double(), expected[0].data, rtol=0, atol=2e-3)
    assert all(slope.isfinite().all() for slope in _gradients(packed_gru(rnn, packed, vectors), wanted))
    rnn = _gru(inputs=1, dim=1, dtype=torch.float32, scale=0.0)
    grid = torch.cat([torch.linspace(-120, 120, 40001), torch.tensor([1e30, -1e30, float("nan")])])
    with torch.no_grad():
        rnn.weight_ih_l0[1:] = 1.0
        expected = ((1 - torch.sigmoid(grid.double())) * torch.tanh(grid.double()))[:, None]
        ours = packed_gru(rnn, _pack(grid[:, None, None], torch.ones(len(grid), dtype=torch.int64)))[1][0]
    torch.testing.assert_close(ours.double(), expected, rtol=0, atol=2e-7, equal_nan=True)
    assert ours[-1].isnan()


def test_gradients_are_those_of_finite_differences():
    lengths = torch.tensor([3, 1, 2])
    rnn, vectors, packed = _gru(3, 2, bidirectional=True), _vectors(6, 3), _pack(_tokens(lengths, words=6), lengths)

    def outputs(vectors, *weights):
        states, final = packed_gru(rnn, packed, vectors)
        return states.data, final

    assert torch.autograd.gradcheck(outputs, (vectors, *rnn.parameters()))


def test_in_falling_order_and_without_gradients_the_same_values():
    rnn, vectors, packed, _ = _setting(bidirectional=True)
    falling = LENGTHS.argsort(descending=True)
    final = packed_gru(rnn, packed, vectors)[1]
    ordered = packed_gru(rnn, _pack(_tokens()[falling], LENGTHS[falling], enforce_sorted=True), vectors)[1]
    torch.testing.assert_close(ordered, final[:, falling])
    rnn, vectors, packed, wanted = _setting()
    with torch.no_grad():
        states, final = packed_gru(rnn, packed, vectors)
    expected = packed_gru(rnn, packed, vectors)
    assert (final.requires_grad, expected[1].requires_grad) == (False, True)
    torch.testing.assert_close((states.data, final), (expected[0].data, expected[1]), rtol=0, atol=0)
    frozen = packed_gru(rnn, packed, vectors.detach())
    torch.testing.assert_close(_gradients(frozen, wanted[1:]), _gradients(expected, wanted[1:]))


def test_two_calls_give_the_same_bits():
    rnn, vectors, packed, wanted = _setting(dim=64, dtype=torch.float32)
    first, second = (
        [*packed_gru(rnn, packed, vectors), *_gradients(packed_gru(rnn, packed, vectors), wanted)] for _ in "ab"
    )
    assert torch.equal(first[0].data, second[0].data)
    assert all(torch.equal(one, other) for one, other in zip(first[1:], second[1:], strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_autocast_rounds_the_products_only(dtype):
    rnn, vectors, packed, wanted = _setting(16, 32, dtype, bidirectional=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = packed_gru(rnn, packed, vectors)
    exact = packed_gru(rnn, packed, vectors)
    assert rough[1].dtype == dtype
    assert not torch.equal(rough[1], exact[1])
    torch.testing.assert_close(rough[1], exact[1], rtol=0, atol=0.02)
    for slope, expected in zip(_gradients(rough, wanted), _gradients(exact, wanted), strict=True):
        assert slope.dtype == dtype
        assert (slope - expected).norm() < 0.03 * expected.norm()


def test_buffers_go_with_the_backward_pass():
    rnn, vectors, packed, _ = _setting()
    final = packed_gru(rnn, packed, vectors)[1]
    node = final.grad_fn
    while "_Recurrence" not in type(node).__name__:
        node = node.next_functions[0][0]
    assert any(tensor.shape == (int(LENGTHS.sum()), 21) for tensor in node.saved_tensors)
    final.sum().backward()
    with pytest.raises(RuntimeError, match="already been freed"):
        node.saved_tensors  # noqa: B018
    assert not any(isinstance(value, torch.Tensor) for value in vars(node).values())


def test_which_grus_it_stands_in_for():
    assert _can_be_packed(_gru(bidirectional=True), CPU)
    others = [
        (_gru(), torch.device("cuda")),
        *((rnn, CPU) for rnn in (_gru(num_layers=2), _gru(bias=False), _gru().half())),
    ]
    assert [_can_be_packed(*other) for other in others] == [False] * 4
