"""What parameter models cannot check by themselves: numbers too large to compute with."""

import math
from collections.abc import Iterator

# Counts become lengths of arrays, and products of two of them must stay below 2^63.
MOST = 2**31 - 1


def out_of_range(values: dict, address: str = "") -> Iterator[tuple[str, str]]:
    """(address, what is wrong) of every number in ``values`` that is not finite or above ``MOST``; a seed has its own bound."""
    for key, value in values.items():
        place = f"{address}.{key}" if address else str(key)
        for at, one in enumerate(value) if isinstance(value, list | tuple) else [(None, value)]:
            if isinstance(one, dict):
                yield from out_of_range(one, place if at is None else f"{place}.{at}")
            elif isinstance(one, float) and not math.isfinite(one):
                yield place, f"input should be a finite number, got {one!r}"
            elif isinstance(one, int) and abs(one) > MOST and key != "seeds" and place != "seed":
                yield place, f"input should be at most {MOST}, got {one!r}"
