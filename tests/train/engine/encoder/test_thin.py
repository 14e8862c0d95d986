import torch

from pipeline.train.engine.encoder.thin import thinned


def test_the_share_goes_and_one_of_every_set_stays():
    sizes = torch.tensor([1, 2, 40]).repeat(500)
    present = torch.arange(40) < sizes[:, None]
    torch.manual_seed(1)
    kept = thinned(present, 0.2)
    assert not (kept & ~present).any()
    assert kept.any(dim=1).all()
    assert abs(kept[sizes == 40].float().mean() - 0.8) < 0.01
    assert thinned(present, 0.999).sum(dim=1).min() == 1
    torch.manual_seed(1)
    assert torch.equal(thinned(present, 0.2), kept)


def test_nothing_goes_at_share_zero():
    present = torch.tensor([[True, False, True]])
    assert torch.equal(thinned(present, 0.0), present)
