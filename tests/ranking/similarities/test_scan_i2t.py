import torch
from hypothesis import settings

from tests.ranking.similarities.fragments import DRAWN, Model, Scan
from vse_pipe.ranking.fragments import Words


class TestScan(Scan):
    name, temperature, lse, words_attend = "scan_i2t", 4.0, 5.0, False


@DRAWN
@settings(max_examples=20, deadline=None)
def test_equals_plain_loops(lengths, shape, norm, aggregate):
    TestScan().check_plain_loops(lengths, shape, norm, aggregate)


def test_an_image_scores_the_caption_that_has_its_regions():
    """Regions that are the words themselves beat regions that are orthogonal to them."""
    words = torch.eye(6)[:3]
    images = torch.stack([torch.eye(6)[:3], torch.eye(6)[3:]])
    scores = Model("scan_i2t")(images, Words(words, torch.tensor([3])))
    assert scores[0, 0] > 0.9
    assert scores[1, 0] == 0
