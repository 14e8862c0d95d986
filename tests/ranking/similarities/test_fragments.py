"""SCAN, SGR and SAF against plain loops, and what all of them owe."""

from itertools import product
from operator import mul

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.naive import criteria as naive
from tests.ranking.similarities.fragments import LENGTHS, SHAPE, Model, inputs
from vse_pipe.core.errors import InputError
from vse_pipe.ranking import alignment
from vse_pipe.ranking.fragments import Words


def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every limit on what is held at once so low that all loops turn several times."""
    for name in ("PORTION", "IMAGES", "KEPT"):
        monkeypatch.setattr(alignment, name, 1)
    monkeypatch.setattr(alignment, "ROWS", 2)


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


def check_gradients(model: Model, lengths=(2, 1, 2), shape=(3, 3, 4)) -> None:
    """Numerically, in float64, also in the network's weights; along one random direction of all of them (fast_mode)."""
    images, words = inputs(list(lengths), shape)
    weights = [] if model.network is None else [p for p in model.network.parameters() if p.requires_grad]

    def score(images, vectors, *_weights):
        return model(images, Words(vectors, words.lengths))

    assert torch.autograd.gradcheck(score, (images, words.vectors, *weights), atol=1e-6, fast_mode=True)


def as_lists(model: Model) -> dict[str, list]:
    return {name: tensor.tolist() for name, tensor in model.network.state_dict().items()}


def captions_of(words: Words) -> list[list[list[float]]]:
    return [part.tolist() for part in words.vectors.detach().split(words.lengths.tolist())]


NORMS, AGGREGATES = ["clipped_l2norm", "l2norm", "softmax", "no_norm", "clipped"], ["mean", "lse", "max", "sum"]
# Of each member temperature and lse, its defaults, and whether words attend to regions, and not the reverse.
SCAN = {"scan_i2t": (4.0, 5.0, False), "scan_t2i": (9.0, 6.0, True)}
NETWORKS = ["sgr", "saf"]


@pytest.mark.parametrize("name", SCAN)
def test_scan_equals_plain_loops(name):
    temperature, lse, words_attend = SCAN[name]

    @settings(max_examples=20)
    @given(
        st.lists(st.integers(1, 6), min_size=1, max_size=5),
        st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5)),
        st.sampled_from(NORMS),
        st.sampled_from(AGGREGATES),
    )
    def check(lengths, shape, norm, aggregate):
        images, words = inputs(lengths, shape, seed=sum(lengths))
        scores = Model(name, norm=norm, aggregate=aggregate)(images, words)
        for i, regions in enumerate(images.tolist()):
            for t, caption in enumerate(captions_of(words)):
                sides = (regions, caption) if words_attend else (caption, regions)
                expected = naive.scan(*sides, aggregate, temperature, lse, norm)
                # Where a context vanishes but for rounding, that is divided by the 1e-8 its length is taken for.
                assert scores[i, t].item() == pytest.approx(expected, abs=1e-7)

    check()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {"aggregate": one}) for name, one in product(SCAN, AGGREGATES)),
        *((n, {"sim_dim": 5}) for n in NETWORKS),
    ],
)
def test_padding_order_and_chunks_have_no_part(name, options, monkeypatch):
    check_contract(Model(name, **options), monkeypatch)


@pytest.mark.parametrize("name", SCAN)
@pytest.mark.parametrize(
    ("norm", "aggregate"), [*((norm, "mean") for norm in NORMS), *(("clipped_l2norm", one) for one in AGGREGATES[1:])]
)
def test_gradients_of_scan_are_those_of_differences(name, norm, aggregate):
    check_gradients(Model(name, norm=norm, aggregate=aggregate))


@pytest.mark.parametrize(("name", "training"), [*product(NETWORKS, [False, True])])
def test_gradients_of_networks_are_those_of_differences(name, training):
    model = Model(name, shape=(3, 3, 4), sim_dim=3, dropout=0.0)
    model.network.train(training)
    check_gradients(model)


@pytest.mark.parametrize("name", SCAN)
def test_zero_vectors_score_nothing_and_pass_no_nan_back(name):
    images = torch.zeros(2, 3, 4, requires_grad=True)
    scores = Model(name)(images, inputs([2, 1], (2, 3, 4), torch.float32)[1])
    scores.sum().backward()
    assert scores.eq(0).all()
    assert torch.isfinite(images.grad).all()


@pytest.mark.parametrize("name", NETWORKS)
def test_other_regions_and_a_batch_of_one_are_refused(name):
    model = Model(name, sim_dim=5)
    with pytest.raises(InputError, match="built for 3 regions an image, got 2"):
        model(*inputs(shape=(4, 2, 6)))
    model.network.train()
    with pytest.raises(InputError, match="at least two"):
        model(*inputs(shape=(1, 3, 6)))


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_sgr_equals_plain_loops(steps):
    model, (images, words) = Model("sgr", sim_dim=5, steps=steps), inputs()
    scores = model(images, words)
    for i, regions in enumerate(images.tolist()):
        for t, caption in enumerate(captions_of(words)):
            expected = naive.sgr(as_lists(model), regions, caption, steps, 9.0)
            assert scores[i, t].item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("training", "chunked"), [(False, False), (True, False), (True, True)])
