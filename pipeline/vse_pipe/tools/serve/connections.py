"""How long a client may take over its request, and who has to go where there are too many."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

# Seconds without a whole request head, from the connection or the last answer on.
PATIENCE = 10.0
# Connections at once, of all addresses and of one; most systems allow a process 1,024 open files.
ALL, EACH = 800, 400
# Seconds in which nobody is turned out: of a crowd that comes at once the requests may lie unread.
_GRACE = 1.0


class Connection(H11Protocol):
    """uvicorn's, which limits the time between two requests, not that of a request or of an answer that nobody fetches.

    One connection more than is allowed closes that which has waited for its client the longest: a slow client costs
    nothing but its place, and takes nobody else's.
    """

    _since = 0.0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_request()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self._under_way():
            self._stop_clock()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._under_way():
            self._await_request()

    def _await_request(self) -> None:
        self._stop_clock()
        self._since = self.loop.time()
        self._late = self.loop.call_later(PATIENCE, self.transport.abort)

    def _stop_clock(self) -> None:
        if self._late is not None:
            self._late.cancel()

    def _under_way(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _waits(self) -> bool:
        """For its client: for a request, or for the rest of a body."""
        return not self._under_way() or self.cycle.more_body

    def _make_room(self) -> None:
        others = [one for one in self.connections if isinstance(one, Connection) and one is not self]
        crowd = [one for one in others if self._neighbour(one)]
        if len(crowd) < EACH:
            crowd = others if len(others) >= ALL else []
        before = self.loop.time() - _GRACE
        idle = [one for one in crowd if one._waits() and one._since < before]
        if idle:
            min(idle, key=lambda one: one._since).transport.abort()
        elif len(others) >= ALL:
            self.transport.abort()

    def _neighbour(self, other: "Connection") -> bool:
        return self.client is not None and other.client is not None and self.client[0] == other.client[0]
