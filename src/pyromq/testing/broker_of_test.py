"""A broker as one test uses it: topics and groups of its own, messages in, and a look at what is there.

Everything goes over the wire, so it is the same with a broker in this process and with a real one.
"""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

from pyromq.app.typed_bodies import encode_body
from pyromq.client.dead_letter import DeadLetter
from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.errors import PyroError
from pyromq.model import Message, MessageQueue, PullStatus, ReceivedMessage, SendResult
from pyromq.testing.session_servers import ClusterOfTest
from pyromq.testing.shifted_clock import ShiftedClock
from pyromq.testing.waiting import DEADLINE_S, aeventually, eventually
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig

T = TypeVar("T")

QUEUES: Final = 4
#: Seconds that the code under test has for what a jump of the clock brought, before the next jump.
STEP_PATIENCE_S: Final = 0.02
_DURATION: Final = re.compile(r"([0-9]+)(ms|s|m|h|d)")
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class BrokerOfTest:
    """A broker as one test uses it: `pyromq_broker`.

    `topic` and `group` make what is asked for, and return its name. With a broker that tests share the name
    has an end that no other test has; on a broker of the test's own it is the name that was asked for.
    Methods that take a topic or a group take both names. Those with an `a` before their name are for
    asynchronous tests.
    """

    def __init__(self, cluster: ClusterOfTest) -> None:
        self._cluster = cluster
        self._clients = cluster.clients
        self._end = "" if cluster.is_own else f"-{secrets.token_hex(4)}"
        self._topics: dict[str, str] = {}
        self._groups: dict[str, str] = {}

    @property
    def name_server(self) -> str:
        """The name server's address, `host:port`: what the code under test is told."""
        return self._cluster.name_server

    # Topics and groups

    def topic(self, name: str = "topic", queues: int = QUEUES) -> str:
        """Make a topic for this test, unless it has it already, and return its name."""
        made = self._topics.get(name)
        if made is None:
            made = self._topics[name] = name + self._end
            self._make_topic(made, queues)
        return made

    def group(self, name: str = "group", retries: int = 16) -> str:
        """Make a consumer group for this test, unless it has it already, and return its name.

        `retries` is how often a message comes again before it is a dead letter; a consumer may say it, too.
        """
        made = self._groups.get(name)
        if made is None:
            made = self._groups[name] = name + self._end
            config = SubscriptionGroupConfig(group_name=made, retry_max_times=retries)
            self._clients.admin.update_group(config)
            # Other clients' consumers find it at their start, and not when they next ask a name server.
            self._make_topic(f"{RETRY_TOPIC_PREFIX}{made}", 1)
        return made

    def _make_topic(self, topic: str, queues: int) -> None:
        self._clients.admin.create_topic(topic, queues)
        eventually(lambda: self._queues(topic), what=f"the name server knows topic {topic}")

    # Messages

    def send(self, topic: str, body: object, **options: Any) -> SendResult:
        """Send a message: bytes, text, or anything that has JSON.

        Options are those of `pyromq.Message`: `tags`, `keys`, `properties`, `delay_level`, `delay`,
        `deliver_at`.
        """
        message = Message(self._topics.get(topic, topic), encode_body(body), **options)
        return self._clients.producer.send(message)

    def messages(
        self, topic: str, at_least: int = 0, *, timeout_s: float = DEADLINE_S
    ) -> list[ReceivedMessage]:
        """Return all messages that a topic has, the oldest first, once there are so many.

        No group's progress changes. A topic that nobody made has none.
        """
        name = self._topics.get(topic, topic)
        return self._read(lambda: self._look(name), at_least, timeout_s, f"messages in topic {name}")

    def dead_letters(
        self, group: str, at_least: int = 0, *, timeout_s: float = DEADLINE_S
    ) -> list[DeadLetter]:
        """Return what a group gave up, the oldest first, once there are so many.

        Each has the message as `.message`, and as `.topic` where it was sent to.
        """
        name = self._groups.get(group, group)
        return self._read(
            lambda: list(self._clients.dead.read(name)), at_least, timeout_s, f"dead letters of group {name}"
        )

    def wait_for(
        self, condition: Callable[[], T], *, timeout_s: float = DEADLINE_S, what: str | None = None
    ) -> T:
        """Call `condition` until it returns something true, and return that; else an AssertionError."""
        return eventually(condition, timeout_s, what=what)

    async def asend(self, topic: str, body: object, **options: Any) -> SendResult:
        """Do what `send` does."""
        return await asyncio.to_thread(partial(self.send, topic, body, **options))

    async def amessages(
        self, topic: str, at_least: int = 0, *, timeout_s: float = DEADLINE_S
    ) -> list[ReceivedMessage]:
        """Do what `messages` does; the loop goes on meanwhile."""
        return await asyncio.to_thread(partial(self.messages, topic, at_least, timeout_s=timeout_s))

    async def adead_letters(
        self, group: str, at_least: int = 0, *, timeout_s: float = DEADLINE_S
    ) -> list[DeadLetter]:
        """Do what `dead_letters` does; the loop goes on meanwhile."""
        return await asyncio.to_thread(partial(self.dead_letters, group, at_least, timeout_s=timeout_s))

    async def await_for(
        self,
        condition: Callable[[], T] | Callable[[], Awaitable[T]],
        *,
        timeout_s: float = DEADLINE_S,
        what: str | None = None,
    ) -> T:
        """Do what `wait_for` does; the loop goes on meanwhile, and the condition may be awaitable."""
        seen: T = await aeventually(condition, timeout_s, what=what)
        return seen

    def _read(self, look: Callable[[], list[T]], at_least: int, timeout_s: float, what: str) -> list[T]:
        seen: list[T] = []

        def enough() -> bool:
            seen[:] = look()
            return len(seen) >= at_least

        try:
            eventually(enough, timeout_s)
        except AssertionError:
            raise AssertionError(
                f"{at_least} {what}: not there within {timeout_s:g} s; there are {len(seen)}"
            ) from None
        return seen

    def _queues(self, topic: str) -> list[MessageQueue]:
        return self._clients.reader.fetch_message_queues(topic)

    def _look(self, topic: str) -> list[ReceivedMessage]:
        found = [message for queue in self._queues(topic) for message in self._queue(queue)]
        return sorted(found, key=lambda message: (message.stored_at_ms, message.position))

    def _queue(self, queue: MessageQueue) -> list[ReceivedMessage]:
        reader, found = self._clients.reader, []
        offset, end = reader.min_offset(queue), reader.max_offset(queue)
        while offset < end:
            pulled = reader.pull(queue, offset, count=32)
            found += pulled.messages
            if pulled.status is not PullStatus.FOUND and pulled.next_offset <= offset:
                break
            offset = pulled.next_offset
        return found

    def clean_up(self) -> None:
        """Delete the topics and groups of this test, where other tests would meet them."""
        if self._cluster.is_own:
            return
        for group in self._groups.values():
            with suppress(PyroError):
                self._clients.admin.delete_group(group, removes_offsets=True)
        for topic in self._topics.values():
            with suppress(PyroError):
                self._clients.admin.delete_topic(topic)


