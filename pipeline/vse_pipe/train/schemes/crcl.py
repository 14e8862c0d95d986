"""CRCL (NeurIPS 2023): the trust in each pair is a number that every visit refines by the model's
judgement."""

from dataclasses import replace
from itertools import accumulate

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.core.console import say
from vse_pipe.core.errors import UsageError
from vse_pipe.core.seeds import derive_seed
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.data import Batch
from vse_pipe.train.mixture import trust_summary
from vse_pipe.train.scheme import Scheme, Setting
from vse_pipe.train.scored import LossTerms, own_chances


class Crcl(Scheme):
    """Targets start at 1. Every visit of a pair refines its target by the pair's chance under the
    present model. Targets stay during the warm-up after each start of the network; the last epoch
    of the first warm-up stores the chances as targets.

    Source: Qin et al., Cross-modal active complementary learning with self-refining correspondence,
    NeurIPS 2023. As in the authors' public code, the floor also holds in the warm-up, and only
    epochs after the last start can be the best. Unlike the code, the optimiser is that of the run
    instead of AdamW, and the rate decays from the last start of the network on. Raises UsageError
    for restarts that leave no epoch after their warm-up.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        params = self.params
        self.starts = (0, *accumulate(params.restarts))
        spent, epochs = self.starts[-1] + params.warm_up, setting.train.epochs
        if params.restarts and spent >= epochs:
            raise UsageError(
                f"scheme 'crcl': restarts and warm_up take {spent} epochs and leave none of "
                f"train.epochs {epochs}; raise train.epochs, or take fewer restarts"
            )
        self.begins_after(spent)
        self.targets = torch.ones(len(setting.pairs), device=setting.device)
        self.decays_from = self.selects_from = self.starts[-1]
        self._alpha, self._keeps_chances, self._anew = 1.0, False, False

    def start(self, epoch: int) -> None:
        params, last = self.params, self.last_start(epoch)
        within = epoch - last
        self._alpha = 1.0 if within < params.warm_up else params.alpha
        self._keeps_chances = not last and within == params.warm_up - 1
        self._anew = bool(last) and not within
        if self._anew:
            fresh = self.setting.build(derive_seed(self.setting.run.seed, "restart", epoch))
            self.setting.model.load_state_dict(fresh.state_dict())
            say(f"crcl: epoch {epoch + 1} begins with a new network")
        if epoch >= max(1, params.warm_up):
            say(f"crcl: {trust_summary(self.targets.cpu().numpy(), 0.5, self.setting.pairs.mismatched)}")

    def optimizer(self, run_optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        if self._anew:  # the moments belong to the network before
            run_optimizer.state.clear()
            self._anew = False
        return run_optimizer

    def terms(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> LossTerms:
        scored = self.scored(images, texts, batch)
        pairs = torch.from_numpy(batch.pairs).to(self.targets.device, non_blocking=True)
        with torch.no_grad():
            chances = own_chances(scored, self.setting.run.loss.params.tau)
            targets = refined(self.targets[pairs], chances, self._alpha, self.params.floor)
        self.targets[pairs] = chances if self._keeps_chances else targets
        return self.loss(replace(scored, targets=targets))

    def state(self) -> dict[str, Tensor]:
        return {"targets": self.targets}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self.targets.copy_(state["targets"])


def refined(
    last: Float[Tensor, " pairs"], chances: Float[Tensor, " pairs"], alpha: float, floor: float
) -> Float[Tensor, " pairs"]:
    """``alpha last + (1 - alpha) chances``, and 0 where that is below ``floor``. last: targets of
    the visit before; alpha: 1 in a warm-up."""
    targets = alpha * last + (1 - alpha) * chances
    return targets.masked_fill(targets < floor, 0)


scheme = Crcl
