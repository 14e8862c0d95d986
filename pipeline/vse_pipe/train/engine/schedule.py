"""The rate of every step, in closed form of epoch and step: nothing to keep, so a run that goes on takes the same ones.

``torch.optim.lr_scheduler`` counts calls instead; how many steps an epoch has differs between epochs of some schemes, and its
recursion for the cosine rounds otherwise than the formula.
"""

import math
from dataclasses import dataclass

import torch

from vse_pipe.project.params.schema import TrainParams
from vse_pipe.train.engine.heads import OwnRate


@dataclass(frozen=True)
class Moment:
    """Where training stands: before ``step`` of the ``steps`` of ``epoch``, both counted from 0.

    anew: the epoch in which the network last began with fresh weights; decays_from: that from which decay is counted,
    L2RM's end of the warm-up.
    """

    epoch: int
    step: int = 0
    steps: int = 1
    anew: int = 0
    decays_from: int = 0


def set_rates(optimizer: torch.optim.Optimizer, params: TrainParams, at: Moment) -> float:
    """Give every group its rate. Returns that of the parameters without an own rate."""
    for group in optimizer.param_groups:
        later: OwnRate | None = group["later"]
        rate: OwnRate = later if later and at.epoch >= later.after else group["rate"]
        group["lr"] = rate.lr * share(params, at, rate.after)
    return optimizer.param_groups[0]["lr"]


def share(params: TrainParams, at: Moment, begins: int = 0) -> float:
    """Of the full rate. begins: the epoch from which the schedule of these parameters counts.

    Both schedules are multiplied by a line that reaches 1 with the last step of ``warm_up`` epochs. ``steps`` is
    ``0.1 ^ (epochs // lr_update)``; ``cosine``, once the warm-up is over, ``final + (1 - final) (1 + cos(pi t)) / 2`` with t
    from 0 to 1 over the steps that are left of all epochs (Loshchilov and Hutter, SGDR, ICLR 2017, Eq. 5, without restarts).
    """
    begins = max(begins, at.anew)
    rises = 1.0
    if params.warm_up and at.epoch >= begins:
        rises = min(1.0, (at.epoch - begins + (at.step + 1) / at.steps) / params.warm_up)
    if params.schedule == "steps":
        return rises * 0.1 ** (max(at.epoch - max(begins, at.decays_from), 0) // params.lr_update)
    full = max(begins + params.warm_up, at.decays_from)
    gone = max(at.epoch + at.step / at.steps - full, 0) / max(params.epochs - full, 1 / at.steps)
    return rises * (params.final + (1 - params.final) * (1 + math.cos(math.pi * min(gone, 1))) / 2)
