import numpy as np

from vse_pipe.ranking.matrix import spans


def test_ranges_are_joined_in_the_order_given():
    assert spans(np.array([4, 0, 9]), np.array([2, 3, 1])).tolist() == [4, 5, 0, 1, 2, 9]


def test_empty_ranges_leave_no_trace():
    assert spans(np.array([7, 3, 5]), np.array([0, 2, 0])).tolist() == [3, 4]
    assert spans(np.array([], np.int64), np.array([], np.int64)).tolist() == []
