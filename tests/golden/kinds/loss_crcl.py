"""CRCL from similarities and the targets of the last visit: refined targets, the loss, its parts and its gradient."""

from dataclasses import replace

import numpy as np
import torch

from tests.golden.compare import compare
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.batch import Scored, own_chances
from vse_pipe.train.schemes.crcl import refined


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    member, tau = LOSSES.load("crcl"), float(arrays["tau"])
    scores = torch.tensor(arrays["scores"], requires_grad=True)
    batch = Scored.of(scores)
    chances = own_chances(batch, tau).detach()
    floor = 0.1 if arrays["confident"] else 0.0
    targets = refined(torch.from_numpy(arrays["y_last"]), chances, float(arrays["alpha"]), floor)
    terms = member.loss(replace(batch, targets=targets), member.Params(tau=tau))
    terms.total().backward()
    found = {"p": chances, "y": targets, "loss": terms.total().detach(), "grad_scores": scores.grad}
    found |= {"loss_positive": terms.parts["active"], "loss_negative": terms.parts["complementary"]}
    return [compare(name, ours, arrays[name], 1e-9, 1e-9) for name, ours in found.items()]
