"""Every member of a family that computes with torch has the values of the CPU on a device, and no operation mixes two."""

import numpy as np
import pytest
import torch
from torch import Tensor

from tests import pair_project
from tests.train.losses.contract import OWNERS, some_vectors
from vse_pipe.project.registry import IMAGE_ENCODERS, INFERENCES, LOSSES, SIMILARITIES, TEXT_ENCODERS
from vse_pipe.ranking import criteria
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.fragments import Words
from vse_pipe.ranking.matching import Allowance
from vse_pipe.ranking.split import BankSource, Split, cosine
from vse_pipe.train.matches import Matches
from vse_pipe.train.scored import Scored

CPU = torch.device("cpu")


def _gradients(results: list[Tensor], leaves: list[Tensor]) -> list[Tensor]:
    """The results and the gradient of their sum, on the CPU."""
    total = sum(result.square().sum() for result in results)
    gradients = torch.autograd.grad(total, leaves, allow_unused=True)
    return [found.detach().cpu() for found in [*results, *gradients] if found is not None]


def require_alike(on_device: list[Tensor], on_cpu: list[Tensor]) -> None:
    assert len(on_device) == len(on_cpu) > 0
    for found, expected in zip(on_device, on_cpu, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def loss_results(name: str, device: torch.device, matches: bool, mask: bool) -> list[Tensor]:
    member, sides = LOSSES.load(name), [side.to(device) for side in some_vectors()]
    images, texts = (side.requires_grad_() for side in sides)
    found = Matches.by_owner(OWNERS) if matches else None
    batch = Scored.from_scores(images @ texts.T, OWNERS, mask, images, texts, matches=found)
    networks = [member.network(member.Params())] if LOSSES.traits(name).learns else []
    networks = [network.double().to(device) for network in networks if network is not None]
    terms = member.loss(batch, member.Params(), *networks)
    leaves = [images, texts, *(weight for network in networks for weight in network.parameters())]
    return [*_gradients([terms.total()], leaves), terms.per_pair.detach().cpu()]


# Whether the batch has matches beyond its pairs, and whether captions of one image are no negatives of each other.
BATCHES = [(False, False), (False, True), (True, True)]


@pytest.mark.parametrize(("matches", "mask"), BATCHES)
@pytest.mark.parametrize("name", LOSSES.names())
def test_losses(device, name, matches, mask):
    require_alike(loss_results(name, device, matches, mask), loss_results(name, CPU, matches, mask))


def _sides(name: str, device: torch.device) -> tuple[Tensor, Tensor | Words]:
    rng = torch.Generator().manual_seed(0)

    def unit(*shape: int) -> Tensor:
        return torch.nn.functional.normalize(torch.randn(*shape, generator=rng), dim=-1).to(device).requires_grad_()

    if SIMILARITIES.traits(name).fragments:
        return unit(4, 3, 6), Words(unit(17, 6), torch.tensor([3, 1, 5, 3, 2, 3]))
    return unit(4, 6), unit(6, 6)


def similarity_results(name: str, device: torch.device) -> list[Tensor]:
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
    require_alike(similarity_results(name, device), similarity_results(name, CPU))


def _split(device: torch.device) -> Split:
    rng = np.random.default_rng(0)
    vectors = [torch.from_numpy(rng.standard_normal((count, 8)).astype(np.float32)) for count in (30, 90)]
    images, captions = (torch.nn.functional.normalize(side, dim=1).to(device) for side in vectors)
    return Split(np.arange(30), np.arange(90), np.arange(90) // 3, images, captions)


def criterion_results(name: str, device: torch.device) -> list[Tensor]:
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
    require_alike(criterion_results(name, device), criterion_results(name, CPU))


ENCODERS = [
    # test_stages.py trains finetune, test_steps.py a pretrained pair.
    *(("image", name) for name in IMAGE_ENCODERS.names() if IMAGE_ENCODERS.traits(name).reads != "pixels"),
    *(("text", name) for name in TEXT_ENCODERS.names() if TEXT_ENCODERS.traits(name).backbones is None),
]


def encoder_results(side: str, name: str, device: torch.device) -> list[Tensor]:
    family = IMAGE_ENCODERS if side == "image" else TEXT_ENCODERS
    member, options, rng = family.load(name), family.options(name), torch.Generator().manual_seed(0)
    options = options(**({"drop_words": 0.5} if "drop_words" in options.model_fields else {}))
    build = getattr(member, f"build_{side}")
    lengths = torch.tensor([5, 2, 1, 3])
    if side == "image":
        shape = (3, 8) if family.traits(name).regions or name == "pooled" else (8,)
        network, given = build(options, shape[-1], 8, rng), [torch.randn(4, *shape, generator=rng).to(device)]
    elif family.traits(name).reads == "tokens":
        network = build(options, 12, 8, rng)
        given = [torch.randint(1, 12, (4, 5), generator=rng).to(device), lengths]
    elif family.traits(name).reads == "fragments":
        network, given = build(options, 8, 8, rng), [torch.randn(4, 5, 8, generator=rng).to(device), lengths]
    else:
        network, given = build(options, 8, 8, rng), [torch.randn(4, 8, generator=rng).to(device)]
    network = network.to(device)
    network.eval()
    for module in network.modules():
        module.train(isinstance(module, torch.nn.RNNBase))  # cuDNN differentiates no other GRU
    result = network(*given)
    network.train()(*given)  # words are dropped and vectors thinned at random: only seen to run
    return _gradients([result], [*network.parameters()]) if [*network.parameters()] else [result.cpu()]


@pytest.mark.parametrize(("side", "name"), ENCODERS)
def test_encoders(device, side, name):
    require_alike(encoder_results(side, name, device), encoder_results(side, name, CPU))


def pair_results(device: torch.device, kind: str, options: dict, shape: tuple[int, ...] = ()) -> list[Tensor]:
    """Vectors and gradients of a pretrained pair that trains; kind, shape: as in tests.pair_project."""
    model, (batch, *_) = pair_project.model_of(pair_project.built(kind), **options), pair_project.batch_of(*shape)
    for name, weight in model.named_parameters():
        if "lora_b" in name:
            torch.nn.init.normal_(weight, 0.0, 0.02, generator=torch.Generator().manual_seed(0))
    images, texts = model.to(device).encode(batch.to(device), device)
    return _gradients([images, texts], [weight for weight in model.parameters() if weight.requires_grad])


@pytest.mark.parametrize("options", [{}, {"tune": "lora"}])
def test_a_pretrained_pair(device, options):
    pytest.importorskip("open_clip", reason="needs the extra open_clip")
    require_alike(pair_results(device, "clip", options), pair_results(CPU, "clip", options))
