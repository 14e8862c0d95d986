import numpy as np
import pytest
import torch

from tests.train.fragments import FragmentModel
from tests.train.some import adam, member, some_model, some_pairs, some_scheme
from vse_pipe.core.errors import UsageError
from vse_pipe.project.registry import IMAGE_ENCODERS, LOSSES, TEXT_ENCODERS
from vse_pipe.train import gradient_cache
from vse_pipe.train.optimise import step

CPU = torch.device("cpu")


def _gradients(loss: str, chunk: int, **options) -> tuple[float, dict[str, torch.Tensor]]:
    pairs = some_pairs(40, each=4)
    model = some_model(pairs, text=member(TEXT_ENCODERS, "gru", word_dim=5, **options)).double().train()
    scheme = some_scheme(pairs, loss, model=model)
    batch = pairs.batch(np.arange(0, 40, 2))
    torch.manual_seed(0)
    double = type(batch)(batch.features.double(), batch.texts, batch.owners, batch.pairs)
    value = gradient_cache.backward(scheme, double, chunk)
    return value, {name: weight.grad for name, weight in model.named_parameters()}


@pytest.mark.parametrize("loss", LOSSES.names())
@pytest.mark.parametrize("chunk", [1, 3, 20])
def test_chunks_give_the_gradient_of_the_whole_batch(loss, chunk):
    pairs = some_pairs(40, each=4)
    model = some_model(pairs).double()
    scheme = some_scheme(pairs, loss, model=model)
    batch = pairs.batch(np.arange(0, 40, 2))
    images = model.img(batch.features.double())
    texts = model.txt(*batch.texts)
    total = scheme.terms(images, texts, batch).total()
    total.backward()
    value, found = _gradients(loss, chunk)
    # Vectors pass through float32 on their way to the loss, as in a run.
    assert value == pytest.approx(total.item(), rel=1e-5)
    for name, weight in model.named_parameters():
        torch.testing.assert_close(found[name], weight.grad, rtol=1e-4, atol=1e-5)
        assert weight.grad.any(), name


@pytest.mark.parametrize("options", [{"dropout": 0.5}, {"drop_words": 0.5, "pooling": "gpo"}], ids=" ".join)
def test_both_passes_drop_the_same_words(options):
    """Were the second pass to draw anew, the gradient would not be that of the value returned."""
    value, found = _gradients("sum", 5, **options)
    again, same = _gradients("sum", 5, **options)
    assert value == again
    weight = "txt.rnn.weight_hh_l0"
    torch.testing.assert_close(found[weight], same[weight], rtol=0, atol=0)
    pairs = some_pairs(40, each=4)
    model = some_model(pairs, text=member(TEXT_ENCODERS, "gru", word_dim=5, **options)).train()
    scheme = some_scheme(pairs, "sum", model=model)
    batch = pairs.batch(np.arange(0, 40, 2))
    torch.manual_seed(0)
    parts = [model.encode(part, CPU) for part in batch.split(5)]
    images, texts = (torch.cat(side) for side in zip(*parts, strict=True))
    scheme.terms(images, texts, batch).total().backward()
    direct = model.get_parameter(weight).grad
    torch.testing.assert_close(found[weight].float(), direct, rtol=1e-3, atol=1e-4)


def test_a_step_with_chunks_is_a_step_without():
    after = []
    for chunk in (0, 3):
        pairs = some_pairs()
        scheme = some_scheme(pairs, train={"chunk": chunk})
        optimizer = torch.optim.SGD(scheme.setting.model.parameters(), lr=0.1)
        step(scheme, optimizer, pairs.batch(np.arange(0, 24, 3)))
        after.append(scheme.setting.model.state_dict())
    for name, weight in after[0].items():
        torch.testing.assert_close(after[1][name], weight, rtol=1e-4, atol=1e-6)


def test_batch_normalisation_is_refused():
    pairs = some_pairs()
    model = some_model(pairs, image=member(IMAGE_ENCODERS, "two_branch", hidden=7))
    scheme = some_scheme(pairs, model=model, train={"chunk": 3})
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    with pytest.raises(UsageError, match=r"train.chunk: 'img.* normalises over the whole batch"):
        step(scheme, adam(model, 0.1), pairs.batch(np.arange(8)))
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())


def test_word_vectors_are_chunked_and_a_similarity_of_its_own_learns():
    pairs = some_pairs()
    found = []
    for chunk in (24, 5):
        model = FragmentModel(pairs.array.shape[1], pairs.texts.inputs)
        scheme = some_scheme(pairs, model=model)
        value = gradient_cache.backward(scheme, pairs.batch(np.arange(24)), chunk)
        found.append((value, {name: weight.grad for name, weight in model.named_parameters()}))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    for name, gradient in found[0][1].items():
        assert gradient.any() or name == "sim.bias", name
        torch.testing.assert_close(found[1][1][name], gradient, rtol=1e-3, atol=1e-4)


def test_a_similarity_may_normalise_over_the_batch():
    model = torch.nn.ModuleDict({"sim": torch.nn.BatchNorm1d(3)}).train()
    gradient_cache.require_independent_rows(model)
    with pytest.raises(UsageError, match="'txt'"):
        gradient_cache.require_independent_rows(torch.nn.ModuleDict({"txt": torch.nn.BatchNorm1d(3)}))
