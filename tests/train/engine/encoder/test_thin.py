import torch

from vse_pipe.train.engine.encoder.thin import thinned, without_some


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


def test_numbers_go_and_a_vector_keeps_its_length():
    vectors = torch.randn(400, 50)
    torch.manual_seed(1)
    found = without_some(vectors, 0.3)
    assert abs((found == 0).float().mean() - 0.3) < 0.01
    torch.testing.assert_close(found.norm(dim=1), vectors.norm(dim=1))
    for row, whole in zip(found, vectors, strict=True):
        left = row != 0
        torch.testing.assert_close(row[left], whole[left] * (whole.norm() / whole[left].norm()))


def test_a_vector_of_which_nothing_would_be_left_stays_and_zero_stays_zero():
    vectors = torch.eye(200)
    vectors[0] = 0
    torch.manual_seed(1)
    assert torch.equal(without_some(vectors, 0.9), vectors)
