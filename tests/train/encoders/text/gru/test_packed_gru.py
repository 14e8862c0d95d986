import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from vse_pipe.train.encoders.text.gru.packed_gru import run, supported

LENGTHS = torch.tensor([3, 6, 1, 1, 2, 5, 4, 6, 3])
CPU = torch.device("cpu")


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


@pytest.mark.parametrize(
    "lengths", [LENGTHS, torch.tensor([4]), torch.tensor([1]), torch.tensor([1, 1]), torch.tensor([5, 5])]
)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_equals_the_gru_of_pytorch_in_values_and_gradients(lengths, bidirectional, dtype, close):
    rnn, vectors, tokens = (_gru(dtype=dtype, bidirectional=bidirectional), _vectors(dtype=dtype), _tokens(lengths))
    wanted = [vectors, *rnn.parameters()]
    expected = rnn(_pack(vectors[tokens], lengths))
    slopes = _gradients(expected, wanted)
    for result in (run(rnn, _pack(vectors[tokens], lengths)), run(rnn, _pack(tokens, lengths), vectors)):
        torch.testing.assert_close(result, expected, rtol=close, atol=close)
        torch.testing.assert_close(_gradients(result, wanted), slopes, rtol=close, atol=close)


@pytest.mark.parametrize("use", ["states", "final"])
def test_either_output_alone_has_its_gradient(use):
    rnn, vectors = _gru(bidirectional=True), _vectors()
    wanted = [vectors, *rnn.parameters()]
    ours, expected = run(rnn, _pack(_tokens()), vectors), rnn(_pack(vectors[_tokens()]))
    torch.testing.assert_close(_gradients(ours, wanted, [use]), _gradients(expected, wanted, [use]))


def test_many_columns_and_large_gates_in_single_precision():
    """Whole vectors and a rest in the compiled loops; gates shut to the last bit."""
    rnn, vectors = _gru(inputs=5, dim=133, dtype=torch.float32, scale=30.0), _vectors(dtype=torch.float32)
    packed, wanted = _pack(_tokens()), [vectors, *rnn.parameters()]
    # In float64 from the same weights: products of that size differ by more than the gates do.
    exact = _gru(inputs=5, dim=133, dtype=torch.float64)
    exact.load_state_dict(rnn.state_dict())
    expected = exact(_pack(vectors[_tokens()].double()))
    torch.testing.assert_close(run(rnn, packed, vectors)[0].data.double(), expected[0].data, rtol=0, atol=2e-3)
    assert all(slope.isfinite().all() for slope in _gradients(run(rnn, packed, vectors), wanted))


def test_compiled_sigmoid_and_tanh_are_exact_to_single_precision_and_keep_what_is_no_number():
    rnn = _gru(inputs=1, dim=1, dtype=torch.float32)
    grid = torch.cat([torch.linspace(-120, 120, 40001), torch.tensor([1e30, -1e30, float("nan")])])
    with torch.no_grad():
        for weight in rnn.parameters():
            weight.zero_()
        rnn.weight_ih_l0[1:] = 1.0
        expected = ((1 - torch.sigmoid(grid.double())) * torch.tanh(grid.double()))[:, None]
        ours = run(rnn, _pack(grid[:, None, None], torch.ones(len(grid), dtype=torch.int64)))[1][0]
    torch.testing.assert_close(ours.double(), expected, rtol=0, atol=2e-7, equal_nan=True)
    assert ours[-1].isnan()


def test_gradients_are_those_of_finite_differences():
    rnn, vectors, tokens = (_gru(3, 2, bidirectional=True), _vectors(6, 3), _tokens(torch.tensor([3, 1, 2]), words=6))

    def outputs(vectors, *weights):
        states, final = run(rnn, _pack(tokens, torch.tensor([3, 1, 2])), vectors)
        return states.data, final

    assert torch.autograd.gradcheck(outputs, (vectors, *rnn.parameters()))


