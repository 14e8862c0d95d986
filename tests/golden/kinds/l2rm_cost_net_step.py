"""One step of the cost network under the supervised transport loss."""

import numpy as np
import torch

from tests.golden.compare import compare
from vse_pipe.train.transport import CostNetwork, supervised_cost


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    scores, matching = torch.from_numpy(arrays["S"]), torch.from_numpy(arrays["supervision"])
    network = CostNetwork(scores.shape[1])
    start = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-6)
    cost = network(scores)
    loss = supervised_cost(cost, matching)
    loss.backward()
    found = [compare("cost", cost.detach(), arrays["cost"]), compare("ot_loss", loss.detach(), arrays["ot_loss"])]
    for name, weight in network.named_parameters():
        found += [
            compare(f"w0/{name}", start[name], arrays[f"w0/{name}"]),
            compare(f"g/{name}", weight.grad, arrays[f"g/{name}"], atol=1e-4),
        ]
    optimizer.step()
    # The step itself is 2e-6: compared at the precision of float32 at 1.
    return found + [
        compare(f"w1/{name}", weight.detach(), arrays[f"w1/{name}"], 2e-7, 0.0)
        for name, weight in network.named_parameters()
    ]
