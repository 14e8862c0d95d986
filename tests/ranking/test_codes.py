"""Codes of vectors against loops, and searches with them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.ranking import criteria
from vse_pipe.ranking.codes import Codes, Compact, cut_short, item_bytes
from vse_pipe.ranking.split import BankSource, Split, cosine


def _unit(rows: int, dim: int, seed: int) -> torch.Tensor:
    vectors = torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(vectors, dim=1)


@settings(deadline=None, max_examples=30)
@given(rows=st.integers(1, 7), dim=st.integers(1, 11), seed=st.integers(0, 99))
def test_codes_are_those_of_loops_and_packing_keeps_the_order(rows, dim, seed):
    train, items = _unit(rows, dim, seed), _unit(5, dim, seed + 1)
    for precision in ("int8", "binary"):
        codes = Codes.fit(precision, train)
        decoded, packed = codes.decode(codes.encode(items)), codes.packed(items)
        assert packed.nbytes == 5 * item_bytes(precision, dim)
        for d in range(dim):
            column = train[:, d].tolist()
            below, above = ([v for v in column if (v > 0) == sign] for sign in (False, True))
            for row, value in enumerate(items[:, d].tolist()):
                if precision == "int8":
                    low, step = min(column), (max(column) - min(column)) / 255
                    code = 0 if step == 0 else min(255, max(0, round((value - low) / step)))
                    assert abs(int(packed[row, d]) + 128 - code) <= 1  # float32 may round the other way
                    expected, close = low + code * step, step * 1.01 + 1e-7
                else:
                    expected, close = (
                        sum(above if value > 0 else below) / max(1, len(above if value > 0 else below)),
                        1e-6,
                    )
                    assert packed[row, d // 8] >> (7 - d % 8) & 1 == (value > 0)
                assert float(decoded[row, d]) == pytest.approx(expected, abs=close)


def test_a_short_vector_has_length_one_and_a_full_one_its_own():
    vectors = 3 * _unit(4, 6, 0)
    torch.testing.assert_close(cut_short(vectors, 2).norm(dim=1), torch.ones(4))
    assert cut_short(vectors, 6) is vectors


def test_what_has_no_ranges_is_refused():
    with pytest.raises(InputError, match="precision int8: there are no vectors"):
        Codes.fit("int8", torch.empty(0, 4))
    with pytest.raises(UsageError, match="unknown precision 'int4'; did you mean 'int8'"):
        Codes.fit("int4", torch.ones(1, 4))
    with pytest.raises(UsageError, match="is more than one number an item"):
        criteria.foldable("qb_norm", {})


@pytest.mark.parametrize("name", ["nns", "is", "csls", "dual_is"])
def test_the_best_are_those_of_float32_and_the_rest_those_of_the_codes(name):
    owners = np.arange(24) % 9
    split = Split(np.arange(9), np.arange(24), owners, _unit(9, 16, 1), _unit(24, 16, 2))
    criterion, source = criteria.parse(name, {}), BankSource("test")
    codes = dict(zip(DIRECTIONS, (Codes.fit("binary", split.captions), Codes.fit("binary", split.images)), strict=True))
    for direction, side in zip(DIRECTIONS, ("captions", "images"), strict=True):
        items = codes[direction].decode(codes[direction].encode(getattr(split, side)))
        small, full = (
            torch.cat([strip for _, strip in trial.under(criterion).blocks()])
            for one in (replace(split, **{side: items}), split)
            for trial in criteria.trials([one], source, cosine, 64)[direction]
        )
        for rescore in (0, 3, 24, 100):
            trial = criteria.trials([split], source, Compact(codes, rescore), 64)[direction][0]
            found = torch.cat([strip for _, strip in trial.under(criterion).blocks()]).argsort(dim=1, descending=True)
            for row, order in enumerate(found.tolist()):
                first = small[row].argsort(descending=True).tolist()
                best = sorted(first[:rescore], key=lambda item: -float(full[row, item]))
                assert order == best + first[rescore:], (direction, rescore)
