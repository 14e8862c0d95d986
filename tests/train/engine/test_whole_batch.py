"""What each of several processes draws is its part of what one draws; none is started here."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torchvision.ops import stochastic_depth

from vse_pipe.core.errors import UsageError
from vse_pipe.core.processes import Share
from vse_pipe.train import processes

SIZES = (3, 2)
LENGTHS = torch.tensor([2, 5, 1, 4, 3])
SHARES = [Share(SIZES, number) for number in range(len(SIZES))]


def _drawn(share: Share | None, work: Callable[[], Tensor]) -> Tensor:
    torch.manual_seed(7)
    with processes.rows(share or Share((sum(SIZES),), 0)):
        return work()


def _packed(words: Tensor, lengths: Tensor) -> PackedSequence:
    return pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)


def _dropped(p: float, words: Tensor, lengths: Tensor) -> Tensor:
    packed = _packed(words, lengths)
    data = processes.of_tokens(nn.Dropout(p), packed, packed.data)
    return pad_packed_sequence(PackedSequence(data, *packed[1:]), batch_first=True)[0]


@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))],
)
def test_words_left_out_are_those_of_one_process(device, monkeypatch):
    monkeypatch.setattr(Share, "gather", lambda share, own: LENGTHS)
    words = torch.rand(sum(SIZES), 5, 4, device=device) + 1
    whole = _drawn(None, lambda: _dropped(0.5, words, LENGTHS))
    assert 0 < (whole == 0).sum() - (5 * 5 - LENGTHS.sum()) * 4 < LENGTHS.sum() * 4
    for share in SHARES:
        own = _drawn(share, lambda rows=share.rows: _dropped(0.5, words[rows], LENGTHS[rows]))
        torch.testing.assert_close(own, whole[share.rows, : own.shape[1]], rtol=0, atol=0)


def test_without_dropout_nobody_is_asked(monkeypatch):
    monkeypatch.setattr(Share, "gather", lambda share, own: pytest.fail("nothing is drawn"))
    words = torch.rand(3, 5, 4)
    own = _drawn(SHARES[0], lambda: _dropped(0.0, words, LENGTHS[:3]))
    assert torch.equal(own, pad_packed_sequence(_packed(words, LENGTHS[:3]), batch_first=True)[0])


@pytest.mark.parametrize("crops", [1, 3])
def test_branches_left_out_are_those_of_one_process(crops):
    def left(images: int) -> Tensor:
        return stochastic_depth(torch.ones(images * crops, 2, 2), 0.5, "row")

    whole = _drawn(None, lambda: left(sum(SIZES)))
    assert 0 < whole.sum() < whole.numel() * 2
    own = [_drawn(share, lambda size=size: left(size)) for share, size in zip(SHARES, SIZES, strict=True)]
    assert torch.equal(torch.cat(own), whole)


def test_what_is_drawn_for_other_rows_is_refused():
    with pytest.raises(UsageError, match="random numbers for 1 rows where 3 are encoded"):
        _drawn(SHARES[0], lambda: stochastic_depth(torch.ones(3, 2), 0.5, "batch"))
