"""Both directions in one pass over tiles: the loops, and strips of each direction."""

import numpy as np
import pytest
import torch

from tests.golden.ranking import listed
from tests.ranking.dense import product
from vse_pipe.core.errors import InputError
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import both_ways, criteria, outcomes
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.criteria import Trial, Tuned, rank_fold
from vse_pipe.ranking.outcomes import Depths
from vse_pipe.ranking.scores import Scores

IMAGES, CAPTIONS = 900, 1700
# A rescoring with the query's own term rounds otherwise.
OPTIONS = {"csls": INFERENCES.options("csls")(two_sided=False)}


@pytest.fixture(params=[(2048, 8192), (256, 1024), (401, 300)], ids=["one tile", "tiles", "narrow tiles"])
def tiles(request, monkeypatch):
    monkeypatch.setattr(both_ways, "_IMAGES", request.param[0])
    monkeypatch.setattr(both_ways, "_CAPTIONS", request.param[1])


def vectors(dim=24, count=(IMAGES, CAPTIONS)):
    """Images, captions and the image of each. Values are so few that many scores are equal, and no product is rounded."""
    rng = np.random.default_rng(0)
    pictures, texts = count
    owners = np.concatenate([rng.permutation(pictures), rng.integers(pictures, size=texts - pictures)])
    images = rng.standard_normal((pictures, dim))
    captions = images[owners] + 2.0 * rng.standard_normal((texts, dim))
    return *(torch.from_numpy(side.round() / 4).float() for side in (images, captions)), owners


def sides_of(images, captions, owners, similarity=product, bare=0):
    """Of both directions; the first ``bare`` captions describe no image."""
    one = Scores.from_sides(images, captions, similarity)
    pictures, texts = one.shape
    correct = [np.flatnonzero((owners == image) & (np.arange(texts) >= bare)) for image in range(pictures)]
    back = [owners[[caption]] if caption >= bare else owners[:0] for caption in range(texts)]
    truths = listed(correct, texts), listed(back, pictures)
    return [Trial(of, Bank(of, True), truth) for of, truth in zip((one, one.transposed()), truths, strict=True)]


def both(sides, criterion, ties="pessimistic"):
    tuned = Tuned(criteria.parse(criterion, OPTIONS), {})
    return rank_fold([tuned, tuned], sides, ties, Depths())


def check_strips_give_the_same(found, sides, criterion, ties="pessimistic"):
    for one, side in zip(found, sides, strict=True):
        scores = side.under(criteria.parse(criterion, OPTIONS))
        other = outcomes.rank(scores, side.truth, ties, depths=Depths())
        np.testing.assert_array_equal(one.ranks, other.ranks)
        np.testing.assert_array_equal(one.top, other.top)
        for k, counts in other.occurrence.items():
            np.testing.assert_array_equal(one.occurrence[k], counts)
        for name, values in other.measures.items():
            np.testing.assert_array_equal(one.measures[name], values)


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize(
    ("criterion", "ties", "bare"),
    [("nns", "optimistic", 300), ("csls", "pessimistic", 300), ("nnn", "pessimistic", 0)],
)
def test_one_pass_gives_what_two_over_strips_give(criterion, ties, bare):
    sides = sides_of(*vectors(), bare=bare)
    found = both(sides, criterion, ties)
    check_strips_give_the_same(found, sides, criterion, ties)
    assert len(found[1].ranks) == CAPTIONS - bare


@pytest.mark.usefixtures("tiles")
def test_equal_vectors_tie_against_the_query():
    """Rounded products: a model that gives every picture one vector answers nobody."""
    images, captions = torch.randn(1, 33).expand(IMAGES, -1), torch.randn(1, 33).expand(CAPTIONS, -1)
    found = both(sides_of(images, captions, vectors()[2]), "nns")
    assert min(one.ranks.min() for one in found) > IMAGES // 2


@pytest.mark.parametrize(("value", "criterion"), [(3e38, "nns"), (2e36, "nnn")])
def test_scores_that_are_not_finite_are_refused(value, criterion):
    images, *captions = vectors()
    images[550] = value
    with pytest.raises(InputError, match=r"scores of queries 0 to .* hold NaN or infinite values"):
        both(sides_of(images, *captions), criterion)


def test_a_bank_of_other_queries_corrects_both_directions():
    images, captions, owners = vectors()
    bank = vectors(count=(700, 1400))
    one = Scores.from_sides(bank[0], captions, product)
    back = Scores.from_sides(images, bank[1], product).transposed()
    own = sides_of(images, captions, owners)
    sides = [Trial(side.scores, Bank(of, False), side.truth) for side, of in zip(own, (one, back), strict=True)]
    check_strips_give_the_same(both(sides, "csls"), sides, "csls")
