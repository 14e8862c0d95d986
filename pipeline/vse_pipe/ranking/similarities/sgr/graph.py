"""One step of reasoning on graphs of alignment vectors: every node becomes a mixture of all nodes of its graph."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from vse_pipe.ranking.engine.alignment.alignment import sparse
from vse_pipe.ranking.engine.alignment.attention import EPS, TINY


class GraphReasoning(nn.Module):
    """``relu(W softmax(Q K^T) X)``, without a scale; names as in the authors' state_dict.

    With q = W_q x + b_q and k = W_k x + b_k the products of a node with all others are (x W_q^T W_k + b_q W_k) x^T plus a
    number that is the same for all of them, which the softmax ignores: one product of the size of the nodes and not two.
    The bias of the keys therefore has no influence and gets no gradient; the authors' gets rounding errors.
    """

    def __init__(self, sim_dim: int) -> None:
        super().__init__()
        self.graph_query_w = nn.Linear(sim_dim, sim_dim)
        self.graph_key_w = nn.Linear(sim_dim, sim_dim)
        self.sim_graph_w = nn.Linear(sim_dim, sim_dim)

    def merged(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """W_q^T W_k (sim, sim), b_q W_k (sim,), and the weight and bias of the last layer."""
        query, key, out = self.graph_query_w, self.graph_key_w, self.sim_graph_w
        return query.weight.t() @ key.weight, query.bias @ key.weight, out.weight, out.bias


def unit_nodes(
    whole: Float[Tensor, "images captions 1 sim"], local: Float[Tensor, "images captions length sim"]
) -> Float[Tensor, "images captions nodes sim"]:
    """Both behind each other at unit length; 1e-8 is added to the norm."""
    return _UnitNodes.apply(whole, local)


def step(nodes: Float[Tensor, "graphs nodes sim"], merged: tuple) -> Float[Tensor, "graphs nodes sim"]:
    return _Step.apply(nodes, *merged)


def first_node(nodes: Float[Tensor, "graphs nodes sim"], merged: tuple) -> Float[Tensor, "graphs sim"]:
    """The same step for node 0 alone."""
    query, shift, weight, bias = merged
    asked = torch.addmm(shift, nodes[:, 0], query)
    edges = torch.bmm(nodes, asked[:, :, None]).softmax(dim=1)
    mixed = torch.bmm(edges.transpose(1, 2), nodes)[:, 0]
    return torch.addmm(bias, mixed, weight.t()).relu()


class _UnitNodes(torch.autograd.Function):
    """Keeps what it gives and not what it got."""

    @staticmethod
    def forward(ctx, whole, local):
        nodes = local.new_empty(*local.shape[:2], 1 + local.shape[2], local.shape[3])
        sizes = [torch.linalg.vector_norm(piece, dim=3, keepdim=True) for piece in (whole, local)]
        for piece, size, into in zip((whole, local), sizes, _split(nodes), strict=True):
            torch.div(piece, size + EPS, out=into)
        ctx.save_for_backward(nodes, *sizes)
        return nodes

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        nodes, *sizes = ctx.saved_tensors
        found = []
        for size, node, flow in zip(sizes, _split(nodes), _split(grad), strict=True):
            along = (node * flow).sum(dim=3, keepdim=True)
            along *= (size + EPS) / size.clamp_min(TINY)
            found.append(torch.addcmul(flow, node, along, value=-1).div_(size + EPS))
        return tuple(found)


def _split(nodes: Tensor) -> tuple[Tensor, Tensor]:
    return nodes[:, :, :1], nodes[:, :, 1:]


class _Step(torch.autograd.Function):
    """Keeps the queries and the edges; mixtures are cheap to make again. Graphs without a gradient are left out."""

    @staticmethod
    def forward(ctx, nodes, query, shift, weight, bias):
        asked = torch.addmm(shift, nodes.flatten(0, 1), query).view_as(nodes)
        edges = torch.bmm(asked, nodes.transpose(1, 2)).softmax(dim=2)
        mixed = torch.bmm(edges, nodes)
        out = torch.addmm(bias, mixed.flatten(0, 1), weight.t()).relu_().view_as(nodes)
        ctx.save_for_backward(nodes, asked, edges, out, query, weight)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        *kept, query, weight = ctx.saved_tensors
        some = sparse(grad)
        whole, places = None, None
        if some is not None:
            places, whole = some.nonzero()[:, 0], torch.zeros_like(grad)
            grad, *kept = (tensor.index_select(0, places) for tensor in (grad, *kept))
        d_nodes, *others = _step_back(grad, *kept, query, weight)
        if places is not None:
            d_nodes = whole.index_copy_(0, places, d_nodes)
        return d_nodes, *others


def _step_back(grad, nodes, asked, edges, out, query, weight) -> tuple[Tensor, ...]:
    inner = torch.ops.aten.threshold_backward(grad, out, 0).flatten(0, 1)  # of relu
    mixed = torch.bmm(edges, nodes).flatten(0, 1)
    d_weight, d_bias = inner.t() @ mixed, inner.sum(dim=0)
    d_mixed = torch.mm(inner, weight, out=mixed).view_as(nodes)
    d_edges = torch.bmm(d_mixed, nodes.transpose(1, 2)).mul_(edges)
    d_edges.sub_(edges * d_edges.sum(dim=2, keepdim=True))
    d_nodes = torch.bmm(edges.transpose(1, 2), d_mixed)
    d_nodes.baddbmm_(d_edges.transpose(1, 2), asked)
    d_asked = torch.bmm(d_edges, nodes, out=d_mixed).flatten(0, 1)
    d_nodes.flatten(0, 1).addmm_(d_asked, query.t())
    return d_nodes, nodes.flatten(0, 1).t() @ d_asked, d_asked.sum(dim=0), d_weight, d_bias
