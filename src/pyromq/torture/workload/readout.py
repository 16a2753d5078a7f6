"""The last word of a run: what every queue has, and how far every group is, as the brokers say it."""

import asyncio
import zlib
from dataclasses import dataclass, field

from pyromq.client.aio.admin import Admin
from pyromq.client.aio.dead_letters import DeadLetters
from pyromq.client.aio.pull_consumer import PullConsumer
from pyromq.errors import NoRoute, PyroError, TopicNotFound
from pyromq.model import MessageQueue, PullStatus
from pyromq.torture.history import Json
from pyromq.torture.workload.scribe import Scribe, address_in, number_of, place_of, told

_GROUP = "g-readout"
_DEAD = "%DLQ%"
_COUNT = 32
#: Connections on which a queue may be tried without getting any further, and seconds between two.
_VAIN_MAX = 10
_AGAIN_S = 0.5


@dataclass(slots=True)
class _Reading:
    """A queue, as far as it was read."""

    queue: MessageQueue
    first: int = -1
    end: int = -1
    offset: int = -1
    messages: list[Json] = field(default_factory=list)


async def read_out(
    scribe: Scribe, topics: list[str], more: list[str], groups: list[str], *, is_patient: bool
) -> None:
    """Write down all messages of topics, and of those of more that are there, and the progress of groups.

    Raises PyroError when nobody answers, or when queues of topics are not known and somebody has patience.
    """
    settings = scribe.settings("readout")
    async with Admin(scribe.stage.namesrv_address, settings) as admin:
        await _open_dead_letters(scribe, more)
        scribe.history.note("topics", "readout", names=[*await admin.topics()])
        queues = await _queues(scribe, [*topics, *more])
        absent = [queue for topic in topics for queue in scribe.queues.get(topic, ()) if queue not in queues]
        if absent and is_patient:
            raise NoRoute(f"the name servers do not know {', '.join(map(place_of, absent))}")
        for queue in queues:
            await _read_queue(scribe, _Reading(queue))
        for queue in absent:
            scribe.history.note("absent", "readout", place=place_of(queue))
        for group in groups:
            await _read_progress(scribe, admin, group)


async def _open_dead_letters(scribe: Scribe, topics: list[str]) -> None:
    """Let dead letters be read, which they may not be by default."""
    groups = [topic.removeprefix(_DEAD) for topic in topics if topic.startswith(_DEAD)]
    async with DeadLetters(scribe.stage.namesrv_address, scribe.settings("readout")) as letters:
        for group in groups:
            await letters.make_readable(group)


async def _queues(scribe: Scribe, topics: list[str]) -> list[MessageQueue]:
    queues: list[MessageQueue] = []
    async with _consumer(scribe) as consumer:
        for topic in topics:
            try:
                queues += sorted(await consumer.fetch_message_queues(topic))
            except (TopicNotFound, NoRoute):
                continue
    return queues


def _consumer(scribe: Scribe) -> PullConsumer:
    settings = scribe.settings("readout", consumer_pull_timeout_millis=4_000)
    return PullConsumer(_GROUP, scribe.stage.namesrv_address, settings, auto_commit=False)


async def _read_queue(scribe: Scribe, reading: _Reading) -> None:
    """Read a queue to its end, on a new connection whenever one does not answer any more."""
    vain = 0
    while True:
        before = reading.offset
        try:
            async with _consumer(scribe) as consumer:
                await _read_on(consumer, reading)
            # A master that is just elected may not let read yet what it has. What is missing for good is seen
            # by the checker, which knows the end.
            if reading.offset >= reading.end or vain >= _VAIN_MAX:
                break
            vain = vain + 1 if reading.offset == before else 0
        except PyroError as error:
            vain = vain + 1 if reading.offset == before else 0
            scribe.history.note(
                "readout_failed", "readout", place=place_of(reading.queue), offset=before, error=told(error)
            )
            if vain >= _VAIN_MAX:
                raise
        await asyncio.sleep(_AGAIN_S)
    scribe.history.note(
        "log",
        "readout",
        topic=reading.queue.topic,
        place=place_of(reading.queue),
        first=reading.first,
        end=reading.end,
        messages=reading.messages,
    )


async def _read_on(consumer: PullConsumer, reading: _Reading) -> None:
    queue = reading.queue
    if reading.end < 0:
        reading.first, reading.end = await consumer.min_offset(queue), await consumer.max_offset(queue)
        reading.offset = reading.first
    while reading.offset < reading.end:
        pulled = await consumer.pull(queue, reading.offset, count=_COUNT)
        if pulled.status is not PullStatus.FOUND and pulled.next_offset <= reading.offset:
            return
        for message in pulled.messages:
            host, position = address_in(message.offset_message_id)
            crc = zlib.crc32(message.body)
            reading.messages.append([message.queue_offset, number_of(message.body), position, host, crc])
        reading.offset = pulled.next_offset


async def _read_progress(scribe: Scribe, admin: Admin, group: str) -> None:
    try:
        progress = await admin.group_progress(group)
    except PyroError as error:
        scribe.history.note("no_progress", "readout", group=group, error=told(error))
        return
    for queue, lag in sorted(progress.queues.items()):
        scribe.history.note(
            "progress",
            "readout",
            group=group,
            place=place_of(queue),
            offset=lag.consumer_offset,
            end=lag.broker_offset,
        )
