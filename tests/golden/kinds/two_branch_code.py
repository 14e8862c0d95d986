"""The authors' code of the structure-preserving loss, and its gradients."""

import numpy as np
import torch

from tests.golden.compare import compare
from vse_pipe.train.batch import Scored
from vse_pipe.train.losses.options import StructureOptions as Params
from vse_pipe.train.losses.structure import loss


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    images = torch.tensor(arrays["im"], requires_grad=True)
    texts = torch.tensor(arrays["sent"], requires_grad=True)
    owners = torch.tensor(arrays["labels"].argmax(axis=1))
    params = Params(
        margin=float(arrays["margin"]),
        lambda1=float(arrays["im_loss_factor"]),
        lambda3=float(arrays["sent_only_loss_factor"]),
        top=int(arrays["num_neg_sample"]),
        variant="topk_mean",
    )
    shown = images[owners]
    total = loss(Scored.of(shown @ texts.T, owners, images=shown, texts=texts), params).total()
    total.backward()
    return [
        compare("loss", total.detach(), arrays["loss"]),
        compare("grad_im", images.grad, arrays["grad_im"], atol=1e-4),
        compare("grad_sent", texts.grad, arrays["grad_sent"], atol=1e-4),
    ]
