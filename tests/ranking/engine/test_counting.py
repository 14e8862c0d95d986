import torch

from vse_pipe.ranking.matrix import per_row


def test_true_entries_of_each_row():
    mask = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])
    assert per_row(mask).tolist() == [2, 0, 3]
    assert per_row(mask.T).tolist() == [2, 1, 2]
    assert per_row(mask[:, :0]).tolist() == [0, 0, 0]
