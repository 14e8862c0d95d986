"""What all fragment similarities are tested with, and what both directions of SCAN owe."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.naive import criteria as naive
from vse_pipe.core.errors import InputError
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.ranking import alignment
from vse_pipe.ranking.alignment import over_pairs
from vse_pipe.ranking.fragments import OfPairs, Words

LENGTHS = [3, 1, 5, 3, 2, 3]
SHAPE = (4, 3, 6)  # images, regions, dim


def inputs(lengths=LENGTHS, shape=SHAPE, dtype=torch.float64, seed: int = 0) -> tuple[Tensor, Words]:
    """Unit vectors; images and words with gradients."""
    rng = torch.Generator().manual_seed(seed)

    def unit(*sizes: int) -> Tensor:
        drawn = torch.randn(*sizes, generator=rng, dtype=torch.float64)
        return (drawn / drawn.norm(dim=-1, keepdim=True)).to(dtype).requires_grad_()

    return unit(*shape), Words(unit(sum(lengths), shape[2]), torch.tensor(lengths))


class Model:
    """A member with its parameters and, where it learns, a network; called with images and words."""

    def __init__(self, name: str, shape=SHAPE, dtype=torch.float64, **options) -> None:
        self.member, self.traits = SIMILARITIES.load(name), SIMILARITIES.traits(name)
        self.params = self.member.Params(**options)
        self.network = None
        if hasattr(self.member, "network"):
            rng = torch.Generator().manual_seed(1)
            self.network = self.member.network(self.params, shape[2], shape[1], rng).to(dtype).eval()
            _unsettle(self.network, rng)

    def __call__(self, images: Tensor, words: Words) -> Tensor:
        extra = () if self.network is None else (self.network,)
        return self.member.score(images, words, self.params, *extra)

    def pairs(self, images: Tensor, words: Words) -> OfPairs:
        extra = () if self.network is None else (self.network,)
        return self.member.pairs(images, words, self.params, *extra)


def _unsettle(network: torch.nn.Module, rng: torch.Generator) -> None:
    """Biases and running statistics that are not 0 and 1, so that leaving one out shows."""
    for name, tensor in network.state_dict().items():
        if tensor.is_floating_point() and tensor.ndim == 1:
            drawn = torch.rand(tensor.shape, generator=rng, dtype=torch.float64) * 0.4
            tensor.copy_(drawn + (1.0 if name.endswith(("var", "1.weight", "bn.weight")) else -0.2))


def small_chunks(monkeypatch: pytest.MonkeyPatch, **limits: int) -> None:
    """Every limit on what is held at once so low that all loops turn several times."""
    for name in ("PORTION", "CHUNK", "IMAGES", "KEPT"):
        monkeypatch.setattr(alignment, name, limits.get(name, 1))
    monkeypatch.setattr(alignment, "ROWS", limits.get("ROWS", 2))


def gradients(model: Model, images: Tensor, words: Words, weights: Tensor) -> list[Tensor]:
    """Scores, then the gradients of their weighted sum in images, words and the network's weights."""
    leaves = [images, words.vectors, *(model.network.parameters() if model.network else [])]
    scores = model(images, words)
    found = torch.autograd.grad((scores * weights).sum(), leaves, allow_unused=True)
    return [scores.detach(), *(grad for grad in found if grad is not None)]


