"""Every member of a family that computes with torch has the values of the CPU on a device, and no operation mixes two."""

import inspect
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.train.losses.contract import OWNERS, some_vectors
from vse_pipe.project.registry import IMAGE_ENCODERS, INFERENCES, LOSSES, SIMILARITIES, TEXT_ENCODERS
from vse_pipe.ranking import criteria
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.fragments import Words
from vse_pipe.ranking.matching import Allowance
from vse_pipe.ranking.split import BankSource, Split, cosine
from vse_pipe.train.batch import Matches, Scored

CPU = torch.device("cpu")


def _gradients(results: list[Tensor], leaves: list[Tensor]) -> list[Tensor]:
    """The results and the gradient of their sum, on the CPU."""
    total = sum(result.float().square().sum() for result in results)
    gradients = torch.autograd.grad(total, leaves, allow_unused=True)
    return [found.detach().cpu() for found in [*results, *gradients] if found is not None]


def _require_alike(on_device: list[Tensor], on_cpu: list[Tensor]) -> None:
    assert len(on_device) == len(on_cpu) > 0
    for found, expected in zip(on_device, on_cpu, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def _loss(name: str, device: torch.device, matches: bool, mask: bool) -> list[Tensor]:
    member, sides = LOSSES.load(name), [side.float().to(device) for side in some_vectors()]
    images, texts = (side.requires_grad_() for side in sides)
    owners = OWNERS.to(device)
    batch = Scored.from_scores(images @ texts.T, owners, mask, images, texts)
    if matches:
        found = Matches.by_owner(owners)
        batch = replace(batch, matches=found, same=found.same)
    networks = [member.network(member.Params())] if LOSSES.traits(name).learns else []
    networks = [network.to(device) for network in networks if network is not None]
    terms = member.loss(batch, member.Params(), *networks)
    leaves = [images, texts, *(weight for network in networks for weight in network.parameters())]
    return [*_gradients([terms.total()], leaves), terms.per_pair.detach().cpu()]


@pytest.mark.parametrize(("matches", "mask"), [(False, False), (False, True), (True, True)])
@pytest.mark.parametrize("name", LOSSES.names())
def test_losses(device, name, matches, mask):
    _require_alike(_loss(name, device, matches, mask), _loss(name, CPU, matches, mask))


def _sides(name: str, device: torch.device) -> tuple[Tensor, Tensor | Words]:
    rng = torch.Generator().manual_seed(0)

    def unit(*shape: int) -> Tensor:
        return torch.nn.functional.normalize(torch.randn(*shape, generator=rng), dim=-1).to(device).requires_grad_()

    if SIMILARITIES.traits(name).fragments:
        return unit(4, 3, 6), Words(unit(17, 6), torch.tensor([3, 1, 5, 3, 2, 3]))
    return unit(4, 6), unit(6, 6)


def _similarity(name: str, device: torch.device) -> list[Tensor]:
    member, traits = SIMILARITIES.load(name), SIMILARITIES.traits(name)
    images, texts = _sides(name, device)
    networks = []
    if traits.learns:
        networks = [member.network(member.Params(), 6, 3, torch.Generator().manual_seed(1)).eval().to(device)]
    weights = [weight for network in networks for weight in network.parameters() if weight.requires_grad]
    scores = member.score(images, texts, member.Params(), *networks)
    return _gradients([scores], [images, texts.vectors if isinstance(texts, Words) else texts, *weights])


@pytest.mark.parametrize("name", SIMILARITIES.names())
def test_similarities(device, name):
    _require_alike(_similarity(name, device), _similarity(name, CPU))


def _split(device: torch.device) -> Split:
    rng = np.random.default_rng(0)
    vectors = [torch.from_numpy(rng.standard_normal((count, 8)).astype(np.float32)) for count in (30, 90)]
    images, captions = (torch.nn.functional.normalize(side, dim=1).to(device) for side in vectors)
    return Split(np.arange(30), np.arange(90), np.arange(90) // 3, images, captions)


def _ranked(name: str, device: torch.device) -> list[Tensor]:
    split, results = _split(device), []
    for direction in ("image_to_text", "text_to_image"):
        scores = split.scores(cosine, memory=64)
        scores = scores if direction == "image_to_text" else scores.transposed()
        bank: Bank = BankSource("test").bank(split, scores, direction, cosine, 64)
        criterion = criteria.parse(name, {})
        rescored = criterion.rerank(scores, bank)
        results += [torch.cat([block.cpu() for _, block in rescored.blocks()])]
        if criterion.matching:
            pairs = next(criterion.match(rescored, [Allowance(3)], split.truth(direction)))
            results += [torch.from_numpy(np.stack([pairs.rows, pairs.columns]))]
    return results


@pytest.mark.parametrize("name", [*INFERENCES.names(), "csls+rgm"])
def test_criteria(device, name):
    _require_alike(_ranked(name, device), _ranked(name, CPU))


_FROM_SIZES = [
    *(("image", name) for name in IMAGE_ENCODERS.names() if name != "finetune"),  # test_stages.py trains it
    *(("text", name) for name in TEXT_ENCODERS.names()),
]


def _encoded(side: str, name: str, device: torch.device) -> list[Tensor]:
    family = IMAGE_ENCODERS if side == "image" else TEXT_ENCODERS
    member, options, rng = family.load(name), family.options(name), torch.Generator().manual_seed(0)
    options = options(**({"drop_words": 0.5} if "drop_words" in options.model_fields else {}))
    build = getattr(member, f"build_{side}")
    lengths = torch.tensor([5, 2, 1, 3])
    if side == "image":
        shape = (3, 8) if family.traits(name).regions or name == "pooled" else (8,)
        network, given = build(options, shape, 8, rng), [torch.randn(4, *shape, generator=rng).to(device)]
    elif family.traits(name).reads == "tokens":
        network = build(options, 12, 8, rng)
        given = [torch.randint(1, 12, (4, 5), generator=rng).to(device), lengths]
    elif family.traits(name).reads == "fragments":
        network, given = build(options, 8, 8, rng), [torch.randn(4, 5, 8, generator=rng).to(device), lengths]
    else:
        network, given = build(options, 8, 8, rng), [torch.randn(4, 8, generator=rng).to(device)]
    network = network.to(device)
    result = network.eval()(*given)
    network.train()(*given)  # words are dropped and vectors thinned at random: only seen to run
    return _gradients([result], [*network.parameters()]) if [*network.parameters()] else [result.cpu()]


@pytest.mark.parametrize(("side", "name"), _FROM_SIZES)
def test_encoders(device, side, name):
    _require_alike(_encoded(side, name, device), _encoded(side, name, CPU))


_EYE = "torch.eye(len({0}), dtype=torch.bool, device={0}.device)"
# A fault each: module below vse_pipe, what stands there, what a mistake would be, and the computation that meets it.
FAULTS = [
    ("train.losses.hal", "masked_fill(batch.same,", "masked_fill(batch.same.cpu(),", _loss, "hal"),
    ("train.losses.crcl", _EYE.format("costs"), "torch.eye(len(costs), dtype=torch.bool)", _loss, "crcl"),
    ("train.losses.hal_emnlp", "masked_fill(~finite, 0)", "masked_fill((~finite).cpu(), 0)", _loss, "hal_emnlp"),
    ("train.losses.structure", _EYE.format("kin"), "torch.eye(len(kin), dtype=torch.bool)", _loss, "structure"),
    ("train.losses.structure", "distances.new_zeros(len(kin))", "torch.zeros(len(kin))", _loss, "structure"),
    (
        "train.losses.structure",
        "masked_fill(matching, torch.inf)",
        "masked_fill(matching.cpu(), 1)",
        _loss,
        "structure",
    ),
    ("train.losses.decl", "torch.zeros_like(exact[0])", "torch.zeros(len(exact[0]))", _loss, "decl"),
    ("train.losses.hub", "torch.eye(len(plan)).to(plan)", "torch.eye(len(plan))", _loss, "hub"),
    ("train.losses.hub", "torch.zeros_like(logits[0])", "torch.zeros(len(logits))", _loss, "hub"),
    ("train.losses.hal", "exponents.new_zeros(len(exponents), 1)", "torch.zeros(len(exponents), 1)", _loss, "hal"),
    ("train.losses.rcl", "masked_fill(same, 0)", "masked_fill(same.cpu(), 0)", _loss, "rcl"),
    ("ranking.similarities.sgr", "local.new_empty(", "torch.empty(", _similarity, "sgr"),
    ("ranking.inference.sinkhorn", ", device=potential.device", "", _ranked, "sinkhorn"),
    (
        "ranking.similarities.sgr",
        "torch.addmm(bias, torch.bmm(edges, nodes)",
        "torch.addmm(bias.cpu(), torch.bmm(edges, nodes)",
        _similarity,
        "sgr",
    ),
    ("ranking.similarities.order", 'images.device.type == "cpu" and ', "", _similarity, "order"),
    ("ranking.inference.mutual_proximity", "strip.is_cpu and ", "", _ranked, "mutual_proximity"),
    (
        "ranking.inference.mutual_proximity",
        "torch.where(deviation > 0,",
        "torch.where(deviation.cpu() > 0,",
        _ranked,
        "mutual_proximity",
    ),
    ("ranking.inference.qb_norm", "active[strip", "active.cpu()[strip", _ranked, "qb_norm"),
    ("ranking.inference.hungarian", "strip.double().cpu()", "strip.double()", _ranked, "hungarian"),
    ("train.encoders.gru", "order.to(tokens.device)", "order", _encoded, "text gru"),
    ("train.encoders.gru", 'device.type == "cpu" and ', "", _encoded, "text gru"),
    ("train.encoders.pooled", "mask.to(placed.device)", "mask", _encoded, "text pooled"),
    ("train.encoders.pooled", ", device=features.device", "", _encoded, "image pooled"),
]


@pytest.mark.parametrize(("module", "right", "wrong", "compute", "name"), FAULTS)
def test_planted_faults_are_caught(device, monkeypatch, module, right, wrong, compute, name):
    member = import_module(f"vse_pipe.{module}")
    source = inspect.getsource(member)
    assert right in source
    changed = dict(vars(member))
    exec(compile(source.replace(right, wrong, 1), member.__file__, "exec"), changed)
    for key, value in changed.items():
        if getattr(value, "__module__", "") == member.__name__:
            monkeypatch.setattr(member, key, value)
    with pytest.raises((RuntimeError, TypeError)):
        compute(*name.split(), device, *([True, True] if compute is _loss else []))
