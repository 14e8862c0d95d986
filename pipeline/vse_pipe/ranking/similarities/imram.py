"""IMRAM: words, or regions, attend to the other side several times with a memory."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from vse_pipe.ranking import alignment
from vse_pipe.ranking.fragments import Words
from vse_pipe.ranking.similarities.options import ImramOptions as Params


class _Memory(nn.Module):
    """The memory distillation units of both directions; names as in the authors' state_dict."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear_t2i, self.gate_t2i = nn.Linear(2 * dim, dim), nn.Linear(2 * dim, dim)
        self.linear_i2t, self.gate_i2t = nn.Linear(2 * dim, dim), nn.Linear(2 * dim, dim)

    def layers(self, words_attend: bool) -> tuple[nn.Linear, nn.Linear]:
        return (self.linear_t2i, self.gate_t2i) if words_attend else (self.linear_i2t, self.gate_i2t)

    def views(self, context: Float[Tensor, "... dim"], words_attend: bool) -> tuple[Tensor, Tensor]:
        """The context under the halves of both layers that read what is attended to. The layers are
        linear, so that they see a fragment of the context once, and not once for each fragment that
        attends to it."""
        first, second = (context @ layer.weight[:, context.shape[-1] :].t() for layer in self.layers(words_attend))
        return first, second


def network(params: Params, dim: int, regions: int, rng: torch.Generator) -> nn.Module:
    """Weights and biases uniform in +-1 / sqrt(2 dim), as torch draws them in the authors' code.
    Both directions are there in every mode; a direction that is not used gets no gradient."""
    memory = _Memory(dim)
    for weight in memory.parameters():
        nn.init.uniform_(weight, -((2 * dim) ** -0.5), (2 * dim) ** -0.5, generator=rng)
    return memory


def score(
    images: Float[Tensor, "images regions dim"], texts: Words, params: Params, network: _Memory
) -> Float[Tensor, "images captions"]:
    """Sums over the steps, within +-steps; ``both`` adds the directions. Chen et al., IMRAM, CVPR
    2020, Eq. 3 to 13.

    As in the authors' code a step compares what a fragment attends to with the fragment itself, not
    with its memory. Captions of equal length are scored together; the authors loop over captions,
    with the same scores."""

    def block(images: Tensor) -> Tensor:
        sides = images[:, None]
        views = network.views(sides, words_attend=True)

        def part(portion: alignment.Portion) -> tuple[Tensor]:
            chunks = portion.chunks(portion.vectors, 0)
            return (torch.cat([_scores(sides, views, chunk[None], params, network) for chunk in chunks], dim=1),)

        # A word has a memory for every image, and a region one for every caption; a step saves
        # about eight such.
        numbers = len(images) * images.shape[2]
        of_regions = images.shape[1] * len(texts) / max(1, len(texts.vectors))
        memories = {"text": 1.0, "image": of_regions, "both": 1 + of_regions}[params.mode]
        saved = int(8 * params.steps * numbers * memories * images.element_size())
        return alignment.over_captions(part, texts, numbers, saved)[0]

    return alignment.over_images(block, images)


def regions(
    images: Float[Tensor, "images regions dim"], words: Float[Tensor, "words dim"], params: Params
) -> Float[Tensor, "images words regions"]:
    """The attention of every word to the regions in the first step."""
    return alignment.attended(images, words, "clipped_l2norm", params.temperature)


def _scores(
    images: Float[Tensor, "a _ regions dim"],
    views: tuple[Tensor, Tensor],
    words: Float[Tensor, "_ b length dim"],
    params: Params,
    memory: _Memory,
) -> Float[Tensor, "a b"]:
    """views: those of the images, which every chunk of words shares."""
    totals = []
    if params.mode != "image":
        totals.append(_attended(words, images, views, memory.layers(words_attend=True), params))
    if params.mode != "text":
        word_views = memory.views(words, words_attend=False)
        totals.append(_attended(images, words, word_views, memory.layers(words_attend=False), params))
    return torch.stack(totals).sum(dim=0)


def _attended(
    fragments: Float[Tensor, "_ _ q dim"],
    context: Float[Tensor, "_ _ c dim"],
    views: tuple[Tensor, Tensor],
    layers: tuple[nn.Linear, nn.Linear],
    params: Params,
) -> Float[Tensor, "a b"]:
    """The sum over steps of the mean cosine of fragments with what their memories attend to."""
    query, total, long = fragments, torch.zeros(()).to(fragments), alignment.sizes(fragments)
    for step in range(params.steps):
        raw = (context @ query.transpose(2, 3)).transpose(1, 2)
        weights = alignment.attention(raw, "clipped_l2norm", params.temperature).permute(0, 2, 3, 1)
        attended = weights @ context
        lengths = (long * alignment.sizes(attended)).clamp_min(alignment.EPS)
        total = total + ((fragments * attended).sum(dim=3) / lengths).mean(dim=2)
        if step + 1 < params.steps:
            # In the first step the memories are the fragments, one for all of the other side.
            halves = (functional.linear(query, layer.weight[:, : query.shape[3]], layer.bias) for layer in layers)
            added, share = (half + weights @ view for half, view in zip(halves, views, strict=True))
            share = share.sigmoid()
            query = query * share + added.tanh() * (1 - share)
            query = alignment.l2norm_eps(query) if params.unit else query
    return total
