"""How often a step of training copies to the device, and waits for it."""

from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from tests.devices.conftest import GPU
from tests.train.some import member, some_tokens
from vse_pipe.core import console
from vse_pipe.core.errors import PipelineError
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.project.registry import IMAGE_ENCODERS, LOSSES, SCHEMES, SIMILARITIES, TEXT_ENCODERS
from vse_pipe.train import optimise
from vse_pipe.train.data import Pairs
from vse_pipe.train.model import build, objective
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
    "`decl`": ("decl", {"warm_up": 1}, "decl", "cosine", {}),
    "`crcl`": ("crcl", {}, "crcl", "cosine", {}),
    "`ncr`": ("ncr", {"warm_up": 1}, "max", "cosine", {}),
    "`bicro`": ("bicro", {"warm_up": 1}, "max", "cosine", {}),
    "`l2rm`": ("l2rm", {"warm_up": 1}, "max", "cosine", {}),
}


# Copies to the device and waits for it in a step.
COUNTS = {
    "any loss but `structure`": (2, 0),
    "`structure`": (13, 0),
    "`gpo` on both sides": (14, 0),
    "`scan_t2i`, `scan_i2t`": (6, 0),
    "`saf`, `sgr`": (9, 0),
    "`memory_bank`": (3, 0),
    "`decl`": (3, 0),
    "`crcl`": (3, 0),
    "`ncr`": (5.5, 0),
    "`bicro`": (4, 0),
    "`l2rm`": (9.2, 2.2),
}


def _pairs(fragments: bool) -> Pairs:
    owners = np.arange(48) // 2
    array = np.random.default_rng(0).standard_normal((24, 3, 6) if fragments else (24, 6)).astype(np.float32)
    return Pairs(array, owners, some_tokens(48), np.arange(48), owners)


def _training(device: torch.device, row: str, other_loss: str | None = None) -> tuple[Scheme, torch.optim.Optimizer]:
    name, options, loss, similarity, read = RUNS[row]
    loss = other_loss or loss
    pairs = _pairs(similarity != "cosine" or "pooling" in read)
    image = "linear" if pairs.array.ndim == 2 else "pooled" if similarity == "cosine" else "regions"
    members = member(IMAGE_ENCODERS, image), member(TEXT_ENCODERS, "gru", **read), member(SIMILARITIES, similarity)
    chosen = member(LOSSES, loss)
    sizes = pairs.array.shape[1:], pairs.texts.inputs, 8

    def fresh(seed: int):
        return build(*members, *sizes, seed, loss=chosen)

    model, params = fresh(0).to(device), TrainParams(batch_size=8, embed_size=8, epochs=2)
    makers = fresh, partial(objective, chosen, model)
    setting = Setting(model, objective(chosen, model), pairs, params, 0, device, *makers, loss_options=chosen.params)
    scheme = SCHEMES.load(name).scheme(setting, member(SCHEMES, name, **options).params)
    return scheme, optimizer_for(model, params)


def _counted(device: torch.device, row: str, other_loss: str | None = None) -> tuple[float, float]:
    """Copies and waits of a step in the second epoch, when every scheme has ended its warm-up."""
    from tests.devices import pretend

    scheme, optimizer = _training(device, row, other_loss)
    name, counts, real = row, [Counter[str]()], optimise.step

    def step(*arguments):
        with pretend.counted() as count:
            result = real(*arguments)
        counts[-1].update(steps=1, copies=count.copies.total(), waits=count.waits.total())
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimise, "step", step)
        for epoch in range(2):
            counts.append(Counter())
            batches = np.split(np.random.default_rng(epoch).permutation(48), 6)
            averages = Averages(scheme.models, None)
            optimise.epoch(scheme, optimizer, averages, batches, epoch, name)
    return tuple(round(counts[-1][key] / counts[-1]["steps"], 1) for key in ("copies", "waits"))  # type: ignore[return-value]


@pytest.mark.skipif(GPU, reason="only the pretended device counts")
@pytest.mark.parametrize("row", RUNS)
def test_a_step_waits_as_often_as_it_did(device, row, monkeypatch):
    monkeypatch.setattr(console, "say", lambda *words: None)
    assert _counted(device, row) == COUNTS[row]


@pytest.mark.skipif(GPU, reason="only the pretended device counts")
@pytest.mark.parametrize("loss", [name for name in LOSSES.names() if name != "structure"])
def test_every_loss_waits_as_often_as_it_did(device, loss, monkeypatch):
    monkeypatch.setattr(console, "say", lambda *words: None)
    row = "any loss but `structure`"
    assert _counted(device, row, loss) == COUNTS[row]


@pytest.mark.skipif(GPU, reason="only the pretended device counts")
def test_a_loss_that_is_not_finite_changes_no_weight_and_is_reported_with_its_pairs(device, monkeypatch):
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
    with pytest.raises(PipelineError, match=r"epoch 1, pairs 16, 17, 18, 19, 20, .*: the loss is nan"):
        optimise.epoch(scheme, optimizer, Averages(scheme.models, None), work, 0, "r")
    assert all(map(torch.equal, before, scheme.model.parameters()))
