"""Work in parts, by this process or by a pool."""

import pytest

from tests.pools import Elsewhere
from vse_pipe.core import workers


def test_without_a_pool_the_work_is_done_here_part_by_part() -> None:
    asked = iter(range(3))
    found = workers.each(lambda parts: (part + 1 for part in parts), asked)
    assert (next(found), list(asked)) == (1, [1, 2])
    assert (workers.worker_count(), workers.elsewhere()) == (1, False)


def test_a_pool_is_asked_while_it_is_open() -> None:
    pool = Elsewhere(count=4, block=3)
    with pytest.raises(KeyError), workers.using(pool):
        assert (workers.worker_count(), workers.elsewhere()) == (4, True)
        assert list(workers.each(lambda parts: [part * part for part in parts], range(10))) == [
            n * n for n in range(10)
        ]
        raise KeyError
    assert (pool.asked, workers.elsewhere()) == ([10], False)
