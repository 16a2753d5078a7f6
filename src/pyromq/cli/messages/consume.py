"""`pyromq consume`: a topic's messages on standard output.

What is there already is printed in the order in which it was stored, across all queues. With `--follow` each
queue is then asked again and again, every question held by its broker until there is an answer.
"""

import asyncio
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyromq.cli import output
from pyromq.cli.credentials import client_settings
from pyromq.cli.messages.bodies import json_body, printable, safe
from pyromq.cli.messages.client_commands import SHELL_GROUP, From, Style
from pyromq.cli.times import moment_ms
from pyromq.client.aio.pull_consumer import PullConsumer
from pyromq.client.consumer.incoming import shown_body
from pyromq.errors import ConfigError, NetworkError, NoRoute, PyroError
from pyromq.model import MessageQueue, PullStatus, ReceivedMessage
from pyromq.net.loop import run as run_loop

#: How long a broker holds the question for more.
HELD_MS = 15_000
#: Between looks for queues that are new.
LOOK_AGAIN_S = 5.0
#: Until a broker that failed, or a topic that is not there yet, is asked again.
TRY_AGAIN_S = 1.0
COMMIT_EVERY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReadOrder:
    """An order to read a topic: which messages, and until when."""

    topic: str
    group: str | None
    start: From
    start_ms: int
    tags: str
    count: int | None
    is_following: bool


@dataclass(slots=True)
class QueueStretch:
    """The part of a queue that is still to be read, up to its end as it was at the start."""

    queue: MessageQueue
    next_offset: int
    end: int
    since_ms: int = 0
    waiting: deque[ReceivedMessage] = field(default_factory=deque)
    #: Whether its broker let it be read: one that refuses must be heard also when nothing is there.
    is_asked: bool = False

    def take(self, messages: list[ReceivedMessage]) -> None:
        """Keep what is wanted of the messages that a pull brought.

        RocketMQ's offset of a time may be that of the last message before it.
        """
        self.waiting.extend(
            message
            for message in messages
            if message.queue_offset < self.end and message.stored_at_ms >= self.since_ms
        )


def run_consume(reading: TopicReadOrder, *, name_server: str, style: Style) -> None:
    """Print messages until the end, the count, or for `--follow` a signal."""
    try:
        run_loop(_consume(reading, name_server, style))
    except (KeyboardInterrupt, asyncio.CancelledError):
        # A signal is the ordinary end of following.
        if not reading.is_following:
            raise KeyboardInterrupt from None


def start_time_ms(start: From, text: str | None) -> int:
    """Return the time to begin at, in milliseconds since 1970; a time without a zone is local."""
    if start is not From.TIME:
        if text is not None:
            raise ConfigError(f"--time {text}: only goes with --from time")
        return 0
    if text is None:
        raise ConfigError("--from time: say when, as --time 2026-01-31T12:00:00")
    return moment_ms(text, "--time")


async def _consume(reading: TopicReadOrder, name_server: str, style: Style) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    group = reading.group or SHELL_GROUP
    async with PullConsumer(group, name_server=name_server, settings=client_settings()) as consumer:
        reader = TopicPrinter(consumer, reading, style)
        try:
            await reader.read()
        finally:
            await reader.commit()
    if style is Style.LINE and not reader.printed:
        sys.stderr.write(f"no messages in {reading.topic}\n")


class _Enough(Exception):
    """As many messages as were asked for are printed."""