class ClockOfTest:
    """The broker's time, for a test that moves it: `pyromq_clock`.

    It flows as the machine's does, and jumps when told. It never goes back.
    """

    def __init__(self, cluster: ClusterOfTest, clock: ShiftedClock) -> None:
        self._cluster = cluster
        self._clock = clock

    def now(self) -> datetime:
        """Return the broker's time."""
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)

    def advance(self, by: str | float | timedelta) -> None:
        """Let the broker's time jump: "10s", "2h", "1d", seconds or a timedelta.

        What became due is delivered, and asked about, when this returns. The code under test may be at it
        yet; and what it has not sent yet is due that much later: `run_until` jumps again.
        """
        self._cluster.catch_up(self._clock.advance(ms_of(by)))

    def run_until(
        self,
        condition: Callable[[], T],
        *,
        step: str | float | timedelta = "2h",
        timeout_s: float = DEADLINE_S,
        what: str | None = None,
    ) -> T:
        """Jump again and again until `condition` returns something true, and return that.

        The usual step is the longest pause between two tries. Between two jumps the code under test has some
        milliseconds; if it is slower, more of the broker's time passes.
        """

        def seen_after_a_jump() -> T:
            try:
                return eventually(condition, STEP_PATIENCE_S)
            except AssertionError:
                self.advance(step)
                return condition()

        return eventually(seen_after_a_jump, timeout_s, what=what or getattr(condition, "__qualname__", None))

    async def aadvance(self, by: str | float | timedelta) -> None:
        """Do what `advance` does; the loop goes on meanwhile."""
        await asyncio.to_thread(self.advance, by)

    async def arun_until(
        self,
        condition: Callable[[], T],
        *,
        step: str | float | timedelta = "2h",
        timeout_s: float = DEADLINE_S,
        what: str | None = None,
    ) -> T:
        """Do what `run_until` does, with the condition on a thread; the loop goes on meanwhile."""
        return await asyncio.to_thread(
            partial(self.run_until, condition, step=step, timeout_s=timeout_s, what=what)
        )


def ms_of(time: str | float | timedelta) -> int:
    """Return a time in milliseconds; raise ValueError for a text that is none, and for one that is gone."""
    if isinstance(time, timedelta):
        ms = time / timedelta(milliseconds=1)
    elif isinstance(time, str):
        parts = _DURATION.findall(time)
        if not parts or "".join(number + unit for number, unit in parts) != time:
            raise ValueError(f'{time!r} is no time: write a number and ms, s, m, h or d, as "10s" or "1h30m"')
        ms = sum(int(number) * _UNIT_MS[unit] for number, unit in parts)
    else:
        ms = time * 1_000
    if ms < 0:
        raise ValueError(f"time cannot go back by {-ms:g} ms")
    return round(ms)
