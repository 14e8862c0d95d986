"""The plan of masked partial transport, from the similarities through the cost network, and from the cost itself."""

import numpy as np
import torch

from tests.golden.compare import compare
from vse_pipe.train.transport import CostNetwork, partial_plan


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    network = CostNetwork(arrays["sims"].shape[1])
    weights = {name.removeprefix("w/"): array for name, array in arrays.items() if name.startswith("w/")}
    network.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    with torch.no_grad():
        cost = network(torch.from_numpy(arrays["sims"])).clamp_min(1e-10)
    options = {"mass": float(arrays["mass"]), "regularisation": float(arrays["reg"])}
    plan = partial_plan(torch.from_numpy(arrays["cost"]), mask=bool(arrays["masked"]), **options)
    whole = partial_plan(cost, mask=bool(arrays["masked"]), **options)
    return [
        compare("cost", cost, arrays["cost"]),
        compare("plan", plan, arrays["plan"], 2e-6, 0.0),
        compare("plan", whole, arrays["plan"], 2e-6, 0.0),
        compare("plan_sum", plan.double().sum(), arrays["plan_sum"]),
    ]
