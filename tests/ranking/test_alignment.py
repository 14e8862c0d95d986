"""Portions of captions, and scores against those of a loop over captions."""

import pytest
import torch

from tests.benchmarks.kernels import score_by_caption
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.ranking import alignment
from vse_pipe.ranking.fragments import Words

LENGTHS = [5, 2, 9, 2, 5, 1, 2, 2]


def words(lengths=LENGTHS) -> Words:
    return Words(torch.arange(float(sum(lengths)))[:, None], torch.tensor(lengths))


@pytest.mark.parametrize(("portion", "chunk"), [(1, 1), (8, 4), (10, 100), (1000, 1000)])
def test_each_caption_comes_once_whole_and_within_the_limits(portion, chunk, monkeypatch):
    monkeypatch.setattr(alignment, "PORTION", 3 * portion)
    monkeypatch.setattr(alignment, "CHUNK", 3 * chunk)
    seen = []

    def part(given):
        assert len(given.vectors) <= portion or sum(count for count, _ in given.shapes) == 1
        assert all(count * length <= chunk or count == 1 for count, length in given.shapes)
        found = [piece[:, :, 0] for piece in given.chunks(given.vectors, 0)]
        seen.extend(row.tolist() for piece in found for row in piece)
        return (torch.cat([piece[:, 0] for piece in found]),)

    (firsts,) = alignment.over_captions(part, words(), rows=3, saved=1)
    assert firsts.tolist() == words().starts[:-1].tolist()
    assert sorted(seen) == [part.flatten().tolist() for part in words().vectors.split(LENGTHS)]


def test_what_is_kept_for_the_way_back_has_a_limit(monkeypatch):
    """16 bytes a word and 96 in all: portions of 24 bytes, one word or one caption; those after 6 words run twice."""
    monkeypatch.setattr(alignment, "KEPT", 96)
    runs = []

    def part(given):
        runs.append(len(given.vectors))
        return (given.vectors.exp().sum()[None],)

    lengths = [1] * 10
    given = words(lengths)
    given.vectors.requires_grad_()
    alignment.over_captions(part, given, rows=1, saved=16)[0].sum().backward()
    assert len(runs) == 10 + 4
    torch.testing.assert_close(given.vectors.grad, given.vectors.detach().exp())
    runs.clear()
    with torch.no_grad():
        alignment.over_captions(part, given, rows=1, saved=16)
    assert len(runs) == 10


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
