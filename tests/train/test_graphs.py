"""CUDA graphs of the encoders, by a stand-in that has their traps: fixed tensors, which every replay overwrites. What it
cannot show: speed, memory, operations that cannot be captured, and the bits of a GPU."""

import gc
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.train.some import member, some_model, some_pairs, some_scheme, some_tokens
from vse_pipe.project.registry import TEXT_ENCODERS
from vse_pipe.train import graphs, optimise
from vse_pipe.train.data import Pairs
from vse_pipe.train.encoders import gru
from vse_pipe.train.optimise import Averages, StepResult, optimizer_for
from vse_pipe.train.scheme import Scheme


class Replayed(torch.autograd.Function):
    """Both replays of a graph."""

    @staticmethod
    def forward(ctx, graph: "Graphed", *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.graph = graph
        for static, new in zip(graph.inputs, inputs[: len(graph.inputs)], strict=True):
            static.copy_(new)
        with torch.enable_grad():
            graph.computed = graph.module.plain(*graph.inputs)
        for static, new in zip(graph.outputs, graph.computed, strict=True):
            static.copy_(new.detach())
        return tuple(side.detach() for side in graph.outputs)

    @staticmethod
    def backward(ctx, *gradients: Tensor):
        graph = ctx.graph
        found = torch.autograd.grad(graph.computed, graph.weights, gradients)
        for static, new in zip(graph.gradients, found, strict=True):
            static.copy_(new)
        return (None, *(None for _ in graph.inputs), *(side.detach() for side in graph.gradients))


class Graphed:
    made: ClassVar[list["Graphed"]] = []

    def __init__(self, module: nn.Module, sample: tuple[Tensor, ...]) -> None:
        self.module, self.weights = module, list(module.parameters())
        self.inputs = [side.clone() for side in sample]
        module.plain = module.forward
        self.computed = module.plain(*self.inputs)
        self.outputs = [side.detach().clone() for side in self.computed]
        self.gradients = [torch.empty_like(weight) for weight in self.weights]
        module.forward = lambda *inputs: Replayed.apply(self, *inputs, *self.weights)
        self.made.append(self)


def _made(modules: tuple[nn.Module, ...], samples: tuple[tuple[Tensor, ...], ...]) -> None:
    assert not gc.isenabled()
    for module, sample in zip(modules, samples, strict=True):
        Graphed(module, sample)


@pytest.fixture
def captured(monkeypatch) -> list[Graphed]:
    """The graphs that were made. The CPU reads padding, as a GPU does."""
    monkeypatch.setattr(Graphed, "made", [])
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", _made)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (90, 100))
    monkeypatch.setattr(graphs, "_KIND", "cpu")
    monkeypatch.setattr(graphs, "_IS_SAFE", True)
    monkeypatch.setattr(gru, "_CUDNN", "cpu")
    return Graphed.made


def _pairs() -> Pairs:
    """Captions of 1 to 11 words."""
    pairs = some_pairs(52)
    return Pairs(pairs.array, pairs.rows, some_tokens(52, longest=11), pairs.places, pairs.owners)


def _trained(scheme: Scheme, epochs: int = 3) -> list[StepResult]:
    """The steps of epochs with six batches of 8 pairs and one of 4."""
    optimizer, averages = optimizer_for(scheme.setting.model, scheme.setting.train), Averages(scheme.models, None)
    steps: list[StepResult] = []
    for epoch in range(epochs):
        order = np.random.default_rng(epoch).permutation(52)
        steps += optimise.train_epoch(scheme, optimizer, averages, np.split(order, range(8, 52, 8)), epoch)
    return steps


SGD = {"optimiser": "sgd", "lr": 0.05, "epochs": 3}
SCHEMES = {
    "plain": ("max", {}),
    "memory_bank": ("hal", {"k": 5}),
    "crcl": ("crcl", {"warm_up": 1}),
    "ncr": ("max", {"warm_up": 1}),
    "bicro": ("max", {"warm_up": 1}),
    "l2rm": ("max", {"warm_up": 1}),
    "decl": ("decl", {"warm_up": 1}),
    "matryoshka": ("infonce", {"dims": [4]}),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_trains_by_graphs_as_without(name, captured, monkeypatch):
    loss, options = SCHEMES[name]
    runs = [some_scheme(_pairs(), loss, name, train=SGD, **options) for _ in range(2)]
    by_graphs = _trained(runs[0])
    assert captured
    assert _graphed(runs[0]) == len(captured), "none was refused"
    monkeypatch.setattr(graphs, "_KIND", "cuda")  # which this machine lacks
    plain = _trained(runs[1])
    np.testing.assert_allclose(by_graphs, plain, rtol=1e-3, atol=1e-4)
    weights = zip(*(run.setting.model.state_dict().values() for run in runs), strict=True)
    torch.testing.assert_close(*map(list, zip(*weights, strict=True)), rtol=1e-3, atol=1e-4)


def test_a_graph_is_made_once_for_each_length_rounded_up_to_fours(captured):
    scheme = some_scheme(_pairs(), "max", train=SGD)
    _trained(scheme)
    shapes = [tuple(graph.inputs[1].shape) for graph in captured]
    assert sorted(shapes) == sorted(set(shapes))
    assert {rows for rows, _ in shapes} == {8}, "the short last batch has none"
    assert {length for _, length in shapes} <= {4, 8, 12}
    assert _graphed(scheme) == len(shapes) > 1


def test_both_of_two_networks_have_graphs(captured):
    scheme = some_scheme(_pairs(), "max", "ncr", train=SGD, warm_up=3)
    _trained(scheme, epochs=1)
    assert {graph.module.img for graph in captured} == {model.img for model in scheme.models}


@pytest.mark.parametrize(
    ("text", "train"),
    [
        ({"dropout": 0.1}, {}),
        ({"drop_words": 0.1}, {}),
        ({"bidirectional": True}, {}),
        ({"pooling": "gpo"}, {}),
        ({}, {"chunk": 4}),
    ],
)
def test_passes_that_draw_numbers_or_ask_the_host_have_no_graph(text, train, captured):
    pairs = _pairs()
    model = some_model(pairs, text=member(TEXT_ENCODERS, "gru", word_dim=5, **text))
    _trained(some_scheme(pairs, "max", model=model, train=SGD | train), epochs=1)
    assert not captured


@pytest.mark.parametrize("pooling", ["last", "mean", "max"])
def test_further_padding_changes_no_vector(pooling, monkeypatch):
    monkeypatch.setattr(gru, "_CUDNN", "cpu")
    encoder = some_model(_pairs(), text=member(TEXT_ENCODERS, "gru", word_dim=5, pooling=pooling)).txt
    tokens, lengths = _pairs().batch(np.arange(8)).texts
    longer = nn.functional.pad(tokens, (0, 3))
    torch.testing.assert_close(encoder(longer, lengths), encoder(tokens, lengths))


def _failing(modules: tuple[nn.Module, ...], samples: tuple[tuple[Tensor, ...], ...]) -> None:
    raise RuntimeError("operation not permitted when stream is capturing")


def _frozen(modules: tuple[nn.Module, ...], samples: tuple[tuple[Tensor, ...], ...]) -> None:
    """The lengths are those of the sample."""
    _made(modules, samples)
    for module, sample in zip(modules, samples, strict=True):
        module.forward = partial(_with_lengths, module.forward, sample[2].clone())


def _with_lengths(replay, lengths: Tensor, features: Tensor, tokens: Tensor, _: Tensor):
    return replay(features, tokens, lengths)


@pytest.mark.parametrize(
    ("make", "free", "reason"),
    [
        (_failing, 90, "operation not permitted when stream is capturing"),
        (_frozen, 90, "words have other values than without"),
        (_made, 9, "of the GPU's memory are left"),
    ],
)
def test_a_graph_that_cannot_be_used_is_said_and_none_is_used(make, free, reason, captured, monkeypatch, capsys):
    """The steps are those of a run with graphs: the same inputs go through the same passes."""
    pairs = _pairs()
    plain = _trained(some_scheme(pairs, "max", train=SGD))
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", make)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 100))
    scheme = some_scheme(pairs, "max", train=SGD)
    assert _trained(scheme) == plain
    assert not _graphed(scheme)
    assert gc.isenabled()
    said = capsys.readouterr().err
    assert said.count("linear and gru train without CUDA graphs") == 1
    assert reason in said


def _graphed(scheme: Scheme) -> int:
    """Passes of the training that are graphs."""
    return sum("forward" in vars(one) for one in scheme.graphs._passes.values())
