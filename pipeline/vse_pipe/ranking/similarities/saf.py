"""SAF: the sum of alignments of words and global vectors, filtered by attention."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse_pipe.ranking.alignment import Alignment, Portion, attended, draw, gram, over_captions, over_images
from vse_pipe.ranking.fragments import EPS, Words, l2norm_eps
from vse_pipe.ranking.similarities.options import SafOptions as Params


class _Filtration(nn.Module):
    def __init__(self, sim_dim: int) -> None:
        super().__init__()
        self.attn_sim_w = nn.Linear(sim_dim, 1)
        self.bn = nn.BatchNorm1d(1)

    def forward(self, pooled: Tensor, local: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """From (images, captions, 1 and L, sim) to filtered vectors (images, captions, sim), and
        the mean and unbiased variance of each caption's logits over all its nodes and images:
        (captions, 1) each, (0, 1) in evaluation."""
        sizes = [torch.linalg.vector_norm(piece, dim=3) + EPS for piece in (pooled, local)]
        pieces = zip((pooled, local), sizes, strict=True)
        logits = torch.cat([piece @ self.attn_sim_w.weight[0] / size for piece, size in pieces], dim=2)
        logits = logits + self.attn_sim_w.bias
        mean, spread = self._running()
        means = variances = logits.new_empty(0, 1)
        if self.training:
            spread, mean = torch.var_mean(logits, dim=(0, 2), correction=0)
            count = logits[:, 0].numel()
            mean, spread = mean[:, None], spread[:, None]
            means, variances = mean.detach(), spread.detach() * (count / (count - 1))
        scaled = (logits - mean) * (spread + self.bn.eps).rsqrt() * self.bn.weight + self.bn.bias
        gates = scaled.sigmoid()
        gates = gates / (gates.sum(dim=2, keepdim=True) + EPS)
        pooled_gate, local_gates = (gates / torch.cat(sizes, dim=2)).split([1, local.shape[2]], dim=2)
        total = pooled_gate * pooled[:, :, 0] + (local_gates[:, :, None] @ local)[:, :, 0]
        return l2norm_eps(total), means, variances

    @torch.no_grad()
    def remember(self, means: Float[Tensor, " captions"], variances: Float[Tensor, " captions"]) -> None:
        """Update the running statistics once per caption, in order."""
        share = self.bn.momentum
        assert share is not None
        keep = 1 - share
        powers = keep ** torch.arange(len(means) - 1, -1, -1, dtype=torch.float64, device=means.device)
        for running, values in zip(self._running(), (means, variances), strict=True):
            running.mul_(keep ** len(values)).add_(share * (powers * values).sum().to(running))
        assert self.bn.num_batches_tracked is not None
        self.bn.num_batches_tracked += len(means)

    def _running(self) -> tuple[Tensor, Tensor]:
        assert self.bn.running_mean is not None
        assert self.bn.running_var is not None
        return self.bn.running_mean, self.bn.running_var


class _SafNetwork(Alignment):
    def __init__(self, params: Params, dim: int, regions: int) -> None:
        super().__init__(dim, params.sim_dim, regions, params.dropout)
        self.SAF_module = _Filtration(params.sim_dim)


def network(params: Params, dim: int, regions: int, rng: torch.Generator) -> nn.Module:
    """Weights from ``rng``; names as in the authors' state_dict."""
    return draw(_SafNetwork(params, dim, regions), rng)


def score(
    images: Float[Tensor, "images regions dim"], texts: Words, params: Params, network: _SafNetwork
) -> Float[Tensor, "images captions"]:
    """In (0, 1). Diao et al., Similarity Reasoning and Filtration for Image-Text Matching, AAAI
    2021, Eq. 1 to 3, 8, 9.

    Batch normalisation is that of the authors' loop over captions: in training each caption has the
    statistics of its own nodes over all images, and the running statistics are updated once per
    caption, in the order of the batch. Raises InputError for another number of regions than the
    network's."""
    whole_captions = network.whole_captions(texts)

    def block(images: Tensor) -> Tensor:
        pooled, inner = network.whole_images(images), gram(images)

        def part(portion: Portion, captions: Tensor) -> tuple[Tensor, ...]:
            pairs = network.nodes(images, (pooled, captions), inner, portion, params.temperature)
            filtered_parts = [network.SAF_module(*pair) for pair in pairs]
            filtered, means, variances = (torch.cat(pieces, dim=-2) for pieces in zip(*filtered_parts, strict=True))
            return network.sim_eval_w(filtered).sigmoid()[:, :, 0], means[:, 0], variances[:, 0]

        rows = images.shape[0] * images.shape[1]
        saved = len(images) * (2 * params.sim_dim + 6 * images.shape[1]) * images.element_size()
        outputs = over_captions(part, texts, rows, saved, extra=(whole_captions,))
        if network.training:
            network.SAF_module.remember(*outputs[1:])
        return outputs[0]

    return block(images) if network.training else over_images(block, images)


def regions(
    images: Float[Tensor, "images regions dim"], words: Float[Tensor, "words dim"], params: Params
) -> Float[Tensor, "images words regions"]:
    """The attention of every word to the regions, before the filter."""
    return attended(images, words, "clipped_l2norm", params.temperature)
