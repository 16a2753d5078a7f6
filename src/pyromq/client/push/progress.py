"""How far the group got in this member's queues: kept here, and told to whoever remembers it.

In clustering brokers remember it, told every five seconds, with each pull, and when a queue goes. In
broadcasting each member does, in a local file.
"""

import asyncio
import logging
from collections.abc import Collection
from typing import Protocol

from pyromq.client.broadcast_offsets import BroadcastOffsets
from pyromq.client.drivers import Asyncio
from pyromq.client.plans import progress
from pyromq.client.session import Session
from pyromq.errors import NetworkError, NoRoute, Refused, StoreError
from pyromq.model import MessageQueue

_log = logging.getLogger("pyromq.client")


class Offsets:
    """The queue offsets that the group reads next, by queue."""

    def __init__(self) -> None:
        self._next: dict[MessageQueue, int] = {}

    def get(self, queue: MessageQueue) -> int | None:
        """Return what is known of a queue."""
        return self._next.get(queue)

    def rise(self, queue: MessageQueue, offset: int) -> None:
        """Go on to an offset; never back."""
        known = self._next.get(queue)
        if known is None or offset > known:
            self._next[queue] = offset

    def set(self, queue: MessageQueue, offset: int) -> None:
        """Go to an offset, wherever it is."""
        self._next[queue] = offset

    def forget(self, queue: MessageQueue) -> None:
        """Know nothing of a queue any more."""
        self._next.pop(queue, None)

    def of_topic(self, topic: str) -> dict[MessageQueue, int]:
        """Return what is known of a topic's queues; of all, without a topic."""
        return {queue: offset for queue, offset in self._next.items() if not topic or queue.topic == topic}


class Progress(Protocol):
    """Where progress is remembered."""

    offsets: Offsets

    async def remembered(self, queue: MessageQueue) -> int | None:
        """Return what is remembered of a queue, and go on there; None when nothing is."""
        ...

    async def save(self, queues: Collection[MessageQueue], *, confirmed: bool) -> None:
        """Have queues' offsets remembered; what fails is logged. `confirmed` waits for the brokers' word."""
        ...


class BrokerProgress:
    """Progress that brokers remember."""

    def __init__(self, session: Session, driver: Asyncio) -> None:
        self.offsets = Offsets()
        self._session = session
        self._driver = driver

    async def remembered(self, queue: MessageQueue) -> int | None:
        """Ask the queue's broker."""
        session = self._session
        deadline = session.deadline(None, session.settings.mq_client_api_timeout)
        offset = await self._driver.run(progress.committed(session, queue, deadline))
        if offset is not None:
            self.offsets.set(queue, offset)
        return offset

    async def save(self, queues: Collection[MessageQueue], *, confirmed: bool) -> None:
        """Tell the queues' brokers."""
        await asyncio.gather(*(self._save(queue, confirmed=confirmed) for queue in queues))

    async def _save(self, queue: MessageQueue, *, confirmed: bool) -> None:
        offset = self.offsets.get(queue)
        if offset is None:
            return
        session = self._session
        deadline = session.deadline(None, session.settings.mq_client_api_timeout)
        plan = progress.commit if confirmed else progress.commit_oneway
        try:
            await self._driver.run(plan(session, queue, offset, deadline))
        except (NetworkError, NoRoute, Refused) as error:
            _log.warning("progress of group %s in %s was not committed: %s", session.group, queue, error)


class LocalProgress:
    """Progress that this machine remembers."""

    def __init__(self, file: BroadcastOffsets) -> None:
        self.offsets = Offsets()
        self._file = file
        self._remembered = file.load()

    async def remembered(self, queue: MessageQueue) -> int | None:
        """Look into what the file said at the start."""
        offset = self._remembered.get(queue)
        if offset is not None:
            self.offsets.set(queue, offset)
        return offset

    async def save(self, queues: Collection[MessageQueue], *, confirmed: bool) -> None:
        """Write the file, when something of it changed."""
        known = self.offsets.of_topic("")
        changed = {
            queue: known[queue]
            for queue in queues
            if queue in known and self._remembered.get(queue) != known[queue]
        }
        if not changed:
            return
        try:
            await asyncio.to_thread(self._file.save, changed)
        except StoreError as error:
            _log.warning("progress was not saved: %s", error)
        else:
            self._remembered.update(changed)
