"""Steps of reasoning over a graph for each image and caption; the network that learns them."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse_pipe.ranking.engine.alignment.attention import gram
from vse_pipe.ranking.engine.alignment.chunks import Portion, over_captions, over_images
from vse_pipe.ranking.engine.alignment.pairs import OfPairs
from vse_pipe.ranking.engine.alignment.sgraf import Alignment, draw
from vse_pipe.ranking.engine.words import Words
from vse_pipe.ranking.similarities.sgr import Params
from vse_pipe.ranking.similarities.sgr.graph import GraphReasoning, first_node, step, unit_nodes


class _SgrNetwork(Alignment):
    def __init__(self, params: Params, dim: int, regions: int) -> None:
        super().__init__(dim, params.sim_dim, regions, params.dropout)
        self.steps = [GraphReasoning(params.sim_dim) for _ in range(params.steps)]
        self.SGR_module = nn.ModuleList(self.steps)


def network(params: Params, dim: int, regions: int, rng: torch.Generator) -> nn.Module:
    """Weights from ``rng``; names as in the authors' state_dict."""
    return draw(_SgrNetwork(params, dim, regions), rng)


def score(
    images: Float[Tensor, "images regions dim"], texts: Words, params: Params, network: _SgrNetwork
) -> Float[Tensor, "images captions"]:
    """In (0, 1). Diao et al., Similarity Reasoning and Filtration for Image-Text Matching, AAAI 2021, Eq. 1 to 7.

    Captions of equal length are scored together, where the authors loop over captions: the same scores. Raises InputError
    for another number of regions than the network's.
    """
    merged = [module.merged() for module in network.steps]
    whole_captions = network.whole_captions(texts)

    def block(images: Tensor) -> Tensor:
        whole, inner = network.whole_images(images), gram(images)

        def part(portion: Portion, captions: Tensor) -> tuple[Tensor]:
            pairs = network.nodes(images, (whole, captions), inner, portion, params.temperature)
            return (torch.cat([_reason(pair, merged, network.sim_eval_w) for pair in pairs], dim=1),)

        rows = images.shape[0] * images.shape[1]
        kept = len(images) * params.sim_dim * (2 * params.steps - 1) * images.element_size()
        return over_captions(part, texts, rows, kept, beside=(whole_captions,))[0]

    return block(images) if network.training else over_images(block, images)


def pairs(images: Float[Tensor, "images regions dim"], texts: Words, params: Params, network: _SgrNetwork) -> OfPairs:
    """The same scores of single pairs, of a network in evaluation mode; see ``over_pairs``. Raises InputError as ``score``."""
    nodes = network.pairs(images, texts, params.temperature)
    merged = [module.merged() for module in network.steps]

    def of(*pair: Tensor) -> Float[Tensor, " pairs"]:
        return _reason(nodes(*pair), merged, network.sim_eval_w)[:, 0]

    return of


def _reason(pair: tuple[Tensor, Tensor], merged: list, final: nn.Linear) -> Float[Tensor, "images captions"]:
    nodes = unit_nodes(*pair)
    graphs = nodes.flatten(0, 1)
    for weights in merged[:-1]:
        graphs = step(graphs, weights)
    return final(first_node(graphs, merged[-1])).sigmoid().view(nodes.shape[:2])
