"""SGR: a graph of alignments of words and global vectors; node 0 gives the score."""

import itertools

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from vse_pipe.ranking import alignment
from vse_pipe.ranking.fragments import Words
from vse_pipe.ranking.similarities.options import SgrOptions as Params


class _SgrNetwork(alignment.Alignment):
    def __init__(self, params: Params, dim: int, regions: int) -> None:
        super().__init__(dim, params.sim_dim, regions, params.dropout)
        self.steps = [_GraphReasoning(params.sim_dim) for _ in range(params.steps)]
        self.SGR_module = nn.ModuleList(self.steps)


def network(params: Params, dim: int, regions: int, rng: torch.Generator) -> nn.Module:
    """Weights from ``rng``; names as in the authors' state_dict."""
    return alignment.draw(_SgrNetwork(params, dim, regions), rng)


def score(
    images: Float[Tensor, "images regions dim"], texts: Words, params: Params, network: _SgrNetwork
) -> Float[Tensor, "images captions"]:
    """In (0, 1). Diao et al., Similarity Reasoning and Filtration for Image-Text Matching, AAAI
    2021, Eq. 1 to 7.

    Captions of equal length are scored together; the authors loop over captions, with the same
    scores. Raises InputError for another number of regions than the network's."""
    merged = [module.merged() for module in network.steps]
    whole_captions = network.whole_captions(texts)

    def block(images: Tensor) -> Tensor:
        pooled, inner = network.whole_images(images), alignment.gram(images)

        def part(portion: alignment.Portion, captions: Tensor) -> tuple[Tensor]:
            pairs = network.nodes(images, (pooled, captions), inner, portion, params.temperature)
            return (torch.cat([_reason(pair, merged, network.sim_eval_w) for pair in pairs], dim=1),)

        rows = images.shape[0] * images.shape[1]
        saved = len(images) * params.sim_dim * images.element_size()
        return alignment.over_captions(part, texts, rows, saved, extra=(whole_captions,))[0]

    return block(images) if network.training else alignment.over_images(block, images)


def _reason(pair: tuple[Tensor, Tensor], merged: list, final: nn.Linear) -> Float[Tensor, "images captions"]:
    graphs = torch.cat(pair, dim=2)
    weights = (*itertools.chain(*merged), final.weight, final.bias)
    return _Active.apply(_scores, graphs.flatten(0, 1), *weights).view(graphs.shape[:2])


def _scores(graphs: Float[Tensor, "graphs nodes sim"], *weights: Tensor) -> Float[Tensor, "graphs 1"]:
    """weights: four of each step, and those of the last layer."""
    nodes = alignment.l2norm_eps(graphs)
    steps = [weights[place : place + 4] for place in range(0, len(weights) - 2, 4)]
    for query, shift, weight, bias in steps[:-1]:
        edges = torch.bmm(functional.linear(nodes, query.t(), shift), nodes.transpose(1, 2))
        nodes = functional.linear(torch.bmm(edges.softmax(dim=2), nodes), weight, bias).relu()
    query, shift, weight, bias = steps[-1]
    edges = torch.bmm(torch.addmm(shift, nodes[:, 0], query)[:, None], nodes.transpose(1, 2))
    first = torch.bmm(edges.softmax(dim=2), nodes)[:, 0]
    return functional.linear(functional.linear(first, weight, bias).relu(), *weights[-2:]).sigmoid()


class _GraphReasoning(nn.Module):
    """``relu(W softmax(Q K^T) X)``, without a scale; names as in the authors' state_dict.

    With q = W_q x + b_q and k = W_k x + b_k the products of a node with all others are (x W_q^T W_k
    + b_q W_k) x^T plus a number that is equal for all of them, which the softmax ignores: one
    product of the size of the nodes instead of two. The bias of the keys therefore has no influence
    and gets no gradient; the authors' gets rounding errors."""

    def __init__(self, sim_dim: int) -> None:
        super().__init__()
        self.graph_query_w = nn.Linear(sim_dim, sim_dim)
        self.graph_key_w = nn.Linear(sim_dim, sim_dim)
        self.sim_graph_w = nn.Linear(sim_dim, sim_dim)

    def merged(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """W_q^T W_k (sim, sim), b_q W_k (sim,), and the weight and bias of the last layer."""
        query, key, out = self.graph_query_w, self.graph_key_w, self.sim_graph_w
        return query.weight.t() @ key.weight, query.bias @ key.weight, out.weight, out.bias


class _Active(torch.autograd.Function):
    """``function(rows, *weights)``, whose backward pass computes anew the rows with a gradient, on
    a GPU all."""

    @staticmethod
    def forward(ctx, function, rows, *weights):
        ctx.function = function
        ctx.save_for_backward(rows, *weights)
        return function(rows, *weights)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        rows, *weights = ctx.saved_tensors
        active = torch.arange(len(rows), device=rows.device)
        if rows.is_cpu:  # a GPU would have to be waited for
            active = active[grad.flatten(1).any(dim=1)]
        with torch.enable_grad():
            inputs = [tensor.detach().requires_grad_() for tensor in (rows[active], *weights)]
            outputs = ctx.function(*inputs)
        d_rows, *d_weights = torch.autograd.grad(outputs, inputs, grad[active])
        return None, torch.zeros_like(rows).index_copy_(0, active, d_rows), *d_weights


def regions(
    images: Float[Tensor, "images regions dim"], words: Float[Tensor, "words dim"], params: Params
) -> Float[Tensor, "images words regions"]:
    """The attention of every word to the regions, before the graph reasons."""
    return alignment.attended(images, words, "clipped_l2norm", params.temperature)
