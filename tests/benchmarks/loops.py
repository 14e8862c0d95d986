"""The fragment similarities a caption at a time, all images at once, as the authors' programs go: what ours are timed against.

Batched products and nothing clever: attended vectors are made, all of it is kept for the gradient. The maths of SCAN and SGRAF
in their published form; scores agree with ours, which ``tests/ranking/similarities`` checks.
"""

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, leaky_relu

from vse_pipe.ranking.fragments import Words

EPS = 1e-8


def _unit(vectors: Tensor) -> Tensor:
    return vectors / (vectors.norm(dim=-1, keepdim=True) + EPS)


def _attended(context: Tensor, queries: Tensor, temperature: float) -> Tensor:
    """(images, c, dim) and (images, q, dim) to the mean context of every query; similarities are normalised over queries."""
    raw = _unit(leaky_relu(context @ queries.transpose(1, 2), 0.1))
    return (temperature * raw.transpose(1, 2)).softmax(dim=2) @ context


def _scan_t2i(images: Tensor, words: Tensor, params) -> Tensor:
    return cosine_similarity(words, _attended(images, words, params.temperature), dim=2).mean(dim=1)


def _scan_i2t(images: Tensor, words: Tensor, params) -> Tensor:
    return cosine_similarity(images, _attended(words, images, params.temperature), dim=2).mean(dim=1)


def _nodes(images: Tensor, words: Tensor, whole: Tensor, params, network) -> Tensor:
    context = _unit(_attended(images, words, params.temperature))
    local = _unit(network.sim_tranloc_w((context - words).square()))
    text = network.t_global_w(words[:1])
    return torch.cat([_unit(network.sim_tranglo_w((whole - text).square()))[:, None], local], dim=1)


def _sgr(images: Tensor, words: Tensor, params, network, whole: Tensor) -> Tensor:
    nodes = _nodes(images, words, whole, params, network)
    for step in network.SGR_module:
        edges = (step.graph_query_w(nodes) @ step.graph_key_w(nodes).transpose(1, 2)).softmax(dim=2)
        nodes = step.sim_graph_w(edges @ nodes).relu()
    return network.sim_eval_w(nodes[:, 0]).sigmoid()[:, 0]


def _saf(images: Tensor, words: Tensor, params, network, whole: Tensor) -> Tensor:
    nodes, module = _nodes(images, words, whole, params, network), network.SAF_module
    gates = module.bn(module.attn_sim_w(nodes).transpose(1, 2)).sigmoid()
    gates = gates / (gates.sum(dim=2, keepdim=True) + EPS)
    return network.sim_eval_w(_unit((gates @ nodes)[:, 0])).sigmoid()[:, 0]


def score(name: str, images: Tensor, texts: Words, params, network=None) -> Tensor:
    """(images, captions) under similarity ``name`` with its default options."""
    whole = (network.whole_images(images),) if network is not None else ()
    extra = () if network is None else (network, *whole)
    one = {"scan_t2i": _scan_t2i, "scan_i2t": _scan_i2t, "sgr": _sgr, "saf": _saf}[name]
    columns = []
    for caption in texts.vectors.split(texts.lengths.tolist()):
        words = caption.expand(len(images), *caption.shape)
        columns.append(one(images, words, params, *extra))
    return torch.stack(columns, dim=1)
