"""DECL from similarities, with pairs taken for mismatched and without: the loss, its parts, its gradient, and the fits."""

from dataclasses import replace

import numpy as np
import torch

from tests.golden.compare import compare
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.batch import Scored, fits


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    member, tau = LOSSES.load("decl"), float(arrays["tau"])
    given = {name: float(arrays[name]) for name in ("tau", "margin", "lambda1", "lambda2")}
    params = member.Params(hardest=int(arrays["hardest"]), **given)
    scores = torch.tensor(arrays["raw"], requires_grad=True)
    batch = Scored.of(scores)
    terms = member.loss(replace(batch, targets=torch.from_numpy(arrays["preds"]).to(scores.dtype)), params)
    terms.total().backward()
    alone = member.loss(batch, params.model_copy(update={"lambda1": 1.0}))
    hinge = alone.per_pair - member.loss(batch, params.model_copy(update={"lambda1": 0.0})).per_pair
    found = {"loss_evidential": terms.parts["evidential"], "loss_rdh": terms.parts["hinge"]}
    found |= {"loss": terms.total().detach(), "loss_warm_up": member.loss(batch, params).total().detach()}
    found |= {"rdh_per_pair": hinge.detach(), "fit": fits(batch, tau).diagonal().detach()}
    # The authors take differences of lgamma and digamma of thousands in float32: of their own loss 1e-3 is rounding.
    return [compare(name, ours, arrays[name], rtol=3e-4) for name, ours in found.items()] + [
        compare("grad_raw", scores.grad, arrays["grad_raw"], atol=5e-4)
    ]
