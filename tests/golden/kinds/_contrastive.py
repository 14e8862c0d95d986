"""The hinge losses and their gradients on the cosine of two sets of vectors."""

import numpy as np
import torch

from tests.golden.compare import compare
from vse_pipe.project.registry import LOSSES, SIMILARITIES
from vse_pipe.train.batch import Scored


def check_loss(loss: str, similarity: str, arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    images = torch.tensor(arrays["im"], requires_grad=True)
    texts = torch.tensor(arrays["s"], requires_grad=True)
    measure, member = SIMILARITIES.load(similarity), LOSSES.load(loss)
    scores = measure.score(images, texts, measure.Params())
    total = member.loss(Scored.of(scores), member.Params(margin=float(arrays["margin"]))).total()
    total.backward()
    return [
        compare("scores", scores.detach(), arrays["scores"]),
        compare("loss", total.detach(), arrays["loss"]),
        compare("grad_im", images.grad, arrays["grad_im"], atol=1e-4),
        compare("grad_s", texts.grad, arrays["grad_s"], atol=1e-4),
    ]
