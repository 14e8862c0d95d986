"""What both directions of SCAN are held to; each names itself and its defaults in its own module."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import criteria as naive
from tests.ranking.similarities.fragments import Model, captions_of, check_contract, check_gradients, inputs

NORMS = ["clipped_l2norm", "l2norm", "softmax", "no_norm", "clipped"]
AGGREGATES = ["mean", "lse", "max", "sum"]
# Hypothesis wants a test of its own in each module.
DRAWN = given(
    st.lists(st.integers(1, 6), min_size=1, max_size=5),
    st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5)),
    st.sampled_from(NORMS),
    st.sampled_from(AGGREGATES),
)


class Scan:
    """name: of the member; temperature, lse: its defaults; words_attend: words attend to regions, and not the reverse."""

    name: str
    temperature: float
    lse: float
    words_attend: bool

    def check_plain_loops(self, lengths, shape, norm, aggregate):
        images, words = inputs(lengths, shape, seed=sum(lengths))
        scores = Model(self.name, norm=norm, aggregate=aggregate)(images, words)
        for i, regions in enumerate(images.tolist()):
            for t, caption in enumerate(captions_of(words)):
                sides = (regions, caption) if self.words_attend else (caption, regions)
                expected = naive.scan(*sides, aggregate, self.temperature, self.lse, norm)
                # Where a context vanishes but for rounding, that is divided by the 1e-8 its length is taken for.
                assert scores[i, t].item() == pytest.approx(expected, abs=1e-7)

    @pytest.mark.parametrize("aggregate", AGGREGATES)
    def test_padding_order_and_chunks_have_no_part(self, aggregate, monkeypatch):
        check_contract(Model(self.name, aggregate=aggregate), monkeypatch)

    @pytest.mark.parametrize("norm", NORMS)
    @pytest.mark.parametrize("aggregate", AGGREGATES)
    def test_gradients_are_those_of_differences(self, norm, aggregate):
        check_gradients(Model(self.name, norm=norm, aggregate=aggregate))

    def test_zero_vectors_score_nothing_and_pass_no_nan_back(self):
        images = torch.zeros(2, 3, 4, requires_grad=True)
        words = inputs([2, 1], (2, 3, 4), torch.float32)[1]
        scores = Model(self.name)(images, words)
        scores.sum().backward()
        assert scores.eq(0).all()
        assert torch.isfinite(images.grad).all()
