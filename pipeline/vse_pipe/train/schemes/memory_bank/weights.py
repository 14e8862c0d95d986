"""The weights that HAL's memory bank gives to the cells of a batch (HAL, AAAI 2020, Eq. 6)."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse_pipe.core.errors import InputError
from vse_pipe.train.schemes.memory_bank import Params


@torch.no_grad()
def weights(
    scores: Float[Tensor, "pairs pairs"],
    to_bank_texts: Float[Tensor, "pairs bank"],
    to_bank_images: Float[Tensor, "bank pairs"],
    excluded: Bool[Tensor, "pairs bank"],
    params: Params,
) -> Float[Tensor, "pairs pairs"]:
    """W of Eq. 6, in [0, 1], without gradient: large where image or text has close neighbours in the bank.

    scores: the batch's own, rows images. to_bank_texts: its images against the bank's texts; to_bank_images:
    the bank's images against its texts. excluded: bank entries that are no neighbours of a pair (see
    ``left_out``).

    ``W_ii = n / (n + e^(a(S_ii - eps1)))``, n the sum of ``e^(a(s - eps2))`` over the k nearest bank texts of
    image i and the k nearest bank images of text i; ``W_it = N / (N + e^(b(S_ii - eps1)) + e^(b(S_tt -
    eps1)))``, N the same sum with b over the bank texts of image i and the bank images of text t. The paper
    prints ``M_T`` for both; K2 must be bank images. A pair with fewer than k neighbours left uses those; with
    none, its sum is 0.

    ``code``: eps1 also in n; ``e^(b s - eps2)`` and ``e^(b S)`` in W_it, where Python's precedence leaves the
    margin outside of the product; k at most the batch size. As in the authors' code, W passes no gradient,
    which Eq. 8 also takes for granted. Sums stay logarithms: a large alpha or beta does not overflow.

    Raises InputError when the bank is empty.
    """
    if to_bank_texts.shape[1] == 0:
        raise InputError("the memory bank is empty: raise its rate, or train on more pairs")
    code = params.variant == "code"
    k = min(params.k, len(scores)) if code else params.k
    texts = _nearest(to_bank_texts.masked_fill(excluded, -torch.inf), k)
    images = _nearest(to_bank_images.T.masked_fill(excluded, -torch.inf), k)
    positives = scores.diagonal()

    margin = params.eps1 if code else params.eps2
    near = torch.cat([texts, images], dim=1)
    own = (params.alpha * (near - margin)).logsumexp(dim=1) - params.alpha * (positives - params.eps1)

    bank, positive = (params.eps2, 0.0) if code else (params.beta * params.eps2, params.beta * params.eps1)
    of_image = (params.beta * texts - bank).logsumexp(dim=1)
    of_text = (params.beta * images - bank).logsumexp(dim=1)
    pulled = params.beta * positives - positive
    crossed = torch.logaddexp(of_image[:, None], of_text[None, :])
    held = torch.logaddexp(pulled[:, None], pulled[None, :])
    return (crossed - held).sigmoid().diagonal_scatter(own.sigmoid())


def left_out(
    batch: Int[Tensor, " pairs"], bank: Int[Tensor, " bank"], whole_batch: bool = True
) -> Bool[Tensor, "pairs bank"]:
    """Bank entries that pair i must not meet, by id: of captions as the authors have it, or of images.

    whole_batch: every entry that any pair of the batch has, as in the authors' code; False: only the pair's
    own, the paper's ``M \\ {t}``. By captions the positive image can still be met under another of its
    captions; by images not.
    """
    same = batch[:, None] == bank[None, :]
    return same.any(dim=0).expand_as(same) if whole_batch else same


def _nearest(near: Float[Tensor, "pairs bank"], k: int) -> Float[Tensor, "pairs k"]:
    return near.topk(min(k, near.shape[1]), dim=1, sorted=False).values
