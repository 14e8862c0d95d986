"""What holds for every encoder; a member's test file calls these."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from vse_pipe.project.registry import IMAGE_ENCODERS, TEXT_ENCODERS

SIDES = {"image": IMAGE_ENCODERS, "text": TEXT_ENCODERS}


def build(
    side: str, name: str, inputs: int, size: int, rng: torch.Generator | None = None, **options: object
) -> nn.Module:
    """The encoder with fresh weights, of one generator where ``rng`` is none."""
    family = SIDES[side]
    rng = rng or torch.Generator().manual_seed(0)
    return getattr(family.load(name), f"build_{side}")(family.options(name)(**options), inputs, size, rng)


def check_draws(build: Callable[[torch.Generator], nn.Module]) -> None:
    """The weights come from the generator given, all of them, whatever torch's own generator holds."""
    states = []
    for own, given in ((1, 5), (2, 5), (1, 6)):
        torch.manual_seed(own)
        states.append(build(torch.Generator().manual_seed(given)).state_dict())
    first, again, other = states
    for name, values in first.items():
        assert torch.equal(values, again[name]), f"{name} depends on torch's own generator"
        if values.is_floating_point() and values.std() > 0:
            assert not torch.equal(values, other[name]), f"{name} does not depend on the generator given"


def check_gradients(encoder: nn.Module, vectors: Tensor, without: tuple[str, ...] = ()) -> None:
    """Each parameter takes part in ``vectors``, but for the names in ``without``."""
    fixed = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(0), dtype=vectors.dtype)
    (vectors * fixed).sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, f"{name} got no gradient"
        assert torch.isfinite(parameter.grad).all(), name
        assert (parameter.grad.abs().max() > 1e-12) == (name not in without), f"{name}: {parameter.grad}"


def weights_of(encoder: nn.Module) -> dict[str, list]:
    """state_dict as nested lists of floats, for the oracles."""
    return {name: values.tolist() for name, values in encoder.state_dict().items()}
