"""Who waits for what only a few can have at a time."""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator

import anyio
from starlette.exceptions import HTTPException

# Seconds in line, and the places in it that one address may take.
PATIENCE = 10.0
EACH = 64


class WaitingLine:
    """``turns`` at a time. Those asked to come again get status 429 or 503 with Retry-After."""

    def __init__(self, turns: int) -> None:
        self._turns = anyio.CapacityLimiter(turns)
        self._taken: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def turn(self, address: str, places: int = 1) -> AsyncIterator[None]:
        """Wait for a turn and have it while the block runs. places: in line, more for what needs more memory.

        Raises HTTPException where the address has taken its places, or where the turn does not come.
        """
        if self._taken[address] + places > EACH:
            raise later(429, "too many requests of this address wait already; try again in a moment")
        self._taken[address] += places
        try:
            try:
                with anyio.fail_after(PATIENCE):
                    await self._turns.acquire()
            except TimeoutError:
                raise later(503, "too many others wait; try again in a moment") from None
            try:
                yield
            finally:
                self._turns.release()
        finally:
            self._taken[address] -= places
            if not self._taken[address]:
                del self._taken[address]


def later(status: int, message: str) -> HTTPException:
    """For who is asked to come again."""
    return HTTPException(status, message, {"Retry-After": "2"})
