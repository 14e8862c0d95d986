"""WiSE-FT: weights between those of a pretrained pair and those that training made of them.

Source: Wortsman et al., Robust fine-tuning of zero-shot models, CVPR 2022, Eq. 1. The authors fix
the share or choose it on the target; here validation rsum chooses it.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from vse_pipe.core.console import say
from vse_pipe.project.params.typed import Run
from vse_pipe.train.checkpoint import Progress
from vse_pipe.train.loop import Validate
from vse_pipe.train.scheme import Scheme

SHARES = [place / 10 for place in range(11)]


def interpolate(run: Run, scheme: Scheme, validate: Validate, progress: Progress, name: str) -> dict | None:
    """Replace the best models of ``progress`` by the share of their training that validates best;
    of equal ones the smallest.

    Returns the share and val rsum by share: 0 is the pretrained pair, 1 what training made of it.
    None where neither encoder has the option ``wise``. Every process of a training calls it.
    """
    sides = [
        side for side, member in (("img.", run.image), ("txt.", run.text)) if getattr(member.params, "wise", False)
    ]
    if not sides:
        return None
    first = scheme.setting.build(run.seed).state_dict()
    first = {key: value for key, value in first.items() if key.startswith(tuple(sides))}
    sums: dict[float, float] = {}
    for share in SHARES:
        for model, weights in zip(scheme.models, progress.best, strict=True):
            model.load_state_dict(between(first, weights, share))
        sums[share] = validate(scheme.models)["val_rsum"]
    best = max(SHARES, key=lambda share: (sums[share], -share))
    progress.best = [between(first, weights, best) for weights in progress.best]
    progress.best_rsum = sums[best]
    ends = f"{sums[0.0]:.1f} as pretrained, {sums[1.0]:.1f} as trained"
    say(f"train {name}: share {best:g} of the training is kept, validation rsum {sums[best]:.1f} ({ends})")
    return {"share": best, "val_rsum": {f"{share:g}": value for share, value in sums.items()}}


def between(first: Mapping[str, Tensor], last: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """``(1 - share) first + share last``; tensors that ``first`` lacks stay. Exact at 0 and 1.

    Of low-rank additions B alone moves: B is zero at first, so their product is interpolated, and A
    stays.
    """
    moved = {key for key, value in last.items() if key in first and value.is_floating_point() and "lora_a" not in key}
    return {
        key: torch.lerp(first[key].to(value), value, share) if key in moved else value for key, value in last.items()
    }
