"""Fused scores and cascades against loops over queries."""

import numpy as np
import pytest
import torch

from tests.naive import criteria as naive
from tests.ranking.dense import product, unit_vectors, whole
from tests.ranking.similarities.fragments import Model
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.project.params.typed import Member
from vse_pipe.ranking import cascade, criteria
from vse_pipe.ranking.cascade import Cascade, ScoredPairs, cascaded
from vse_pipe.ranking.criteria import Tuned, rank_fold, trials
from vse_pipe.ranking.fragments import Fused, MeanScore, Several, Similarity, Words
from vse_pipe.ranking.outcomes import Depths
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.split import BankSource, Split, cosine

WEIGHTS = (0.5, 0.2, 0.3)


def of_words(images, captions):
    return (images @ captions.vectors[captions.starts[:-1]].T).sigmoid()


def models(seed: int, images: int = 23, captions: int = 41) -> tuple[Several, Several, list]:
    """Small whole numbers, so that many scores tie, ordinary vectors, and words that only fragment models compare."""
    rng = torch.Generator().manual_seed(seed)
    coarse = [torch.randint(-1, 2, (rows, 4), generator=rng).float() for rows in (images, captions)]
    fine = [torch.randn(rows, 6, generator=rng) for rows in (images, captions)]
    lengths = torch.randint(1, 4, (captions,), generator=rng)
    words = [torch.randn(images, 5, generator=rng), Words(torch.randn(int(lengths.sum()), 5, generator=rng), lengths)]
    seen, read = zip(coarse, fine, words, strict=True)
    return Several(seen, WEIGHTS), Several(read, WEIGHTS), [product, product, of_words]


def matrices(seen, read, similarities) -> list[np.ndarray]:
    each = zip(similarities, seen.parts, read.parts, strict=True)
    return [of(one, other).double().numpy() for of, one, other in each]


