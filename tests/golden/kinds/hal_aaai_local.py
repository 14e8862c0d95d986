"""HAL's Eq. 7 without the memory bank: the authors' value and gradient, and the paper's value in float64."""

import numpy as np
import torch

from tests.golden.compare import compare
from vse_pipe.train.batch import Scored
from vse_pipe.train.losses.hal import loss
from vse_pipe.train.losses.options import HalOptions as Params


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    images = torch.tensor(arrays["im"], requires_grad=True)
    texts = torch.tensor(arrays["s"], requires_grad=True)
    gamma, eps = float(arrays["gamma"]), float(arrays["eps"])
    code = loss(Scored.of(images @ texts.T), Params(gamma=gamma, eps=eps, variant="code")).total()
    code.backward()
    wide = images.detach().double() @ texts.detach().double().T
    paper = loss(Scored.of(wide), Params(gamma=gamma, eps=eps, variant="paper")).total()
    return [
        compare("loss_code", code.detach(), arrays["loss_code"]),
        compare("loss_paper", paper, arrays["loss_paper"], atol=1e-7, rtol=1e-6),
        compare("grad_im_code", images.grad, arrays["grad_im_code"], atol=1e-4),
        compare("grad_s_code", texts.grad, arrays["grad_s_code"], atol=1e-4),
    ]
