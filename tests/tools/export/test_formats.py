import numpy as np
import pytest

from vse_pipe.tools.export.fold import Folded, FoldedSide
from vse_pipe.tools.export.formats import recall


def given(rng: np.random.Generator, queries: int, items: int) -> Folded:
    def side(key: str, rows: int) -> FoldedSide:
        # Halves of small integers: many ties, and sums that are exact.
        vectors = (rng.integers(-3, 4, (rows, 5)) / 2).astype(np.float32)
        return FoldedSide(key, rng.permutation(rows).astype(np.int64) * 7, vectors)

    return Folded("text_to_image", items=side("image_id", items), queries=side("caption_id", queries))


def naive(folded: Folded, answers: np.ndarray, rows: range) -> float:
    """The share of answers whose score is at least that of the tenth best item, one query at a time."""
    right = total = 0
    for place, row in enumerate(rows):
        scores = {
            int(key): float(vector @ folded.queries.vectors[row])
            for key, vector in zip(folded.items.ids, folded.items.vectors, strict=True)
        }
        least = sorted(scores.values())[-min(10, len(scores))]
        right += sum(scores.get(int(answer), -np.inf) >= least for answer in answers[place])
        total += len(answers[place])
    return right / total


@pytest.mark.parametrize(("queries", "items"), [(70, 40), (3, 6)])
def test_recall_is_that_of_a_loop(queries, items):
    rng = np.random.default_rng(queries)
    folded = given(rng, queries, items)
    # Some of the best, some of the others, and ids that no item has.
    answers = rng.choice(np.concatenate([folded.items.ids, [-5, 1, 10**6]]), (queries, min(10, items)))
    asked = iter(np.split(answers, range(64, queries, 64)))
    found = recall(lambda vectors, k: next(asked), folded)
    assert found == {"recall@10": round(naive(folded, answers, range(queries)), 4), "recall_queries": queries}
    assert 0 < found["recall@10"] < 1


def test_of_many_queries_a_thousand_are_asked():
    folded = given(np.random.default_rng(0), 4001, 20)
    seen = []

    def search(vectors: np.ndarray, k: int) -> np.ndarray:
        seen.extend(vectors)
        return np.argsort(-(vectors @ folded.items.vectors.T), axis=1, kind="stable")[:, :k] * 0 + folded.items.ids[0]

    assert recall(search, folded)["recall_queries"] == len(seen) == 1000
    assert np.array_equal(seen[0], folded.queries.vectors[0])
    assert np.array_equal(seen[-1], folded.queries.vectors[-1])
