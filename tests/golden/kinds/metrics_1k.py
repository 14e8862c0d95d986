"""HAL's evaluation.i2t and t2i on one set of images with five captions each."""

import numpy as np

from tests.golden.kinds._ranking import EXACT, FLOAT64, Line, both_ways, five, line


def check(arrays: dict[str, np.ndarray]) -> list[Line]:
    found = dict(zip(("i2t", "t2i"), both_ways(arrays["images"], arrays["captions"]), strict=True))
    lines = []
    for way, one in found.items():
        first = one.top.reshape(len(one.ranks), -1)[:, 0]
        lines += [
            line(way, five(one), arrays[way], FLOAT64),
            line(f"{way}_ranks", one.ranks, arrays[f"{way}_ranks"], EXACT),
            line(f"{way}_top1", first, arrays[f"{way}_top1"], EXACT),
        ]
    rsum = sum(five(one)[:3].sum() for one in found.values())
    return [*lines, line("rsum", rsum, arrays["rsum"], FLOAT64)]