def test_saf_equals_plain_loops(training, chunked, monkeypatch):
    """In training scores from each caption's own statistics; running ones move once a caption, in order."""
    model, (images, words) = Model("saf", sim_dim=5, dropout=0.0), inputs()
    if chunked:
        small_chunks(monkeypatch)
    model.network.train(training)
    # The image side stays under running statistics: it is tested in sgr, and the loops have no training of it.
    model.network.v_global_w.eval()
    expected, mean, variance = naive.saf(as_lists(model), images.tolist(), captions_of(words), 9.0, training)
    torch.testing.assert_close(model(images, words), torch.tensor(expected, dtype=torch.float64))
    bn, allowed = model.network.SAF_module.bn, 1e-12 if training else 0
    assert bn.running_mean.item() == pytest.approx(mean, rel=0, abs=allowed)
    assert bn.running_var.item() == pytest.approx(variance, rel=0, abs=allowed)
    assert bn.num_batches_tracked.item() == training * len(words)


@pytest.mark.parametrize("name", NETWORKS)
def test_training_gives_the_same_in_chunks(name, monkeypatch):
    """Also where chunks are computed twice: the running statistics move once."""
    model, (images, words) = Model(name, sim_dim=5, dropout=0.0), inputs()
    model.network.train()
    start = {key: tensor.clone() for key, tensor in model.network.state_dict().items()}
    weights = torch.randn(SHAPE[0], len(words), dtype=torch.float64)
    whole = gradients(model, images, words, weights)
    after = {key: tensor.clone() for key, tensor in model.network.state_dict().items()}
    model.network.load_state_dict(start)
    small_chunks(monkeypatch)
    torch.testing.assert_close(gradients(model, images, words, weights), whole)
    if name == "saf":
        torch.testing.assert_close(dict(model.network.state_dict()), after)


def test_weights_follow_from_the_generator():
    model = Model("sgr", sim_dim=5)
    first, second = (model.member.network(model.params, 6, 3, torch.Generator().manual_seed(4)) for _ in range(2))
    torch.testing.assert_close(first.state_dict(), second.state_dict())
    bound, weight = (6 / (6 + 5)) ** 0.5, first.sim_tranloc_w.weight
    assert bound / 2 < weight.abs().max() <= bound
    assert first.sim_tranloc_w.bias.eq(0).all()


@pytest.mark.parametrize("aggregate", ["mean", "sum"])
def test_maxsim_equals_plain_loops_and_keeps_the_contract(aggregate, monkeypatch):
    model, (images, words) = Model("maxsim", aggregate=aggregate), inputs()
    found = model(images, words).tolist()
    for row, regions in enumerate(images.tolist()):
        for column, caption in enumerate(captions_of(words)):
            best = [max(sum(map(mul, word, region)) for region in regions) for word in caption]
            expected = sum(best) / (len(best) if aggregate == "mean" else 1)
            assert found[row][column] == pytest.approx(expected)
    check_contract(model, monkeypatch)
    check_gradients(model)


@pytest.mark.parametrize("mode", ["text", "image", "both"])
@pytest.mark.parametrize(("steps", "unit"), [(1, False), (3, False), (3, True)])
def test_imram_equals_plain_loops_and_keeps_the_contract(mode, steps, unit, monkeypatch):
    model, (images, words) = Model("imram", mode=mode, steps=steps, unit=unit), inputs()
    scores = model(images, words)
    for row, shown in enumerate(images.tolist()):
        for column, caption in enumerate(captions_of(words)):
            ways = {"text": [("t2i", caption, shown)], "image": [("i2t", shown, caption)]}
            expected = sum(
                naive.imram(as_lists(model), way, *sides, steps, 9.0, unit)
                for way, *sides in ways.get(mode, ways["text"] + ways["image"])
            )
            assert scores[row, column].item() == pytest.approx(expected, abs=1e-9)
    check_contract(model, monkeypatch)


def test_gradients_of_imram_are_those_of_differences():
    model = Model("imram", shape=(3, 3, 4), mode="both", steps=2)
    check_gradients(model)


@pytest.mark.parametrize("name", [*SCAN, *NETWORKS, "maxsim", "imram"])
def test_regions_say_what_a_word_has_of_each_region(name):
    """Of single pairs: attention adds up to 1, and with it the score is that of the member where it is so simple."""
    model, (images, words) = Model(name), inputs()
    caption = words.vectors[4:9]
    weights = model.member.regions(images, caption, model.params)
    assert weights.shape == (4, 5, 3)
    score = model(images, words)[:, 2]
    if name == "maxsim":
        torch.testing.assert_close(weights.amax(dim=2).mean(dim=1), score)
        return
    torch.testing.assert_close(weights.sum(dim=1 if name == "scan_i2t" else 2).mean(), weights.new_tensor(1.0))
    if name == "scan_t2i":
        attended = torch.einsum("awr,ard->awd", weights, images)
        torch.testing.assert_close(torch.cosine_similarity(attended, caption[None], dim=2).mean(dim=1), score)
