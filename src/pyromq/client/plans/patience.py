"""Waiting for a master: while a group of brokers changes its master, there is nobody who takes messages.

What fails for that reason passes by itself, a few seconds later and often at another address. So it is tried
again until the time for the call is over, with a look at the route in between:

    the broker is gone            no connection, or one that ended before the answer
    it is master no more          SERVICE_NOT_AVAILABLE
    the route names slaves only   NoMaster

A message whose connection ended before the answer may be stored already, and comes twice then, as with every
retry. With `send_through_switch=False` nothing is waited for.
"""

from typing import Final

from pyromq.client.plans.route import publish_route
from pyromq.client.route_cache import CachedRoute
from pyromq.client.session import Session
from pyromq.client.steps import Deadline, Pause, Plan
from pyromq.errors import (
    ConnectFailed,
    ConnectionLost,
    NoMaster,
    PyroError,
    RequestTimeout,
    ServiceNotAvailable,
)

#: Seconds until the next try: at first, and at most.
PAUSE_S_FIRST: Final = 0.05
PAUSE_S_MAX: Final = 0.4

_PASSING: Final = (ConnectFailed, ConnectionLost, ServiceNotAvailable, NoMaster)


class Patience:
    """How long one call waits for a master; made anew for each."""

    __slots__ = ("_deadline", "_is_wanted", "_pause_s")

    def __init__(self, session: Session, deadline: Deadline, *, is_wanted: bool = True) -> None:
        self._deadline = deadline
        self._is_wanted = is_wanted and session.settings.send_through_switch
        self._pause_s = PAUSE_S_FIRST

    def pause_s(self, error: PyroError) -> float | None:
        """Return how long to wait before the next try; None when it would not help, or time is short."""
        if not self._is_wanted or not isinstance(error, _PASSING):
            return None
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, PAUSE_S_MAX)
        return pause_s if pause_s < self._deadline.left_s else None


def awaited_route(
    session: Session, topic: str, deadline: Deadline, *, is_wanted: bool = True
) -> Plan[CachedRoute]:
    """Return the route to send a topic's messages by, when there is a master to send them to."""
    patience: Patience | None = None
    missing: NoMaster | None = None
    while True:
        try:
            return (yield from publish_route(session, topic, deadline))
        except NoMaster as error:
            missing = error
            patience = patience or Patience(session, deadline, is_wanted=is_wanted)
            pause_s = patience.pause_s(error)
            if pause_s is None:
                raise
        except RequestTimeout as error:
            if missing is None:
                raise
            # What the time was spent on says more than that it is over.
            raise missing from error
        yield Pause(pause_s)
