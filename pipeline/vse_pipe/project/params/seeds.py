"""What a seed is, and several of them."""

from typing import Annotated

from pydantic import AfterValidator, Field

Seed = Annotated[int, Field(ge=0, lt=2**32)]


def _distinct(seeds: list[int]) -> list[int]:
    twice = [seed for index, seed in enumerate(seeds) if seed in seeds[:index]]
    if twice:
        raise ValueError(f"seed {twice[0]} is named twice; the second model would be the first one again")
    return seeds


Seeds = Annotated[list[Seed], Field(min_length=1), AfterValidator(_distinct)]
