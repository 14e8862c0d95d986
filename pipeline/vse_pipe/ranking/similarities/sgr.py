"""SGR: a graph of alignments of words and global vectors; its nodes reason over each other, node 0 gives the score."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from vse_pipe.ranking import alignment
from vse_pipe.ranking.fragments import OfPairs, Words
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
    """In (0, 1). Diao et al., Similarity Reasoning and Filtration for Image-Text Matching, AAAI 2021, Eq. 1 to 7.

    Captions of equal length are scored together; the authors loop over captions, with the same scores. Raises
    InputError for another number of regions than the network's."""
    merged = [module.merged() for module in network.steps]
    whole_captions = network.whole_captions(texts)

    def block(images: Tensor) -> Tensor:
        pooled, inner = network.whole_images(images), alignment.gram(images)

        def part(portion: alignment.Portion, captions: Tensor) -> tuple[Tensor]:
            pairs = network.nodes(images, (pooled, captions), inner, portion, params.temperature)
            return (torch.cat([_reason(pair, merged, network.sim_eval_w) for pair in pairs], dim=1),)

        rows = images.shape[0] * images.shape[1]
        saved = len(images) * params.sim_dim * (2 * params.steps - 1) * images.element_size()
        return alignment.over_captions(part, texts, rows, saved, extra=(whole_captions,))[0]

    return block(images) if network.training else alignment.over_images(block, images)


def pairs(images: Float[Tensor, "images regions dim"], texts: Words, params: Params, network: _SgrNetwork) -> OfPairs:
    """Scores of single pairs under a network in evaluation mode; see ``over_pairs``. Raises InputError as ``score``."""
    nodes = network.pairs(images, texts, params.temperature)
    merged = [module.merged() for module in network.steps]

    def pair_scores(*pair: Tensor) -> Float[Tensor, " pairs"]:
        return _reason(nodes(*pair), merged, network.sim_eval_w)[:, 0]

    return pair_scores


def _reason(pair: tuple[Tensor, Tensor], merged: list, final: nn.Linear) -> Float[Tensor, "images captions"]:
    nodes = _UnitNodes.apply(*pair)
    graphs = nodes.flatten(0, 1)
    for weights in merged[:-1]:
        graphs = _Step.apply(graphs, *weights)
    return final(_first_node(graphs, merged[-1])).sigmoid().view(nodes.shape[:2])


class _GraphReasoning(nn.Module):
    """``relu(W softmax(Q K^T) X)``, without a scale; names as in the authors' state_dict.

    With q = W_q x + b_q and k = W_k x + b_k the products of a node with all others are (x W_q^T W_k + b_q W_k) x^T plus
    a number that is equal for all of them, which the softmax ignores: one product of the size of the nodes instead of
    two. The bias of the keys therefore has no influence and gets no gradient; the authors' gets rounding errors."""

    def __init__(self, sim_dim: int) -> None:
        super().__init__()
        self.graph_query_w = nn.Linear(sim_dim, sim_dim)
        self.graph_key_w = nn.Linear(sim_dim, sim_dim)
        self.sim_graph_w = nn.Linear(sim_dim, sim_dim)

    def merged(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """W_q^T W_k (sim, sim), b_q W_k (sim,), and the weight and bias of the last layer."""
        query, key, out = self.graph_query_w, self.graph_key_w, self.sim_graph_w
        return query.weight.t() @ key.weight, query.bias @ key.weight, out.weight, out.bias


def _first_node(nodes: Float[Tensor, "graphs nodes sim"], merged: tuple) -> Float[Tensor, "graphs sim"]:
    """``_Step`` for node 0 only: its output (graphs, sim)."""
    query, shift, weight, bias = merged
    edges = torch.bmm(nodes, torch.addmm(shift, nodes[:, 0], query)[:, :, None]).softmax(dim=1)
    return torch.addmm(bias, torch.bmm(edges.transpose(1, 2), nodes)[:, 0], weight.t()).relu()


class _UnitNodes(torch.autograd.Function):
    """Global and local nodes, joined, at unit length (norm + 1e-8); saves its output, not its inputs."""

    @staticmethod
    def forward(ctx, pooled, local):
        nodes = local.new_empty(*local.shape[:2], 1 + local.shape[2], local.shape[3])
        sizes = [torch.linalg.vector_norm(piece, dim=3, keepdim=True) for piece in (pooled, local)]
        for piece, size, into in zip((pooled, local), sizes, _split(nodes), strict=True):
            torch.div(piece, size + alignment.EPS, out=into)
        ctx.save_for_backward(nodes, *sizes)
        return nodes

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        nodes, *sizes = ctx.saved_tensors
        grads = []
        for size, node, flow in zip(sizes, _split(nodes), _split(grad), strict=True):
            projection = (node * flow).sum(dim=3, keepdim=True)
            projection *= (size + alignment.EPS) / size.clamp_min(alignment.TINY)
            grads.append(torch.addcmul(flow, node, projection, value=-1).div_(size + alignment.EPS))
        return tuple(grads)


def _split(nodes: Tensor) -> tuple[Tensor, Tensor]:
    return nodes[:, :, :1], nodes[:, :, 1:]


class _Step(torch.autograd.Function):
    """Saves the queries and the edges; mixtures are cheap to compute again. Graphs without a gradient are left out."""

    @staticmethod
    def forward(ctx, nodes, query, shift, weight, bias):
        queries = torch.addmm(shift, nodes.flatten(0, 1), query).view_as(nodes)
        edges = torch.bmm(queries, nodes.transpose(1, 2)).softmax(dim=2)
        out = torch.addmm(bias, torch.bmm(edges, nodes).flatten(0, 1), weight.t()).relu_().view_as(nodes)
        ctx.save_for_backward(nodes, queries, edges, out, query, weight)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        *saved, query, weight = ctx.saved_tensors
        active = alignment.sparse(grad)
        full, places = None, None
        if active is not None:
            places, full = active.nonzero()[:, 0], torch.zeros_like(grad)
            grad, *saved = (tensor.index_select(0, places) for tensor in (grad, *saved))
        d_nodes, *d_params = _step_back(grad, *saved, query, weight)
        if places is not None:
            d_nodes = full.index_copy_(0, places, d_nodes)
        return d_nodes, *d_params


def _step_back(grad, nodes, queries, edges, out, query, weight) -> tuple[Tensor, ...]:
    inner = torch.ops.aten.threshold_backward(grad, out, 0).flatten(0, 1)  # of relu
    mixed = torch.bmm(edges, nodes).flatten(0, 1)
    d_weight, d_bias = inner.t() @ mixed, inner.sum(dim=0)
    d_mixed = torch.mm(inner, weight, out=mixed).view_as(nodes)
    d_edges = torch.bmm(d_mixed, nodes.transpose(1, 2)).mul_(edges)
    d_edges.sub_(edges * d_edges.sum(dim=2, keepdim=True))
    d_nodes = torch.bmm(edges.transpose(1, 2), d_mixed)
    d_nodes.baddbmm_(d_edges.transpose(1, 2), queries)
    d_queries = torch.bmm(d_edges, nodes, out=d_mixed).flatten(0, 1)
    d_nodes.flatten(0, 1).addmm_(d_queries, query.t())
    return d_nodes, nodes.flatten(0, 1).t() @ d_queries, d_queries.sum(dim=0), d_weight, d_bias


def regions(
    images: Float[Tensor, "images regions dim"], words: Float[Tensor, "words dim"], params: Params
) -> Float[Tensor, "images words regions"]:
    """The attention of every word to the regions, before the graph reasons."""
    return alignment.attended(images, words, "clipped_l2norm", params.temperature)