def check_contract(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding, order and the size of chunks have no part in a score."""
    assert model.traits.fragments
    images, words = inputs()
    whole = model(images, words)
    assert whole.shape == (4, len(LENGTHS))
    assert torch.isfinite(whole).all()
    _check_padding_and_order(model, images, words, whole)
    _check_chunks(model, images, words, whole, monkeypatch)
    _check_pairs(model, images, words, whole, monkeypatch)
    for shape, lengths in (((1, 3, 6), [1]), ((2, 3, 6), [4])):
        images, words = inputs(lengths, shape)
        assert model(images, words).shape == (shape[0], 1)


def _check_padding_and_order(model, images, words, whole) -> None:
    padded = torch.nn.functional.pad(words.padded(), (0, 0, 0, 4), value=7.0)
    for place, length in enumerate(LENGTHS):
        padded[place, length:] = 7.0
    torch.testing.assert_close(model(images, Words.from_padded(padded, words.lengths)), whole)
    rows, columns = torch.tensor([2, 0, 3, 1]), torch.tensor([5, 3, 0, 1, 4, 2])
    turned = model(images[rows], words.take(columns))
    torch.testing.assert_close(turned, whole[rows][:, columns])
    for place in range(len(LENGTHS)):
        torch.testing.assert_close(model(images, words[place : place + 1]), whole[:, place : place + 1])


def _check_chunks(model, images, words, whole, monkeypatch) -> None:
    weights = torch.randn(whole.shape, dtype=whole.dtype)
    sparse = weights * (torch.arange(weights.numel()).view(weights.shape) % 7 == 0)
    expected = [gradients(model, images, words, each) for each in (weights, sparse)]
    with monkeypatch.context() as patch:
        small_chunks(patch)
        with torch.inference_mode():
            torch.testing.assert_close(model(images, words), whole)
        for each, known in zip((weights, sparse), expected, strict=True):
            torch.testing.assert_close(gradients(model, images, words, each), known)


def _check_pairs(model, images, words, whole, monkeypatch) -> None:
    """Single pairs in any order, one twice, have the scores of the matrix, in blocks of any size."""
    rows, columns = torch.tensor([3, 0, 0, 2, 1, 3, 0, 2]), torch.tensor([0, 5, 1, 2, 4, 3, 5, 3])
    for gathered in (1, 40, 1 << 22):
        with monkeypatch.context() as patch, torch.inference_mode():
            patch.setattr(alignment, "GATHERED", gathered)
            found = over_pairs(model.pairs(images, words), images, words, rows, columns)
        torch.testing.assert_close(found, whole[rows, columns])
    assert over_pairs(model.pairs(images, words), images, words, rows[:0], columns[:0]).shape == (0,)


def check_gradients(model: Model, lengths=(2, 1, 2), shape=(3, 3, 4)) -> None:
    """Numerically, in float64, also in the network's weights; along one random direction of all of them (fast_mode)."""
    images, words = inputs(list(lengths), shape)
    weights = [] if model.network is None else [p for p in model.network.parameters() if p.requires_grad]

    def score(images, vectors, *_weights):
        return model(images, Words(vectors, words.lengths))

    assert torch.autograd.gradcheck(score, (images, words.vectors, *weights), atol=1e-6, fast_mode=True)


def as_lists(model: Model) -> dict[str, list]:
    """The network's weights, for the plain loops."""
    return {name: tensor.tolist() for name, tensor in model.network.state_dict().items()}


def captions_of(words: Words) -> list[list[list[float]]]:
    return [part.tolist() for part in words.vectors.detach().split(words.lengths.tolist())]


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

    def test_regions_that_are_the_words_beat_orthogonal_ones(self):
        words = torch.eye(6)[:3]
        images = torch.stack([torch.eye(6)[:3], torch.eye(6)[3:]])
        scores = Model(self.name)(images, Words(words, torch.tensor([3])))
        assert scores[0, 0] > 0.9
        assert scores[1, 0] == 0

    def test_zero_vectors_score_nothing_and_pass_no_nan_back(self):
        images = torch.zeros(2, 3, 4, requires_grad=True)
        words = inputs([2, 1], (2, 3, 4), torch.float32)[1]
        scores = Model(self.name)(images, words)
        scores.sum().backward()
        assert scores.eq(0).all()
        assert torch.isfinite(images.grad).all()


class Sgraf:
    """The checks that SGR and SAF share. name: of the member."""

    name: str

    def test_padding_order_and_chunks_have_no_part(self, monkeypatch):
        check_contract(Model(self.name, sim_dim=5), monkeypatch)

    @pytest.mark.parametrize("training", [False, True])
    def test_gradients_are_those_of_differences(self, training):
        model = Model(self.name, shape=(3, 3, 4), sim_dim=3, dropout=0.0)
        model.network.train(training)
        check_gradients(model)

    def test_other_regions_and_a_batch_of_one_are_refused(self):
        model = Model(self.name, sim_dim=5)
        with pytest.raises(InputError, match="built for 3 regions an image, got 2"):
            model(*inputs(shape=(4, 2, 6)))
        model.network.train()
        with pytest.raises(InputError, match="at least two"):
            model(*inputs(shape=(1, 3, 6)))
