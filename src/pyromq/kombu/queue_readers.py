"""Readers of the messages of one queue for a channel; all of it runs on the loop of the connection's clients.

GroupReader   a queue that lasts: the members of its group share the messages, and each is acknowledged
TailReader    a temporary queue: all that shared exchanges get from the binding on; nobody acknowledges
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias

from pyromq import aio
from pyromq.client.push.delivery import Delivery
from pyromq.errors import PyroError
from pyromq.kombu.kombu_clients import KombuClients
from pyromq.model import ConsumeFrom, MessageQueue, PullStatus, ReceivedMessage

_log = logging.getLogger("pyromq.kombu")

#: Listener calls that may wait for a worker at once; what may be in flight is `prefetch`.
_CALLS_MAX: Final = 1_000
#: Messages in flight when no prefetch count was set.
_PREFETCH: Final = 96
_POP_BATCH_MAX: Final = 32
#: Minutes for which messages that a worker has are renewed: a week.
_HELD_MINUTES: Final = 7 * 24 * 60
_HELD_PULL_MS: Final = 15_000
_TRY_AGAIN_S: Final = 1.0


class Verdict(Enum):
    """The end of a message. The value is RocketMQ's delay level of the next try."""

    DONE = 0
    #: It comes again after a second.
    AGAIN = 1
    #: It is a dead letter of its queue's group.
    DEAD = -1


#: Takes a verdict, from any thread; the first counts.
End: TypeAlias = Callable[[Verdict], None]
#: Takes a message's payload, and what ends it, if anything does.
Offer: TypeAlias = Callable[[dict[str, Any], End | None], None]


class Reader(Protocol):
    """Whatever reads a queue."""

    def stop(self) -> None:
        """Read nothing more; what was read may still be ended."""
        ...

    def resume(self) -> None:
        """Go on."""
        ...

    def close(self) -> None:
        """Give back what was not ended."""
        ...


class GroupReader:
    """Reads a queue that lasts, as a member of its group."""

    def __init__(self, clients: KombuClients, topics: Sequence[str], prefetch: int, offer: Offer) -> None:
        self._loop = clients.loop
        self._offer = offer
        self._open: set[asyncio.Future[Verdict]] = set()
        self._is_closed = False
        terms, in_flight = clients.terms, prefetch or _PREFETCH
        self._consumer = aio.PushConsumer(
            topics[0],
            terms.name_server,
            listener=self._handle,
            mode="pop" if clients.does_pop else "pull",
            consume_from=ConsumeFrom.FIRST_OFFSET,
            consume_thread_min=_CALLS_MAX,
            consume_thread_max=_CALLS_MAX,
            pop_batch_nums=min(in_flight, _POP_BATCH_MAX),
            pop_threshold_for_queue=in_flight,
            pop_invisible_time=int(terms.visibility_timeout * 1_000),
            pull_batch_size=min(in_flight, _POP_BATCH_MAX),
            pull_threshold_for_topic=in_flight,
            consume_timeout=_HELD_MINUTES,
            max_reconsume_times=terms.max_deliveries,
        )
        for topic in topics:
            self._consumer.subscribe(topic)
        self._loop.run(self._consumer.start())

    def stop(self) -> None:
        """Take nothing more; what was taken may still be ended."""
        self._loop.call_soon(self._consumer.suspend)

    def resume(self) -> None:
        """Go on."""
        self._loop.call_soon(self._consumer.resume)

    def close(self) -> None:
        """Give back what was not ended, and leave the group."""
        self._loop.run(self._close())

    async def _close(self) -> None:
        self._is_closed = True
        for future in tuple(self._open):
            _settle(future, Verdict.AGAIN)
        await self._consumer.close()

    async def _handle(self, message: ReceivedMessage, delivery: Delivery) -> bool:
        verdict = Verdict.AGAIN if self._is_closed else await self._verdict(message)
        delivery.delay_level = verdict.value
        return verdict is Verdict.DONE

    async def _verdict(self, message: ReceivedMessage) -> Verdict:
        payload = payload_of(message)
        if payload is None:
            return Verdict.DEAD
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._open.add(future)
        try:
            self._offer(payload, lambda verdict: self._loop.call_soon(lambda: _settle(future, verdict)))
            return await future
        finally:
            self._open.discard(future)


class TailReader:
    """Reads what shared exchanges get from given places on."""

    def __init__(self, clients: KombuClients, places: Mapping[MessageQueue, int], offer: Offer) -> None:
        self._offer = offer
        self._tails = clients.tails
        self._loop = clients.loop
        self._goes_on = asyncio.Event()
        self._goes_on.set()
        self._tasks = [self._loop.submit(self._follow(place, offset)) for place, offset in places.items()]

    def stop(self) -> None:
        """Take nothing more."""
        self._loop.call_soon(self._goes_on.clear)

    def resume(self) -> None:
        """Go on where it stopped."""
        self._loop.call_soon(self._goes_on.set)

    def close(self) -> None:
        """Forget the places."""
        for task in self._tasks:
            task.cancel()

    async def _follow(self, place: MessageQueue, offset: int) -> None:
        while True:
            await self._goes_on.wait()
            try:
                result = await self._tails.pull(place, offset, wait_ms=_HELD_PULL_MS)
            except PyroError as error:
                _log.warning("%s is not read: %s; it is tried again", place, error)
                await asyncio.sleep(_TRY_AGAIN_S)
                continue
            await self._goes_on.wait()
            for message in result.messages:
                payload = payload_of(message)
                if payload is not None:
                    self._offer(payload, None)
            if result.messages or result.status is not PullStatus.NO_NEW_MESSAGE:
                offset = result.next_offset


def payload_of(message: ReceivedMessage) -> dict[str, Any] | None:
    """Return kombu's payload, with a delivery tag of its own; None when the message is none of kombu's."""
    try:
        payload = json.loads(message.body)
        properties = payload["properties"]
        properties["delivery_info"]
    except (ValueError, KeyError, TypeError) as error:
        _log.error(
            "message %s of topic %s was not sent by kombu: %s", message.message_id, message.topic, error
        )
        return None
    properties["delivery_tag"] = f"{message.message_id}.{message.queue_offset}.{message.reconsume_times}"
    if message.reconsume_times:
        properties["delivery_info"]["redelivered"] = True
    result: dict[str, Any] = payload
    return result


def _settle(future: "asyncio.Future[Verdict]", verdict: Verdict) -> None:
    if not future.done():
        future.set_result(verdict)
