"""How many captions an image has, inferred and told."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import data as naive
from vse_pipe.core.errors import InputError
from vse_pipe.prepare.formats.precomp import Grouping, group


def digests(values: list[int]) -> np.ndarray:
    joined = b"".join(hashlib.sha256(str(value).encode()).digest() for value in values)
    return np.frombuffer(joined, np.uint8).reshape(-1, 32)


TABLE = [
    ("one row an image", 10, [1, 2], None, Grouping(5, 1)),
    ("rows repeated", 10, [1] * 5 + [2] * 5, None, Grouping(5, 5)),
    ("one caption an image", 3, [1, 2, 3], None, Grouping(1, 1)),
    ("equal neighbours among images", 15, [1] * 5 + [2] * 10, None, Grouping(5, 5)),
    ("one equal pair among single captions", 6, [1, 2, 2, 3, 4, 5], None, Grouping(1, 1)),
    ("seven captions an image", 14, [1, 2], None, Grouping(7, 1)),
    ("told, one row an image", 10, [1, 2], 5, Grouping(5, 1)),
    ("told, rows repeated", 10, [1] * 5 + [2] * 5, 5, Grouping(5, 5)),
    ("told one, rows repeated", 4, [1, 1, 2, 2], 1, Grouping(1, 1)),
    ("told a divisor", 4, [1, 1, 1, 1], 2, Grouping(2, 2)),
]


@pytest.mark.parametrize(
    ("captions", "values", "wanted", "expected"), [case[1:] for case in TABLE], ids=[case[0] for case in TABLE]
)
def test_groups(captions, values, wanted, expected):
    assert group(captions, digests(values), wanted, "here") == expected


BAD = [
    ("not a multiple", 9, [1, 2], None, "here: 9 captions, 2 rows of features: not a multiple"),
    ("more rows", 2, [1, 2, 3], None, "here: 2 captions, 3 rows of features: not a multiple"),
    ("uneven", 7, [1, 1, 1, 2, 2, 3, 3], None,
     "here: 7 of 7 rows are equal to the row before or after them, but not in groups"),
    ("told another", 10, [1, 2], 4, "with captions_per_image 4 there must be 4 captions a row"),
    ("told, no multiple", 7, [1, 2, 3, 4, 5, 6, 7], 5, "as many rows as captions and a multiple of 5"),
    ("told, rows differ", 10, [1] * 5 + [2, 2, 2, 2, 3], 5, "rows 5 to 9 differ"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("captions", "values", "wanted", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_refused(captions, values, wanted, message):
    with pytest.raises(InputError) as caught:
        group(captions, digests(values), wanted, "here")
    assert message in str(caught.value)


@given(values=st.lists(st.integers(0, 2), min_size=1, max_size=8), times=st.integers(1, 6))
def test_inferred_repetition_divides_every_run(values, times):
    repeated = [value for value in values for _ in range(times)]
    lengths = naive.runs(repeated)
    common = naive.divides_all(lengths)
    if common == 1 and sum(length for length in lengths if length > 1) * 2 > len(repeated):
        with pytest.raises(InputError, match="not in groups of one size"):
            group(len(repeated), digests(repeated), None, "here")
    else:
        assert group(len(repeated), digests(repeated), None, "here") == Grouping(common, common)
