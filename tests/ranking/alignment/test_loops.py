import pytest
import torch

from tests.benchmarks.kernels import score_by_caption
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.ranking.fragments import Words


@pytest.mark.parametrize("name", ["scan_t2i", "scan_i2t", "sgr", "saf"])
@pytest.mark.parametrize("training", [False, True])
def test_what_ours_are_timed_against_gives_the_same_scores(name, training):
    member = SIMILARITIES.load(name)
    options = {} if name.startswith("scan") else {"sim_dim": 6, "dropout": 0.0}
    params, rng = member.Params(**options), torch.Generator().manual_seed(1)
    images = torch.nn.functional.normalize(torch.randn(4, 3, 8, generator=rng), dim=2)
    lengths = torch.tensor([2, 5, 1])
    words = Words(torch.nn.functional.normalize(torch.randn(8, 8, generator=rng), dim=1), lengths)
    extra = (member.network(params, 8, 3, rng).train(training),) if options else ()
    expected = score_by_caption(name, images, words, params, *extra)
    torch.testing.assert_close(member.score(images, words, params, *extra), expected, rtol=1e-4, atol=1e-5)
