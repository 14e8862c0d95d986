import numpy as np
import pytest
import torch

from tests.ranking.dense import unit_vectors
from vse_pipe.core.errors import UsageError
from vse_pipe.ranking import cascade
from vse_pipe.ranking.bank import cosine
from vse_pipe.ranking.cascade import Cascade
from vse_pipe.ranking.fusion import Fused
from vse_pipe.ranking.split import Split

IDS, OWNERS = np.arange(30), np.arange(70) % 30


def made() -> Split:
    return Split(IDS, np.arange(70), OWNERS, unit_vectors(30, 12, 0), unit_vectors(70, 12, 1))


def drawn() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    return rng.integers(0, 30, 200), rng.integers(0, 70, 200)


@pytest.mark.parametrize("inner", [True, False])
def test_scores_are_those_of_the_matrix(inner):
    split, (images, captions) = made(), drawn()
    found = cascade.scores(split, cosine, inner, images, captions, 0)
    matrix = (split.images.double() @ split.captions.double().T).numpy()
    np.testing.assert_allclose(found, matrix[images, captions], atol=1e-6)


def test_any_similarity_is_asked():
    split, (images, captions) = made(), drawn()
    found = cascade.scores(split, lambda one, other: -torch.cdist(one, other), False, images, captions, 0)
    apart = split.images[images] - split.captions[captions]
    np.testing.assert_allclose(found, -apart.norm(dim=1).numpy(), atol=1e-5)


def test_the_same_vectors_have_the_same_score_wherever_they_are():
    split = made()
    alike = Split(IDS, np.arange(70), OWNERS, split.images, split.captions[:1].repeat(70, 1))
    found = cascade.scores(alike, cosine, True, np.repeat(IDS, 70), np.tile(np.arange(70), 30), 0)
    assert (found.reshape(30, 70) == found.reshape(30, 70)[:, :1]).all()


@pytest.mark.parametrize("similarity", [Fused([cosine], "rrf"), Cascade(cosine, cosine, 2)])
def test_scores_that_depend_on_others_are_refused(similarity):
    with pytest.raises(UsageError, match="have no score of a pair alone"):
        cascade.scores(made(), similarity, False, *drawn(), 0)
