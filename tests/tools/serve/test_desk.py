"""A turn comes by and by, and nobody waits for ever."""

import anyio
import pytest
from starlette.exceptions import HTTPException

from vse_pipe.tools.serve import app
from vse_pipe.tools.serve.app import WaitingLine

AGAIN = {"Retry-After": "2"}


async def visit(one: WaitingLine, address: str, done: anyio.Event, told: list, places: int = 1):
    try:
        async with one.turn(address, places):
            await done.wait()
        told.append("answered")
    except HTTPException as error:
        told.append((error.status_code, error.headers))


def visited(*visitors: tuple[str, int], held: float = 0.0) -> list:
    """What they got, in the order in which it is known; the turns end ``held`` seconds after all have come."""

    async def run():
        one, done, told = WaitingLine(1), anyio.Event(), []
        async with anyio.create_task_group() as group:
            for address, places in visitors:
                group.start_soon(visit, one, address, done, told, places)
            await anyio.wait_all_tasks_blocked()
            await anyio.sleep(held)
            done.set()
        async with one.turn("late"):
            assert one._places == {"late": 1}
        return told

    return anyio.run(run)


@pytest.mark.parametrize("places", [1, 8])
def test_an_address_has_so_many_places_and_leaves_the_others_theirs(places):
    own = app.OF_ADDRESS // places
    assert visited(*[("loud", places)] * (own + 3), ("other", 1)) == [(429, AGAIN)] * 3 + ["answered"] * (own + 1)


def test_a_turn_that_does_not_come_is_status_503(monkeypatch):
    monkeypatch.setattr(app, "TURN_SECONDS", 0.05)
    assert visited(("first", 1), ("second", 1), held=0.1) == [(503, AGAIN), "answered"]
