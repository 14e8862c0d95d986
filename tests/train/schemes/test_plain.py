import numpy as np
import torch

from tests.train.some import some_pairs, some_scheme
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.batch import Scored


def test_the_loss_of_the_batch_and_nothing_else():
    pairs = some_pairs()
    scheme = some_scheme(pairs, "max")
    batch = pairs.batch(np.array([3, 8, 14, 21]))
    images, texts = scheme.setting.model.encode(batch, torch.device("cpu"))
    scheme.start(0)
    member = LOSSES.load("max")
    expected = member.loss(Scored.from_scores(images @ texts.T), member.Params())
    torch.testing.assert_close(scheme.terms(images, texts, batch).per_pair, expected.per_pair)


def test_captions_of_one_image_are_negatives_unless_masked():
    pairs = some_pairs(each=3)
    batch = pairs.batch(np.array([0, 1, 2, 6]))
    counted = []
    for masked in (False, True):
        scheme = some_scheme(pairs, train={"mask_same_image": masked})
        scored = scheme.scored(*scheme.setting.model.encode(batch, torch.device("cpu")), batch)
        counted.append(int(scored.same.sum()))
        assert scored.owners.tolist() == [10, 10, 10, 30]
    assert counted == [4, 10]