def test_captions_in_another_order_have_the_same_vectors():
    rnn, vectors, tokens = _gru(bidirectional=True), _vectors(), _tokens()
    order = torch.randperm(len(LENGTHS), generator=torch.Generator().manual_seed(3))
    states, final = run(rnn, _pack(tokens), vectors)
    moved_states, moved = run(rnn, _pack(tokens[order], LENGTHS[order]), vectors)
    torch.testing.assert_close(moved, final[:, order])
    padded, moved_padded = (pad_packed_sequence(part, batch_first=True)[0] for part in (states, moved_states))
    torch.testing.assert_close(moved_padded, padded[order])
    falling = LENGTHS.argsort(descending=True)
    sorted_final = run(rnn, _pack(tokens[falling], LENGTHS[falling], enforce_sorted=True), vectors)[1]
    torch.testing.assert_close(sorted_final, final[:, falling])


def test_two_calls_give_the_same_bits():
    rnn, vectors, packed = _gru(dim=64, dtype=torch.float32), _vectors(dtype=torch.float32), _pack(_tokens())
    first, second = (
        [*run(rnn, packed, vectors), *_gradients(run(rnn, packed, vectors), [vectors, *rnn.parameters()])] for _ in "ab"
    )
    assert torch.equal(first[0].data, second[0].data)
    assert all(torch.equal(one, other) for one, other in zip(first[1:], second[1:], strict=True))


def test_without_gradients_the_same_values_and_no_graph():
    rnn, vectors, packed = _gru(), _vectors(), _pack(_tokens())
    with torch.no_grad():
        states, final = run(rnn, packed, vectors)
    assert not final.requires_grad
    expected = run(rnn, packed, vectors)
    assert expected[1].requires_grad
    torch.testing.assert_close((states.data, final), (expected[0].data, expected[1]), rtol=0, atol=0)


def test_frozen_word_vectors_get_no_gradient_and_the_weights_the_same():
    rnn, vectors, packed = _gru(), _vectors(), _pack(_tokens())
    frozen = run(rnn, packed, vectors.detach())
    weights = list(rnn.parameters())
    torch.testing.assert_close(_gradients(frozen, weights), _gradients(run(rnn, packed, vectors), weights))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_autocast_rounds_the_products_only(dtype):
    rnn, vectors, packed = _gru(16, 32, dtype, bidirectional=True), _vectors(12, 16, dtype), _pack(_tokens())
    wanted = [vectors, *rnn.parameters()]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = run(rnn, packed, vectors)
    assert rough[1].dtype == dtype
    exact = run(rnn, packed, vectors)
    assert not torch.equal(rough[1], exact[1])
    torch.testing.assert_close(rough[1], exact[1], rtol=0, atol=0.02)
    for slope, expected in zip(_gradients(rough, wanted), _gradients(exact, wanted), strict=True):
        assert slope.dtype == dtype
        assert (slope - expected).norm() < 0.03 * expected.norm()


def test_buffers_go_with_the_backward_pass():
    rnn, vectors, packed = _gru(), _vectors(), _pack(_tokens())
    final = run(rnn, packed, vectors)[1]
    node = final.grad_fn
    while "_Recurrence" not in type(node).__name__:
        node = node.next_functions[0][0]
    assert any(tensor.shape == (int(LENGTHS.sum()), 21) for tensor in node.saved_tensors)
    final.sum().backward()
    with pytest.raises(RuntimeError, match="already been freed"):
        node.saved_tensors  # noqa: B018
    assert not any(isinstance(value, torch.Tensor) for value in vars(node).values())


def test_which_grus_it_stands_in_for():
    assert supported(_gru(bidirectional=True), CPU)
    assert not supported(_gru(), torch.device("cuda"))
    assert not supported(_gru(num_layers=2), CPU)
    assert not supported(_gru(bias=False), CPU)
    assert not supported(_gru().half(), CPU)
