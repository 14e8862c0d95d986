"""``serve`` of tests/benchmarks/search.py with smaller numbers, against the command as a process."""

import asyncio
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.benchmarks.search import at_once, in_turn, pressed
from tests.tools.serve.running import served
from tests.toy_project import write_params

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Iterator[tuple[str, int]]:
    project = tmp_path_factory.mktemp("project")
    write_params(project)
    with served(project, "--run", "sum", seconds=0.02) as (url, _):
        found = urlsplit(url)
        yield found.hostname, found.port


def test_slow_clients_take_nobody_elses_place(place):
    async def run():
        async with pressed(*place, 120):
            return await in_turn(*place, 10)

    answers = asyncio.run(run())
    assert [one.status for one in answers] == ["200"] * 10
    # But one: a machine that runs other tests beside may stop for a moment.
    assert sorted(one.seconds for one in answers)[-2] < 1


def test_a_crowd_is_answered_or_asked_to_come_again(place):
    answers = asyncio.run(at_once(*place, 150))
    kinds = {(one.status, one.retry) for one in answers}
    assert kinds == {("200", None), ("429", "2")}
    assert [one.status for one in answers].count("200") >= 64
