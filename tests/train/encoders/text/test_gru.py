import pytest
import torch

from pipeline.train.encoders.text.gru import Params, build


def _encoder(**options):
    return build(Params(word_dim=5, **options), 12, 7, torch.Generator().manual_seed(0)).eval()


def _literal(encoder, tokens) -> torch.Tensor:
    """One caption, one step at a time, gates r, z, n."""
    rnn, state = encoder.rnn, torch.zeros(7)
    for token in tokens:
        inputs = rnn.weight_ih_l0 @ encoder.embed.weight[token] + rnn.bias_ih_l0
        states = rnn.weight_hh_l0 @ state + rnn.bias_hh_l0
        r, z = torch.sigmoid(inputs[:7] + states[:7]), torch.sigmoid(inputs[7:14] + states[7:14])
        n = torch.tanh(inputs[14:] + r * states[14:])
        state = (1 - z) * n + z * state
    return state / state.norm()


@pytest.mark.parametrize("use_abs", [False, True])
def test_equals_a_literal_gru_whatever_the_padding(use_abs):
    encoder = _encoder(use_abs=use_abs)
    tokens = torch.tensor([[1, 4, 5, 2, 0, 9], [1, 3, 2, 7, 7, 7], [1, 4, 4, 4, 4, 2]])
    lengths = torch.tensor([4, 3, 6])
    with torch.no_grad():
        ours = encoder(tokens, lengths)
        for row, length in enumerate(lengths):
            expected = _literal(encoder, tokens[row, :length])
            torch.testing.assert_close(ours[row], expected.abs() if use_abs else expected)


def test_initial_weights_come_from_the_generator():
    weights = [build(Params(), 12, 7, torch.Generator().manual_seed(s)).rnn.weight_hh_l0 for s in (1, 1, 2)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