@pytest.mark.parametrize("memory", [0, 64])
def test_fused_scores_are_those_of_a_loop_over_queries_both_ways(memory):
    seen, read, similarities = models(3)
    scores = Scores.from_sides(seen, read, Fused(similarities), memory=memory)
    members = matrices(seen, read, similarities)
    expected = naive.fused([one.tolist() for one in members], naive.reciprocal_ranks, WEIGHTS)
    turned = naive.fused([one.T.tolist() for one in members], naive.reciprocal_ranks, WEIGHTS)
    both = whole(scores), whole(scores.transposed())
    for found, wanted in zip(both, (expected, turned), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def order(row: np.ndarray) -> list[int]:
    return sorted(range(len(row)), key=lambda item: (-row[item], item))


def check_cascade(first: torch.Tensor, second: torch.Tensor, k: int) -> np.ndarray:
    found = whole(cascaded(Scores.dense(first), lambda rows, columns: second[rows, columns], k))
    for query, row in enumerate(found):
        assert order(row) == naive.cascade(first[query].tolist(), second[query].tolist(), k)
    return found


@pytest.mark.parametrize("k", [1, 7, 40, 41, 500])
@pytest.mark.parametrize("coarse", [0, 1])
def test_the_order_is_that_of_a_loop_over_queries(k, coarse):
    seen, read, _ = models(11)
    check_cascade(product(seen.parts[coarse], read.parts[coarse]), of_words(seen.parts[2], read.parts[2]), k)


def split_of(seed: int) -> Split:
    seen, read, _ = models(seed)
    sides = (Several((side.parts[1], side.parts[2])) for side in (seen, read))
    return Split(np.arange(23), np.arange(41), np.arange(41) % 23, *sides)


def test_both_directions_and_all_criteria_score_a_pair_once():
    fold, asked, plain = split_of(2), [], Tuned(criteria.parse("nns", {}), {})

    def second(images, captions):
        asked.append(len(captions))
        assert len(images) == 1
        return of_words(images, captions)

    found = trials([fold], BankSource("test"), Cascade(product, second, 4), 0)
    wanted = set()
    for direction, (trial,) in found.items():
        scores = product(fold.images.parts[0], fold.captions.parts[0])
        scores = scores if direction == "image_to_text" else scores.T
        for query, row in enumerate(scores.numpy()):
            pairs = {(query, item) for item in order(row)[:4]}
            wanted |= pairs if direction == "image_to_text" else {pair[::-1] for pair in pairs}
        rank_fold([plain], [trial], "pessimistic", Depths())
    assert sum(asked) == len(wanted)
    rank_fold([plain], found["image_to_text"], "pessimistic", Depths())
    assert sum(asked) == len(wanted)


@pytest.mark.parametrize("bank", ["test", "val"])
def test_criteria_correct_the_first_model(bank):
    fold, csls = split_of(4), criteria.parse("csls", {})
    source = BankSource(bank, split_of(9) if bank == "val" else None)
    second = of_words(fold.images.parts[1], fold.captions.parts[1])
    (trial,) = trials([fold], source, Cascade(product, of_words, 5), 0)["image_to_text"]
    alone = source if source.split is None else BankSource(bank, source.split.part(0))
    (plain,) = trials([fold.part(0)], alone, product, 0)["image_to_text"]
    corrected = whole(csls.rerank(plain.scores, plain.bank))
    for query, row in enumerate(whole(trial.under(csls))):
        assert order(row) == naive.cascade(corrected[query].tolist(), second[query].tolist(), 5)


@pytest.mark.parametrize("weights", [None, (0.2, 0.3)])
def test_fragments_are_scored_by_image_and_networks_as_one(weights):
    """Of a run with two networks, and of vectors beside fragments."""
    seen, read, _ = models(3)
    sgr, scan = Model("sgr", (1, 1, 5), torch.float32, sim_dim=4), Model("scan_t2i", dtype=torch.float32)
    learned = Similarity(Member("sgr", sgr.params), sgr.network)
    similarities = [product, learned, Similarity(Member("scan_t2i", scan.params))]
    images = Several((seen.parts[1], *[seen.parts[2][:, None]] * 2), weights and (*weights, 0.5))
    captions = Several((read.parts[1], *[read.parts[2]] * 2))
    both = MeanScore(similarities)
    pairs = ScoredPairs(images, captions, both, 0)
    rows, columns = torch.randint(0, 23, (9, 30)), torch.randint(0, 41, (9, 30))
    found = pairs.score(rows, columns)
    torch.testing.assert_close(found, both(images, captions)[rows, columns].detach())


def test_scores_that_are_not_finite_are_refused():
    pairs = ScoredPairs(torch.ones(2, 3), torch.ones(4, 3), lambda one, other: one @ other.T * torch.nan, 0)
    with pytest.raises(InputError, match="not finite"):
        pairs.score(torch.tensor([0]), torch.tensor([1]))
    first = Scores.dense(torch.tensor([[torch.nan, 1.0, 2.0]]))
    with pytest.raises(InputError, match="not finite"):
        whole(cascaded(first, lambda rows, columns: columns.float(), 2))


DRAWN = np.random.default_rng(2).integers(0, 30, 200), np.random.default_rng(3).integers(0, 70, 200)


def made(captions: torch.Tensor | None = None) -> Split:
    captions = unit_vectors(70, 12, 1) if captions is None else captions
    return Split(np.arange(30), np.arange(70), np.arange(70) % 30, unit_vectors(30, 12, 0), captions)


def distance(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return -torch.cdist(one, other)


@pytest.mark.parametrize(("similarity", "inner"), [(cosine, True), (cosine, False), (distance, False)])
def test_scores_of_pairs_are_those_of_the_matrix(similarity, inner):
    split = made()
    found = cascade.scores(split, similarity, inner, *DRAWN, 0)
    matrix = similarity(split.images.double(), split.captions.double()).numpy()
    np.testing.assert_allclose(found, matrix[DRAWN], atol=1e-6 if similarity is cosine else 1e-5)


def test_the_same_vectors_have_the_same_score_wherever_they_are():
    alike = made(unit_vectors(1, 12, 1).repeat(70, 1))
    found = cascade.scores(alike, cosine, True, np.repeat(np.arange(30), 70), np.tile(np.arange(70), 30), 0)
    assert (found.reshape(30, 70) == found.reshape(30, 70)[:, :1]).all()


@pytest.mark.parametrize("similarity", [Fused([cosine]), Cascade(cosine, cosine, 2)])
def test_scores_that_depend_on_others_are_refused(similarity):
    with pytest.raises(UsageError, match="have no score of a pair alone"):
        cascade.scores(made(), similarity, False, *DRAWN, 0)
