import numpy as np

from vse_pipe.project.registry import PROTOCOLS

member = PROTOCOLS.load("as_is")


def test_nothing_moves_and_the_argument_is_not_handed_back():
    captions = np.array([2, 0, 0, 1])
    shown = member.corrupt(captions, 3, None, np.random.RandomState(0))
    assert shown.tolist() == captions.tolist()
    shown[0] = 9
    assert captions[0] == 2
