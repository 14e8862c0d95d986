"""HAL's memory bank: the weights of Eq. 6 and the loss under them, the authors' with gradients and the paper's."""

import numpy as np
import torch

from tests.golden.compare import compare
from vse_pipe.train.batch import Scored
from vse_pipe.train.losses.hal import loss
from vse_pipe.train.losses.options import HalOptions as Params
from vse_pipe.train.schemes.memory_bank import left_out, weights
from vse_pipe.train.schemes.options import MemoryBankOptions as BankParams


def _total(arrays: dict[str, np.ndarray], variant: str, images: torch.Tensor, texts: torch.Tensor):
    """The loss and the weights, both in the precision of the vectors."""
    scores = images @ texts.T
    bank_images, bank_texts = (torch.tensor(arrays[name]).to(images) for name in ("mb_img", "mb_cap"))
    options = {name: float(arrays[name]) for name in ("alpha", "beta", "eps1", "eps2")}
    weighting = BankParams(k=int(arrays["mb_k"]), variant=variant, **options)
    out = left_out(torch.tensor(arrays["indices"]), torch.tensor(arrays["mb_ind"]))
    factors = weights(scores, images @ bank_texts.T, bank_images @ texts.T, out, weighting)
    params = Params(gamma=float(arrays["gamma"]), eps=float(arrays["eps"]), variant=variant)
    return loss(Scored.of(scores, weights=factors), params).total(), factors


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    images = torch.tensor(arrays["im"], requires_grad=True)
    texts = torch.tensor(arrays["s"], requires_grad=True)
    code, _ = _total(arrays, "code", images, texts)
    code.backward()
    wide = images.detach().double(), texts.detach().double()
    paper, paper_weights = _total(arrays, "paper", *wide)
    _, code_weights = _total(arrays, "code", *wide)
    return [
        compare("W_code", code_weights, arrays["W_code"], atol=1e-9, rtol=1e-9),
        compare("W_paper", paper_weights, arrays["W_paper"], atol=1e-9, rtol=1e-9),
        compare("loss_code", code.detach(), arrays["loss_code"]),
        compare("loss_paper", paper, arrays["loss_paper"], atol=1e-9, rtol=1e-9),
        compare("grad_im_code", images.grad, arrays["grad_im_code"], atol=1e-4),
        compare("grad_s_code", texts.grad, arrays["grad_s_code"], atol=1e-4),
    ]
