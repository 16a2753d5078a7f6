"""Waiting for a master: the rule of a send while a group of brokers replaces its master.

The tries of a send are RocketMQ's (`send_plans.py`). When they are used up, a `Switch` decides whether the
send goes on. It does so only when the master is being replaced, as the route says or the broker itself:

| what the last try met                     | what the fresh route says    | the send                      |
| ----------------------------------------- | ---------------------------- | ----------------------------- |
| no connection, or it ended; code 14       | another master               | goes there at once            |
| the same, or NoMaster                     | slaves only                  | waits for the next master     |
| code 14: "not the master" (`NotMaster`)   | the same master              | waits, and tries it again     |
| no connection, or it ended                | the same master, with slaves | looks again for `NOTICE_MS`   |
| no connection, or it ended                | the same master, no slave    | fails: the broker is just dead |
| code 14 for another reason; anything else | the same master              | fails                         |

The fourth line is a master that was killed a moment ago: name servers drop it when they see its connection
end. A send does not call it again meanwhile, it only looks at the route. A master that is still named after
that time is dead or cut off from this client, and nobody replaces it.

A wait ends with the time for the call. A message whose connection ended before the answer may be stored
already, and is then stored twice, as with every retry. `send_through_switch=False` turns the rule off.
"""

from contextlib import suppress
from typing import Final

from pyromq.client.client_session import Session
from pyromq.client.plans.route_plans import look_again, no_master, publish_route
from pyromq.client.route_cache import MASTER_ID, CachedRoute
from pyromq.client.steps import Deadline, Pause, Plan
from pyromq.errors import (
    ConnectFailed,
    ConnectionLost,
    NetworkError,
    NoMaster,
    NotMaster,
    PyroError,
    RequestTimeout,
    ServiceNotAvailable,
)

#: Seconds until the next look: at first, and at most.
PAUSE_S_FIRST: Final = 0.05
PAUSE_S_MAX: Final = 0.4
#: Milliseconds that name servers have to notice that a master with slaves is gone.
NOTICE_MS: Final = 1_000

_GONE: Final = (ConnectFailed, ConnectionLost)
#: Failures after which the route may show another master.
_PASSING: Final = (*_GONE, ServiceNotAvailable, NoMaster)


class Patience:
    """The pauses of one call, each twice as long as the one before; made anew for each call."""

    __slots__ = ("_deadline", "_is_wanted", "_pause_s")

    def __init__(self, session: Session, deadline: Deadline, *, is_wanted: bool = True) -> None:
        self._deadline = deadline
        self._is_wanted = is_wanted and session.settings.send_through_switch
        self._pause_s = PAUSE_S_FIRST

    @property
    def is_wanted(self) -> bool:
        """Whether the call may wait at all."""
        return self._is_wanted

    def pause_s(self) -> float | None:
        """Return the seconds until the next look; None when the call may not wait, or time is short."""
        if not self._is_wanted:
            return None
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, PAUSE_S_MAX)
        return pause_s if pause_s < self._deadline.left_s else None


class Switch:
    """One call's view of a change of masters; made when the tries of RocketMQ's rule are used up."""

    __slots__ = (
        "_deadline",
        "_has_begun",
        "_has_slaves",
        "_notice_until_ms",
        "_patience",
        "_session",
        "_topic",
    )

    def __init__(self, session: Session, topic: str, deadline: Deadline, *, is_wanted: bool) -> None:
        self._session = session
        self._topic = topic
        self._deadline = deadline
        self._patience = Patience(session, deadline, is_wanted=is_wanted)
        #: Whether the route named slaves only at some time.
        self._has_begun = False
        #: Whether the group had slaves in any of the routes that this call saw.
        self._has_slaves = False
        self._notice_until_ms: int | None = None

    def goes_on(self, broker_name: str, failed_at: str | None, error: PyroError) -> Plan[bool]:
        """Return whether to try again, once that makes sense; `failed_at` is the address of the last try.

        Raises NoMaster when the time for the call is too short for the group to have a master again.
        """
        if not self._patience.is_wanted or not isinstance(error, _PASSING):
            return False
        failed_ms = self._session.clock.now_ms()
        self._note_slaves(broker_name)
        while True:
            yield from self._look()
            self._note_slaves(broker_name)
            addresses = self._session.routes.addresses(broker_name)
            master = addresses.get(MASTER_ID)
            if master not in (None, failed_at):
                return True
            if addresses and master is None:
                self._has_begun = True
            is_to_try = master is not None and (self._has_begun or isinstance(error, NotMaster))
            if not (is_to_try or self._has_begun or self._may_be_unnoticed(error, failed_ms)):
                return False
            pause_s = self._patience.pause_s()
            if pause_s is None and self._has_begun and master is None:
                raise no_master(
                    self._session, f"topic {self._topic!r}", f"its broker {broker_name!r}", self._deadline
                ) from error
            if pause_s is None:
                return False
            yield Pause(pause_s)
            if is_to_try:
                return True

    def next_route(
        self, broker_name: str, failed_at: str | None, error: PyroError
    ) -> Plan[CachedRoute | None]:
        """Return the route for the next try, once that makes sense; None when there is to be none."""
        if not (yield from self.goes_on(broker_name, failed_at, error)):
            return None
        try:
            return (yield from awaited_route(self._session, self._topic, self._deadline))
        except RequestTimeout:
            # What failed before says more than that the time is over.
            return None

    def _note_slaves(self, broker_name: str) -> None:
        if any(broker_id != MASTER_ID for broker_id in self._session.routes.addresses(broker_name)):
            self._has_slaves = True

    def _may_be_unnoticed(self, error: PyroError, failed_ms: int) -> bool:
        """Return whether name servers may not have noticed yet that a master with slaves is one no more.

        A broker that refuses a message still talks to them: one look since is enough.
        """
        if not self._has_slaves:
            return False
        if not isinstance(error, _GONE):
            known = self._session.routes.get(self._topic)
            return known is not None and known.fetched_at_ms <= failed_ms
        if self._notice_until_ms is None:
            self._notice_until_ms = failed_ms + NOTICE_MS
        return self._session.clock.now_ms() < self._notice_until_ms

    def _look(self) -> Plan[None]:
        # While no name server answers, what is known of the group still holds.
        with suppress(NetworkError):
            yield from look_again(self._session, self._topic, self._deadline)


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
            pause_s = patience.pause_s()
            if pause_s is None:
                raise
        except RequestTimeout as error:
            if missing is None:
                raise
            # What the time was spent on says more than that it is over.
            raise missing from error
        yield Pause(pause_s)
