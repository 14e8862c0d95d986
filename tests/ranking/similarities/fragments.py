"""Members that compare fragments, with what they take."""

import torch
from torch import Tensor

from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.ranking.fragments import Words

LENGTHS = [3, 1, 5, 3, 2, 3]
SHAPE = (4, 3, 6)  # images, regions, dim


def inputs(lengths=LENGTHS, shape=SHAPE, dtype=torch.float64, seed: int = 0) -> tuple[Tensor, Words]:
    """Unit vectors; images and words with gradients."""
    rng = torch.Generator().manual_seed(seed)

    def unit(*sizes: int) -> Tensor:
        drawn = torch.randn(*sizes, generator=rng, dtype=torch.float64)
        return (drawn / drawn.norm(dim=-1, keepdim=True)).to(dtype).requires_grad_()

    return unit(*shape), Words(unit(sum(lengths), shape[2]), torch.tensor(lengths))


class Model:
    """A member with its parameters and, where it learns, a network; called with images and words."""

    def __init__(self, name: str, shape=SHAPE, dtype=torch.float64, **options) -> None:
        self.member, self.traits = SIMILARITIES.load(name), SIMILARITIES.traits(name)
        self.params = self.member.Params(**options)
        self.network = None
        if hasattr(self.member, "network"):
            rng = torch.Generator().manual_seed(1)
            self.network = self.member.network(self.params, shape[2], shape[1], rng).to(dtype).eval()
            _unsettle(self.network, rng)

    def __call__(self, images: Tensor, words: Words) -> Tensor:
        networks = () if self.network is None else (self.network,)
        return self.member.score(images, words, self.params, *networks)


def _unsettle(network: torch.nn.Module, rng: torch.Generator) -> None:
    """Biases and running statistics that are not 0 and 1, so that leaving one out shows."""
    for name, tensor in network.state_dict().items():
        if tensor.is_floating_point() and tensor.ndim == 1:
            drawn = torch.rand(tensor.shape, generator=rng, dtype=torch.float64) * 0.4
            tensor.copy_(drawn + (1.0 if name.endswith(("var", "1.weight", "bn.weight")) else -0.2))