class TopicPrinter:
    """Prints what all queues of a topic hold, and keeps the group's progress if there is a group."""

    def __init__(self, consumer: PullConsumer, reading: TopicReadOrder, style: Style) -> None:
        self.printed = 0
        self._consumer = consumer
        self._reading = reading
        self._style = style
        self._progress: dict[MessageQueue, int] = {}
        self._commit_at = time.monotonic() + COMMIT_EVERY_S

    async def read(self) -> None:
        """Print what is there, then what comes if it is to follow."""
        try:
            stretches = [await self._stretch(queue) for queue in await self._queues()]
            async for message in self._stored(stretches):
                await self._take(message)
            if self._reading.is_following:
                await self._follow_all({one.queue: one.next_offset for one in stretches})
        except _Enough:
            return

    async def commit(self) -> None:
        """Let the brokers remember how far the group got."""
        self._commit_at = time.monotonic() + COMMIT_EVERY_S
        progress, self._progress = self._progress, {}
        for queue, offset in progress.items():
            await self._consumer.commit(queue, offset)

    async def _take(self, message: ReceivedMessage) -> None:
        _print(message, self._style)
        self.printed += 1
        if self._reading.group is not None:
            self._progress[message.queue] = message.queue_offset + 1
            if time.monotonic() >= self._commit_at:
                await self.commit()
        if self.printed == self._reading.count:
            raise _Enough

    async def _queues(self) -> list[MessageQueue]:
        is_told = False
        while True:
            try:
                return await self._consumer.queues(self._reading.topic)
            except NoRoute:
                if not self._reading.is_following:
                    raise
            if not is_told:
                sys.stderr.write(f"waiting for topic {self._reading.topic} to be created\n")
                is_told = True
            await asyncio.sleep(TRY_AGAIN_S)

    async def _stretch(self, queue: MessageQueue) -> QueueStretch:
        end = await self._consumer.max_offset(queue)
        if self._reading.group is not None:
            known = await self._consumer.committed(queue)
            if known is not None:
                return QueueStretch(queue, known, end)
        if self._reading.start is From.FIRST:
            return QueueStretch(queue, await self._consumer.min_offset(queue), end)
        if self._reading.start is From.TIME:
            since_ms = self._reading.start_ms
            return QueueStretch(queue, await self._consumer.offset_by_time(queue, since_ms), end, since_ms)
        return QueueStretch(queue, end, end)

    async def _stored(self, stretches: list[QueueStretch]) -> AsyncIterator[ReceivedMessage]:
        """Merge the queues by the time of storing; each queue is in that order already."""
        while True:
            for stretch in stretches:
                if not stretch.waiting:
                    await self._fill(stretch)
            ready = [stretch for stretch in stretches if stretch.waiting]
            if not ready:
                return
            yield min(ready, key=lambda one: one.waiting[0].stored_at_ms).waiting.popleft()

    async def _fill(self, stretch: QueueStretch) -> None:
        while not stretch.waiting and (stretch.next_offset < stretch.end or not stretch.is_asked):
            stretch.is_asked = True
            result = await self._consumer.pull(stretch.queue, stretch.next_offset, tags=self._reading.tags)
            if result.status is PullStatus.NO_NEW_MESSAGE:
                stretch.next_offset = stretch.end
                return
            stretch.take(result.messages)
            # Messages that came after the start are left for following.
            stretch.next_offset = min(result.next_offset, stretch.end)

    async def _follow_all(self, offsets: dict[MessageQueue, int]) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                for queue, offset in offsets.items():
                    tasks.create_task(self._follow(queue, offset))
                tasks.create_task(self._follow_new(set(offsets), tasks))
        except BaseExceptionGroup as group:
            # One follower's end ends the others; it is the reason.
            raise group.exceptions[0] from None

    async def _follow(self, queue: MessageQueue, offset: int) -> None:
        while True:
            try:
                result = await self._consumer.pull(queue, offset, tags=self._reading.tags, wait_ms=HELD_MS)
            except PyroError as error:
                if not error.retriable:
                    raise
                output.warn(f"{queue.broker_name} queue {queue.queue_id}: {error}; trying again")
                await asyncio.sleep(TRY_AGAIN_S)
                continue
            for message in result.messages:
                await self._take(message)
            offset = result.next_offset

    async def _follow_new(self, known: set[MessageQueue], tasks: asyncio.TaskGroup) -> None:
        while True:
            await asyncio.sleep(LOOK_AGAIN_S)
            try:
                found = set(await self._consumer.queues(self._reading.topic))
            except NetworkError:
                continue
            for queue in found - known:
                known.add(queue)
                tasks.create_task(self._follow(queue, 0))


def _print(message: ReceivedMessage, style: Style) -> None:
    if style is Style.JSON:
        output.say_json(_record(message))
    elif style is Style.BODY:
        sys.stdout.buffer.write(message.body + b"\n")
        sys.stdout.buffer.flush()
    else:
        output.say(_line(message))


def _line(message: ReceivedMessage) -> str:
    when = datetime.fromtimestamp(message.stored_at_ms / 1_000).isoformat(" ", "milliseconds")
    where = f"{message.queue.broker_name}:{message.queue.queue_id}:{message.queue_offset}"
    about = [output.paint(when, "dim"), output.paint(where, "dim")]
    if message.tags:
        about.append(output.paint(safe(message.tags), "cyan"))
    if message.keys:
        about.append(output.paint(safe(",".join(message.keys)), "yellow"))
    return "  ".join([*about, printable(shown_body(message))])


def _record(message: ReceivedMessage) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "broker": message.queue.broker_name,
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "message_id": message.message_id,
        "offset_message_id": message.offset_message_id,
        "tags": message.tags,
        "keys": message.keys,
        "born_at_ms": message.born_at_ms,
        "stored_at_ms": message.stored_at_ms,
        "reconsume_times": message.reconsume_times,
        "properties": message.properties,
        **json_body(shown_body(message)),
    }
