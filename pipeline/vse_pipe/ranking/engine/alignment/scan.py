"""SCAN's score of attended vectors, the same for both directions."""

from jaxtyping import Float
from torch import Tensor

from vse_pipe.ranking.engine.alignment.attention import EPS, TINY, attention, lengths
from vse_pipe.ranking.engine.alignment.choices import Aggregate, Norm


def stacked(
    raw: Float[Tensor, "a c b q"],
    inner: Float[Tensor, "a c c"],
    sizes: Float[Tensor, "*each q"],
    norm: Norm,
    temperature: float,
) -> Float[Tensor, "a b q"]:
    """The cosine of each query and the context vectors it attends to.

    raw: products of context and queries; inner: those of the context with itself; sizes: lengths of the queries, (b, q), or (a, 1, q)
    where each context has queries of its own. The attended
    vector c = sum_r w_r v_r is never made: e.c = sum_r w_r (v_r.e) and |c|^2 = w^T G w, with G the inner products. As in the
    authors' code the product of the lengths is at least 1e-8.
    """
    weights = attention(raw, norm, temperature)
    along = (weights * raw).sum(dim=1)
    return along / (sizes * lengths(weights, inner)).clamp_min(EPS)


def sizes(vectors: Float[Tensor, "... dim"]) -> Float[Tensor, "..."]:
    """Their lengths."""
    return vectors.square().sum(dim=-1).clamp_min(TINY).sqrt()


def aggregated(cosines: Float[Tensor, "... q"], how: Aggregate, lse: float) -> Float[Tensor, "..."]:
    """One score from those of all queries; ``lse``: log(sum exp(lse * x)) / lse."""
    if how == "mean":
        return cosines.mean(dim=-1)
    if how == "lse":
        return (lse * cosines).logsumexp(dim=-1) / lse
    return cosines.amax(dim=-1) if how == "max" else cosines.sum(dim=-1)
