"""GPO on padded sets: the pooled vectors, the weights of the places, and the gradient of what was pooled."""

import numpy as np
import torch

from tests.golden.compare import compare
from vse_pipe.train.heads import GPO


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    gpo = GPO(int(arrays["d_pe"]), int(arrays["d_hidden"]))
    stored = {
        name.replace("_", ".", 1): array for name, array in arrays.items() if name.startswith(("gru_", "linear_"))
    }
    gpo.load_state_dict({name: torch.tensor(array) for name, array in stored.items()})
    features, lengths = torch.tensor(arrays["features"], requires_grad=True), torch.tensor(arrays["lengths"])
    pooled = gpo(features, torch.arange(features.shape[1]) < lengths[:, None])
    pooled.backward(torch.tensor(arrays["upstream"]))
    weights = gpo.weights(lengths, features.shape[1])
    return [
        compare("pooled", pooled.detach(), arrays["pooled"]),
        compare("weights", weights.detach(), arrays["weights"]),
        compare("grad_features", features.grad, arrays["grad_features"], atol=1e-4),
    ]
