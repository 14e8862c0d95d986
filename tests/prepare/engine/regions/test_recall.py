"""Which mentions a proposal covers."""

import numpy as np

from vse_pipe.prepare.regions import covered


def test_recall_counts_an_overlap_of_exactly_a_half():
    box = np.array([[0.0, 0.0, 9.0, 9.0]])
    assert covered([box, box], [np.array([[0.0, 0.0, 9.0, 4.0]]), np.array([[0.0, 0.0, 9.0, 3.0]])]).tolist() == [
        True,
        False,
    ]
