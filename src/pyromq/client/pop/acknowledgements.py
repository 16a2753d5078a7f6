"""Messages to brokers about popped messages: which are done, which come again and when, which take longer.

All that is known when a request leaves goes with it: messages that are done in one BATCH_ACK, and changes of
invisible times behind each other in one write. One request of a kind is in flight at each broker; what ends
meanwhile is in the next. So a handle never changes while an acknowledgement with the old one is on its way.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from pyromq.client.consumer.group_member import GroupMember
from pyromq.client.consumer.intervals import OwnedTasks
from pyromq.client.plans.pop_plans import ALL_QUEUES, InvisibleChange, ack, change_invisible
from pyromq.client.pop.popped_batch import PoppedBatch
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.errors import (
    HandleExpired,
    NetworkError,
    NoRoute,
    PyroError,
    Refused,
    ServiceNotAvailable,
    SystemBusy,
)
from pyromq.model import MessageQueue
from pyromq.wire.bodies.pop_bodies import BatchAckPart

_log = logging.getLogger("pyromq.client")

#: Seconds between tries at a broker that does not answer: at first, and at most.
TRY_AGAIN_S_FIRST: Final = 0.1
TRY_AGAIN_S_MAX: Final = 1.0
#: Failures after which the same may be told again.
_PASSING: Final = (NetworkError, NoRoute, ServiceNotAvailable, SystemBusy)


class _ToTell:
    """The news for one broker."""

    __slots__ = ("again", "done", "longer", "task")

    def __init__(self) -> None:
        self.done: dict[PoppedBatch, None] = {}
        #: Messages that come again: batch, offset and milliseconds.
        self.again: list[tuple[PoppedBatch, int, int]] = []
        self.longer: dict[PoppedBatch, None] = {}
        self.task: asyncio.Task[None] | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.done or self.again or self.longer)


class Acknowledgements:
    """Tells brokers; what cannot be told in time comes again, to whichever member."""

    def __init__(self, member: GroupMember[ProcessQueue]) -> None:
        self._member = member
        self._brokers: dict[str, _ToTell] = {}
        self._tasks = OwnedTasks("pyromq-acknowledge")

    def done(self, batch: PoppedBatch) -> None:
        """Have acknowledged what is done of a batch."""
        broker = self._broker(batch)
        broker.done[batch] = None
        self._see_to(batch.broker_name, broker)

    def again(self, batch: PoppedBatch, offset: int, delay_ms: int) -> None:
        """Have a message come again after so long. It does not count as this consumer's any more."""
        batch.forget(1 << (offset - batch.start_offset))
        broker = self._broker(batch)
        broker.again.append((batch, offset, delay_ms))
        self._see_to(batch.broker_name, broker)

    def longer(self, batch: PoppedBatch) -> None:
        """Have what is left of a batch stay invisible for its whole time from now on."""
        broker = self._broker(batch)
        broker.longer[batch] = None
        self._see_to(batch.broker_name, broker)

    async def settle(self, grace_s: float) -> None:
        """Wait until all is told, but not longer than that; then give it up."""
        await self._tasks.wait(grace_s)
        await self._tasks.cancel()

    def _broker(self, batch: PoppedBatch) -> _ToTell:
        broker = self._brokers.get(batch.broker_name)
        if broker is None:
            broker = self._brokers[batch.broker_name] = _ToTell()
        return broker

    def _see_to(self, name: str, broker: _ToTell) -> None:
        if broker.task is None:
            broker.task = self._tasks.start(self._tell(name, broker))

    async def _tell(self, name: str, broker: _ToTell) -> None:
        try:
            while not broker.is_empty:
                if broker.done:
                    batches, broker.done = broker.done, {}
                    await self._ack(name, tuple(batches))
                if broker.again:
                    changes, broker.again = broker.again, []
                    await self._change(name, changes)
                if broker.longer:
                    batches, broker.longer = broker.longer, {}
                    for batch in batches:
                        await self._renew(name, batch)
        finally:
            broker.task = None

    # Done ---------------------------------------------------------------------------------------------

    async def _ack(self, name: str, batches: Sequence[PoppedBatch]) -> None:
        """Acknowledge, and try again while the messages are this consumer's."""
        member, pause_s = self._member, TRY_AGAIN_S_FIRST
        group = member.session.group
        parts: list[tuple[PoppedBatch, BatchAckPart]] = [
            (batch, part) for batch in batches for part in batch.take_done(group)
        ]
        while parts:
            place = MessageQueue(parts[0][0].topic, name, ALL_QUEUES)
            try:
                await member.driver.run(ack(member.session, place, [part for _, part in parts]))
            except PyroError as error:
                kept = [pair for pair in parts if not pair[0].is_dropped] if _passes(error) else []
                _log.log(
                    logging.WARNING if len(kept) < len(parts) else logging.INFO,
                    "broker %s was not told that messages are done (%s); %d batches of them come again",
                    name,
                    error,
                    len(parts) - len(kept),
                )
                parts = kept
                if parts:
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, TRY_AGAIN_S_MAX)
            else:
                return

    # Later --------------------------------------------------------------------------------------------

    async def _change(self, name: str, changes: list[tuple[PoppedBatch, int, int]]) -> None:
        """Have messages come again later. When that fails they do so when their invisible time is over."""
        by_topic: dict[str, list[InvisibleChange]] = {}
        for batch, offset, delay_ms in changes:
            handle = batch.handle(offset)
            batch.moved.pop(offset, None)
            by_topic.setdefault(batch.topic, []).append(InvisibleChange(handle, delay_ms))
        member = self._member
        for topic, wanted in by_topic.items():
            place = MessageQueue(topic, name, ALL_QUEUES)
            try:
                answers = await member.driver.run(change_invisible(member.session, place, wanted))
            except PyroError as error:
                _log.warning(
                    "%s: %d failed messages come again later than asked: %s", name, len(wanted), error
                )
                continue
            for change, answer in zip(wanted, answers, strict=True):
                if isinstance(answer, Refused) and not isinstance(answer, HandleExpired):
                    _log.warning(
                        "broker %s: message at offset %d of %s comes again later than asked: %s",
                        name,
                        change.handle.offset,
                        topic,
                        answer,
                    )

    async def _renew(self, name: str, batch: PoppedBatch) -> None:
        """Have what is left of a batch stay invisible; what is others' by now is forgotten."""
        member = self._member
        offsets = [offset for offset in batch.offsets if batch.has_left(offset)]
        changes = [InvisibleChange(batch.handle(offset), batch.invisible_ms) for offset in offsets]
        if not changes:
            return
        place = MessageQueue(batch.topic, name, ALL_QUEUES)
        try:
            answers = await member.driver.run(change_invisible(member.session, place, changes))
        except PyroError as error:
            _log.warning("broker %s does not give more time for %d messages: %s", name, len(changes), error)
            return
        for offset, answer in zip(offsets, answers, strict=True):
            if isinstance(answer, Refused):
                _log.warning("message at offset %d of %s is lost to others: %s", offset, batch.topic, answer)
                batch.forget(1 << (offset - batch.start_offset))
            else:
                batch.moved[offset] = answer
        batch.extend(batch.invisible_ms)


def _passes(error: PyroError) -> bool:
    return isinstance(error, _PASSING)
