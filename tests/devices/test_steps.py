"""How often a step of training copies to the device, and waits for it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.devices.conftest import GPU
from tests.train.some import member, some_run, some_tokens
from vse_pipe.core import console
from vse_pipe.core.errors import PipelineError
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.project.registry import IMAGE_ENCODERS, LOSSES, SCHEMES, SIMILARITIES, TEXT_ENCODERS
from vse_pipe.train import optimise
from vse_pipe.train.data import Pairs
from vse_pipe.train.encoders import gru
from vse_pipe.train.model import build
from vse_pipe.train.optimise import Averages, optimizer_for
from vse_pipe.train.scheme import Scheme, Setting

# Scheme, its options, loss, similarity and options of the text encoder of each row.
RUNS: dict[str, tuple[str, dict, str, str, dict]] = {
    "any loss but `structure`": ("plain", {}, "max", "cosine", {}),
    "`structure`": ("plain", {}, "structure", "cosine", {}),
    "`gpo` on both sides": ("plain", {}, "max", "cosine", {"pooling": "gpo"}),
    "`scan_t2i`, `scan_i2t`": ("plain", {}, "max", "scan_t2i", {"bidirectional": True}),
    "`saf`, `sgr`": ("plain", {}, "max", "sgr", {"bidirectional": True}),
    "`memory_bank`": ("memory_bank", {}, "hal", "cosine", {}),
    "`crcl`": ("crcl", {}, "crcl", "cosine", {}),
    "`ncr`": ("ncr", {"warm_up": 1}, "max", "cosine", {}),
    "`l2rm`": ("l2rm", {"warm_up": 1}, "max", "cosine", {}),
}


def _pairs(fragments: bool) -> Pairs:
    owners = np.arange(48) // 2
    array = np.random.default_rng(0).standard_normal((24, 3, 6) if fragments else (24, 6)).astype(np.float32)
    return Pairs(array, owners, some_tokens(48), np.arange(48), owners)


def _training(device: torch.device, row: str) -> tuple[Scheme, torch.optim.Optimizer]:
    name, options, loss, similarity, read = RUNS[row]
    pairs = _pairs(similarity != "cosine" or "pooling" in read)
    image = "linear" if pairs.array.ndim == 2 else "pooled" if similarity == "cosine" else "regions"
    members = member(IMAGE_ENCODERS, image), member(TEXT_ENCODERS, "gru", **read), member(SIMILARITIES, similarity)
    chosen = member(LOSSES, loss)
    sizes = pairs.array.shape[1:], pairs.texts.inputs, 8

    def fresh(seed: int):
        return build(*members, *sizes, seed, loss=chosen)

    model, params = fresh(0).to(device), TrainParams(batch_size=8, embed_size=8, epochs=2)
    run = some_run(chosen, params, name, seed=0, **options)
    scheme = SCHEMES.load(name).scheme(Setting(run, model, pairs, device, fresh))
    return scheme, optimizer_for(model, params)


def test_both_passes_of_a_chunk_drop_the_same_on_the_device(device):
    gradients = []
    for encode in (optimise.encoded_in_chunks, _in_parts):
        scheme, _ = _training(device, "any loss but `structure`")
        scheme.model.txt.dropout.p = 0.5
        batch = _pairs(fragments=False).batch(np.arange(0, 48, 3)).to(device)
        torch.get_device_module(device).manual_seed_all(0)
        scheme.terms(*encode(scheme.model.train(), 5, batch, device), batch).total().backward()
        gradients.append(scheme.model.txt.rnn.weight_hh_l0.grad.cpu())
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def _in_parts(model, chunk: int, batch, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """All activations stay, so nothing is encoded twice."""
    images, texts = zip(*(model.encode(part, device) for part in batch.split(chunk)), strict=True)
    return torch.cat(images), torch.cat(texts)


@pytest.mark.parametrize("pooling", ["last", "mean", "max"])
def test_a_static_encoder_reads_lengths_that_lie_on_the_device(device, pooling, monkeypatch):
    """A CUDA graph reads nothing else."""
    monkeypatch.setattr(gru, "_CUDNN", device.type)
    pairs = _pairs(fragments=False)
    members = (
        member(IMAGE_ENCODERS, "linear"),
        member(TEXT_ENCODERS, "gru", pooling=pooling),
        member(SIMILARITIES, "cosine"),
    )
    encoder = build(*members, (6,), pairs.texts.inputs, 8, 0).txt
    tokens, lengths = pairs.batch(np.arange(8)).texts
    expected = encoder(tokens, lengths)
    assert encoder.is_static
    vectors = encoder.to(device)(tokens.to(device), lengths.to(device))
    torch.testing.assert_close(vectors.cpu(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(GPU, reason="only the pretended device counts")
@pytest.mark.parametrize("row", RUNS)
def test_a_step_waits_for_nothing_but_a_transport(device, row, monkeypatch):
    """In the second epoch, when every scheme has ended its warm-up."""
    from tests.devices import pretend

    monkeypatch.setattr(console, "say", lambda *words: None)
    scheme, optimizer = _training(device, row)
    waits, real = [], optimise.step

    def step(*arguments):
        with pretend.counted() as count:
            result = real(*arguments)
        waits.append((scheme.passed >= 1, count.waits))
        return result

    monkeypatch.setattr(optimise, "step", step)
    for epoch in range(2):
        batches = np.split(np.random.default_rng(epoch).permutation(48), 6)
        optimise.train_epoch(scheme, optimizer, Averages(scheme.models, None), batches, epoch)
    second = [count for is_second, count in waits if is_second]
    assert round(sum(second) / len(second), 1) == (2.2 if row == "`l2rm`" else 0)


@pytest.mark.skipif(GPU, reason="only the pretended device counts")
def test_a_loss_that_is_not_finite_changes_no_weight_and_is_reported(device, monkeypatch):
    scheme, optimizer = _training(device, "any loss but `structure`")
    steps, before = iter(range(6)), []

    def terms(*arguments):
        found = real(*arguments)
        if next(steps) != 2:
            return found
        before.extend(weight.detach().clone() for weight in scheme.model.parameters())
        return replace(found, per_pair=found.per_pair * float("nan"))

    real, scheme.terms = scheme.terms, terms
    work = np.split(np.arange(48), 6)[:3]
    with pytest.raises(PipelineError, match="the loss is nan"):
        optimise.train_epoch(scheme, optimizer, Averages(scheme.models, None), work, 0)
    assert all(map(torch.equal, before, scheme.model.parameters()))
