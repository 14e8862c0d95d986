"""IMRAM: words ask the regions, and regions the words, in several steps, between which a memory refines the question."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse_pipe.ranking import alignment
from vse_pipe.ranking.fragments import OfPairs, Words
from vse_pipe.ranking.similarities.options import ImramOptions as Params

# Tensors as large as the queries that a step saves for its gradients, in bytes a number.
_SAVED = 36


class _ImramNetwork(nn.Module):
    def __init__(self, params: Params, dim: int) -> None:
        super().__init__()
        for direction in params.directions:
            self.add_module(f"linear_{direction}", nn.Linear(2 * dim, dim))
            self.add_module(f"gate_{direction}", nn.Linear(2 * dim, dim))

    def memory(self, direction: str) -> tuple[Tensor, Tensor, Tensor]:
        """Weights of the update and then of the gate, for queries and for what they attend to, (dim, 2 dim) each, and
        biases."""
        weights, biases = (
            torch.cat([self.get_parameter(f"{layer}_{direction}.{name}") for layer in ("linear", "gate")])
            for name in ("weight", "bias")
        )
        of_queries, of_attended = weights.t().chunk(2)
        return of_queries, of_attended, biases


def network(params: Params, dim: int, regions: int, rng: torch.Generator) -> nn.Module:
    """Weights from ``rng``, uniform in +-1 / sqrt(2 dim) as torch draws them; names as in the authors' state_dict."""
    layers = _ImramNetwork(params, dim)
    for weight in layers.parameters():
        nn.init.uniform_(weight, -1 / math.sqrt(2 * dim), 1 / math.sqrt(2 * dim), generator=rng)
    return layers


def score(
    images: Float[Tensor, "images regions dim"], texts: Words, params: Params, network: _ImramNetwork
) -> Float[Tensor, "images captions"]:
    """The sum over steps and directions of the mean cosine between a fragment and what its query attends to.

    Source: Chen et al., IMRAM, CVPR 2020, and the authors' code (github.com/HuiChen24/IMRAM), which loops over captions,
    adds the steps in float64 and refines queries once more than it uses. The cosine is that of the fragment as it was
    encoded; only the attention follows the refined query."""

    def block(images: Tensor) -> Tensor:
        def part(portion: alignment.Portion) -> tuple[Tensor]:
            chunks = portion.chunks(portion.vectors, 0)
            return (torch.cat([_chunk(images, words, params, network) for words in chunks], dim=1),)

        widest = max(images.shape[1:])
        questions = ("t2i" in params.directions) + images.shape[1] * ("i2t" in params.directions)
        saved = _SAVED * params.steps * questions * len(images) * images.shape[2]
        return alignment.over_captions(part, texts, len(images) * widest, saved)[0]

    return alignment.over_images(block, images)


def _chunk(
    images: Float[Tensor, "images regions dim"],
    words: Float[Tensor, "captions length dim"],
    params: Params,
    network: _ImramNetwork,
) -> Float[Tensor, "images captions"]:
    scores = images.new_zeros(len(images), len(words))
    if "t2i" in params.directions:
        scores = scores + _steps(images, words.flatten(0, 1), len(words), params, network.memory("t2i"))
    if "i2t" in params.directions:
        scores = scores + _steps(words, images.flatten(0, 1), len(images), params, network.memory("i2t")).t()
    return scores


def _steps(
    contexts: Float[Tensor, "a c dim"],
    fragments: Float[Tensor, "*a bq dim"],
    count: int,
    params: Params,
    memory: tuple[Tensor, Tensor, Tensor],
) -> Float[Tensor, "a b"]:
    """Each context answers the fragments of ``count`` sets, or fragments of its own; a step follows the other.

    The layer of what is attended to is applied to the context, which has fewer vectors than there are questions."""
    of_queries, of_attended, bias = memory
    long, queries, cosines = alignment.sizes(fragments), fragments, []
    replies = contexts @ of_attended
    for step in range(params.steps):
        raw = (contexts @ queries.mT).unflatten(2, (count, -1))
        weights = alignment.attention(raw, params.norm, params.temperature).flatten(2).mT
        attended = weights @ contexts
        products = (fragments * attended).sum(dim=2) / (long * alignment.sizes(attended)).clamp_min(alignment.EPS)
        cosines.append(products.unflatten(1, (count, -1)).mean(dim=2))
        if step + 1 < params.steps:
            update, gate = (weights @ replies + (queries @ of_queries + bias)).chunk(2, dim=2)
            queries = torch.lerp(update.tanh(), queries.expand_as(update), gate.sigmoid())
            queries = alignment.l2norm(queries) if params.unit_queries else queries
    return torch.stack(cosines).sum(dim=0)


def pairs(images: Float[Tensor, "images regions dim"], texts: Words, params: Params, network: _ImramNetwork) -> OfPairs:
    """The same scores of single pairs; see ``over_pairs``."""

    def pair_scores(rows: Tensor, columns: Tensor, words: Float[Tensor, "pairs length dim"]) -> Float[Tensor, " pairs"]:
        sides = {"t2i": (images[rows], words), "i2t": (words, images[rows])}
        scores = [_steps(*sides[name], 1, params, network.memory(name))[:, 0] for name in params.directions]
        return torch.stack(scores).sum(dim=0)

    return pair_scores


def regions(
    images: Float[Tensor, "images regions dim"], words: Float[Tensor, "words dim"], params: Params, network: nn.Module
) -> Float[Tensor, "images words regions"]:
    """The attention of every word to the regions in the first step."""
    return alignment.attended(images, words, params.norm, params.temperature)
