import torch

from vse_pipe.train.schemes.crcl.targets import refined

LAST, CHANCES = torch.tensor([1.0, 0.2, 0.0, 0.05]), torch.tensor([0.5, 0.0, 0.4, 0.9])


def test_a_target_moves_towards_the_chance_and_is_cut_off_below_the_floor():
    expected = torch.tensor([0.9, 0.16, 0.0, 0.22])
    torch.testing.assert_close(refined(LAST, CHANCES, 0.8, 0.1), expected)
    torch.testing.assert_close(refined(LAST, CHANCES, 0.8, 0.0)[2], torch.tensor(0.08))


def test_a_share_of_one_stays_but_for_the_floor():
    torch.testing.assert_close(refined(LAST, CHANCES, 1.0, 0.1), torch.tensor([1.0, 0.2, 0.0, 0.0]))


def test_what_is_given_is_not_changed():
    before = LAST.clone()
    refined(LAST, CHANCES, 1.0, 0.3)
    assert torch.equal(LAST, before)
