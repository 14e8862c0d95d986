"""Codes of vectors against loops, and searches with them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.evaluate.compact import coded_trials
from vse_pipe.ranking import criteria
from vse_pipe.ranking.codes import Codes
from vse_pipe.ranking.split import BankSource, Split, cosine


def _unit(rows: int, dim: int, seed: int) -> torch.Tensor:
    vectors = torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(vectors, dim=1)


@settings(deadline=None, max_examples=30)
@given(rows=st.integers(2, 7), dim=st.integers(2, 11), seed=st.integers(0, 99))
def test_codes_are_those_of_loops(rows, dim, seed):
    train, items = _unit(rows, dim, seed), _unit(5, dim, seed + 1)
    ranges, signs = Codes.fit("int8", train), Codes.fit("binary", train)
    codes, bits = ranges.encode(items), signs.encode(items)
    for d in range(dim):
        column = train[:, d].tolist()
        low, step = min(column), (max(column) - min(column)) / 255
        for row, value in enumerate(items[:, d].tolist()):
            code = min(255, max(0, round((value - low) / step))) if step else 0
            assert abs(int(codes[row, d]) - code) <= 1  # float32 may round the other way
            assert float(ranges.decoded(items)[row, d]) == pytest.approx(low + code * step, abs=step * 1.01 + 1e-7)
            alike = [other for other in column if (other > 0) == (value > 0)]
            assert bits[row, d] == (value > 0)
            assert float(signs.decoded(items)[row, d]) == pytest.approx(sum(alike) / max(1, len(alike)), abs=1e-6)


@pytest.mark.parametrize("name", ["nns", "is", "csls", "dual_is"])
def test_the_best_are_those_of_float32_and_the_rest_those_of_the_codes(name):
    split = Split(np.arange(9), np.arange(24), np.arange(24) % 9, _unit(9, 16, 1), _unit(24, 16, 2))
    criterion, source = criteria.parse(name, {}), BankSource("test")
    codes = dict(zip(DIRECTIONS, (Codes.fit("binary", split.captions), Codes.fit("binary", split.images)), strict=True))

    def under(trials) -> torch.Tensor:
        return torch.cat([strip for _, strip in trials[direction][0].under(criterion).blocks()])

    for direction, side in zip(DIRECTIONS, ("captions", "images"), strict=True):
        coded = replace(split, **{side: codes[direction].decoded(getattr(split, side))})
        small, full = (under(criteria.trials([sides], source, cosine, 64)) for sides in (coded, split))
        for rescore in (0, 3, 24, 100):
            scores = under(coded_trials([split], source, codes, 64, rescore))
            for row, order in enumerate(scores.argsort(dim=1, descending=True).tolist()):
                first = small[row].argsort(descending=True).tolist()
                best = sorted(first[:rescore], key=lambda item: -float(full[row, item]))
                assert order == best + first[rescore:], (direction, rescore)
