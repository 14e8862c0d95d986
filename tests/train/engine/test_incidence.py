import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from vse_pipe.train.batch import Scored
from vse_pipe.train.data import Incidence

CPU = torch.device("cpu")


@given(st.integers(0, 1000), st.lists(st.integers(0, 29), min_size=2, max_size=12, unique=True))
def test_kin_and_positives_are_those_of_all_that_is_known(seed, taken):
    rng = np.random.default_rng(seed)
    owners, said = rng.integers(100, 110, 30), rng.integers(5, 14, 30)
    more = rng.integers(98, 112, 9), rng.integers(4, 15, 9)
    both = (np.concatenate(side).tolist() for side in zip((owners, said), more, strict=True))
    seen, pairs = set(zip(*both, strict=True)), np.array(taken)
    known = Incidence.of(owners, said, *more)
    found = known.of_batch(pairs, CPU)
    assert known.ids[known.images].tolist() == owners.tolist()
    assert known.belong(pairs, pairs[:3]).tolist() == [[(owners[i], said[j]) in seen for j in taken[:3]] for i in taken]
    images, texts = (np.unique(side[pairs]).tolist() for side in (owners, said))
    assert [images[number] for number in found.images.tolist()] == owners[pairs].tolist()
    assert [texts[number] for number in found.texts.tolist()] == said[pairs].tolist()
    assert found.positives.tolist() == [[(i, t) in seen for t in texts] for i in images]
    of_image = {i: {t for j, t in seen if j == i} for i in images}
    of_text = {t: {i for i, u in seen if u == t} for t in texts}
    assert found.image_kin.tolist() == [[bool(of_image[i] & of_image[j]) for j in images] for i in images]
    assert found.text_kin.tolist() == [[bool(of_text[t] & of_text[u]) for u in texts] for t in texts]


def test_what_matches_is_no_negative_in_any_loss():
    """Image 0 is seen with text 1 in a pair that is not in the batch."""
    owners, said = np.array([0, 1, 0, 2]), np.array([0, 1, 1, 2])
    matches = Incidence.of(owners, said).of_batch(np.array([0, 1, 3]), CPU)
    scored = Scored.of(torch.zeros(3, 3), torch.tensor([0, 1, 2]), matches=matches)
    assert scored.same.tolist() == [[True, True, False], [False, True, False], [False, False, True]]
