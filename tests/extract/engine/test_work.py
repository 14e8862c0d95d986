"""How work is spread: every shard belongs to exactly one share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vse_pipe.core.errors import UsageError
from vse_pipe.extract.job import Work, work
from vse_pipe.project.params.schema import EngineParams


@given(st.integers(1, 9), st.integers(0, 40))
def test_shares_are_a_partition(of: int, count: int) -> None:
    shares = [Work((number, of)).mine(count) for number in range(1, of + 1)]
    assert sorted(number for share in shares for number in share) == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert Work().mine(count) == list(range(count))


def test_the_first_share_begins_with_the_first_shard() -> None:
    assert work("1/4", EngineParams()).mine(9) == [0, 4, 8]
    assert work("4/4", EngineParams()).mine(9) == [3, 7]


@pytest.mark.parametrize("shard", ["0/4", "5/4", "4", "1/0", "-1/4", "a/b", "1/4/2", "1 /4", ""])
def test_refuses_other_shares(shard: str) -> None:
    with pytest.raises(UsageError, match=r"--shard .*: expected i/n with i from 1 to n"):
        work(shard, EngineParams())
