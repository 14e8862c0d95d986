import torch
from hypothesis import settings

from tests.ranking.similarities.fragments import DRAWN, Model, Scan
from vse_pipe.ranking.fragments import Words


class TestScan(Scan):
    name, temperature, lse, words_attend = "scan_t2i", 9.0, 6.0, True


@DRAWN
@settings(max_examples=20, deadline=None)
def test_equals_plain_loops(lengths, shape, norm, aggregate):
    TestScan().check_plain_loops(lengths, shape, norm, aggregate)


def test_a_caption_scores_the_image_that_has_its_words():
    """Regions that are the words themselves beat regions that are orthogonal to them."""
    words = torch.eye(6)[:3]
    images = torch.stack([torch.eye(6)[:3], torch.eye(6)[3:]])
    scores = Model("scan_t2i")(images, Words(words, torch.tensor([3])))
    assert scores[0, 0] > 0.9
    assert scores[1, 0] == 0
