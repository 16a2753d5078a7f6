"""Waits until the slaves of a synchronous master have a message.

The slaves acknowledge positions of the log, and `Followers` knows up to where enough of them have it. A
sender is answered when that passes the end of its message, or told after `slaveTimeout` that it did not.
There is no timer for a message: the end of the log is noted eight times in each timeout, and everyone who
waits for what was there a timeout ago gives up together.

A message that was taken while `minInSyncReplicas` were there is not safe when fewer are left at its
acknowledgement: a member that left the in-sync set took the copy along that was waited for.
"""

import asyncio
from collections import deque
from typing import Final

from pyromq.broker.durability.acknowledgement import no_longer_master
from pyromq.broker.durability.log_sync import NotSafe
from pyromq.broker.durability.watermark import Settle, Watermark
from pyromq.broker.replication.followers import Followers
from pyromq.clock import Clock
from pyromq.codes import ResponseCode
from pyromq.config.settings import StoreSettings
from pyromq.errors import ServiceNotAvailable

_LOOKS_A_TIMEOUT: Final = 8


class SlaveTimeout(NotSafe):
    """The slaves took longer than `slaveTimeout`."""

    code = ResponseCode.FLUSH_SLAVE_TIMEOUT


class NoSlaveNear(NotSafe):
    """No slave is there, or none that is near enough to wait for."""

    code = ResponseCode.SLAVE_NOT_AVAILABLE


class Replicated:
    """Tells senders when the slaves have their messages."""

    def __init__(self, followers: Followers, settings: StoreSettings, clock: Clock) -> None:
        self._followers = followers
        self._settings = settings
        self._clock = clock
        self._confirmed = Watermark(0)
        #: Notes that enough slaves have the log up to a position.
        self.raise_to = self._confirmed.raise_to
        self._looks: deque[tuple[float, int]] = deque()
        self._highest = 0
        self._timer: asyncio.TimerHandle | None = None

    def when_there(self, end: int, settle: Settle) -> None:
        """Call `settle` once enough slaves have the log up to `end`.

        It gets None, SlaveTimeout, NoSlaveNear, or ServiceNotAvailable when this broker closes.
        """
        if end > self._confirmed.value and not self._followers.is_anyone_near(end):
            settle(NoSlaveNear("SLAVE_NOT_AVAILABLE: no slave is there, or none is near"))
            return
        if end > self._highest:
            self._highest = end
        if self._settings.min_in_sync_replicas > 1:
            settle = self._counted(settle)
        self._confirmed.when(end, settle)
        if self._timer is None and self._confirmed.waiting_count:
            self._look_later()

    def close(self) -> None:
        """Tell all who wait that this broker will not know: with failover another may be master by then."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        has_failover = self._followers.in_sync is not None
        self._confirmed.give_up(self._highest, no_longer_master() if has_failover else _stops())

    def _counted(self, settle: Settle) -> Settle:
        least = self._settings.min_in_sync_replicas

        def settle_if_enough(error: Exception | None) -> None:
            if error is None and self._followers.replica_count < least:
                error = NoSlaveNear("SLAVE_NOT_AVAILABLE: fewer than minInSyncReplicas are in sync")
            settle(error)

        return settle_if_enough

    def _look_later(self) -> None:
        self._looks.append((self._clock.monotonic(), self._highest))
        self._timer = asyncio.get_running_loop().call_later(
            self._settings.slave_timeout / 1000 / _LOOKS_A_TIMEOUT, self.look
        )

    def look(self) -> None:
        """Let those give up who have waited for longer than `slaveTimeout`."""
        overdue = self._clock.monotonic() - self._settings.slave_timeout / 1000
        while self._looks and self._looks[0][0] <= overdue:
            _, end = self._looks.popleft()
            self._confirmed.give_up(
                end, SlaveTimeout("FLUSH_SLAVE_TIMEOUT: the slaves took longer than slaveTimeout")
            )
        self._timer = None
        if self._confirmed.waiting_count:
            self._look_later()
        else:
            self._looks.clear()


def _stops() -> ServiceNotAvailable:
    return ServiceNotAvailable(
        ResponseCode.SERVICE_NOT_AVAILABLE, "the broker stops before a slave has the message; send it again"
    )
