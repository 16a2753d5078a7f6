"""The awaitable pull consumer."""

from collections.abc import AsyncIterator
from functools import partial
from types import TracebackType
from typing import Self

from pyromq.client.aio.runner import Runner
from pyromq.client.cursors import Cursors
from pyromq.client.name_servers import name_server_addresses
from pyromq.client.names import check_group
from pyromq.client.plans import polling, presence, progress
from pyromq.client.plans.polling import Start, TopicWanted
from pyromq.client.plans.pull import Wanted, pull, pull_deadline
from pyromq.client.session import new_session
from pyromq.client.steps import Deadline
from pyromq.config.settings import ClientSettings
from pyromq.model import ConsumeFrom, MessageQueue, PullResult, ReceivedMessage

#: Milliseconds of one look for messages by an iteration that has no end; only a bound on closing in between.
ROUND_MS = 1_000


class PullConsumer:
    """Takes messages when it is asked to, from queues it is told or from a whole topic in turn.

        async with PullConsumer("billing", name_server="127.0.0.1:9876") as consumer:
            async for message in consumer.messages("orders"):
                ...

    `pull` and `commit` leave all book-keeping to you. `poll` and `messages` keep the group's progress: a
    message counts as finished when the next is asked for, or when the consumer is closed without an error;
    what is finished is committed every five seconds and at the end. It reads all queues of a topic: to share
    them among several consumers, give each its own queues by `pull`.

    `start_from` says where the group begins in a queue that it never read. Use one consumer in one task.
    """

    def __init__(
        self,
        group: str,
        name_server: str | None = None,
        settings: ClientSettings | None = None,
        *,
        start_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET,
        start_at_ms: int = 0,
    ) -> None:
        check_group(group)
        self.group = group
        self._start = Start(start_from, start_at_ms)
        self._cursors = Cursors()
        addresses = name_server_addresses(name_server)
        self._runner = Runner(
            f"consumer {group}",
            partial(new_session, group, addresses, settings or ClientSettings()),
            presence.keep_routes_fresh,
        )

    async def start(self) -> None:
        """Begin; an `async with` block does it."""
        await self._runner.start()

    async def close(self) -> None:
        """Commit what was handed out by `poll` or `messages`, and close the connections."""
        self._cursors.finish()
        await self._runner.close(partial(polling.commit_finished, cursors=self._cursors))

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that can be read, of all brokers."""
        return await self._runner.run(
            progress.subscribe_queues(self._runner.session, topic, self._deadline())
        )

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        count: int = 32,
        tags: str = "*",
        wait_ms: int = 0,
        timeout_ms: int | None = None,
    ) -> PullResult:
        """Return up to `count` messages of a queue from `offset` on, with one of the tags «a || b».

        With `wait_ms` the broker holds the question that long if there are none.
        """
        session = self._runner.session
        deadline = pull_deadline(session, wait_ms, timeout_ms)
        return await self._runner.run(pull(session, Wanted(queue, offset, count, tags, wait_ms), deadline))

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the offset that the group reads next, or None when it has not read the queue yet."""
        return await self._runner.run(progress.committed(self._runner.session, queue, self._deadline()))

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Let the broker remember the offset that the group reads next: one past what it finished."""
        await self._runner.run(progress.commit(self._runner.session, queue, offset, self._deadline()))
        self._cursors.committed(queue, offset)

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the first message that is still there."""
        return await self._runner.run(progress.min_offset(self._runner.session, queue, self._deadline()))

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message will get."""
        return await self._runner.run(progress.max_offset(self._runner.session, queue, self._deadline()))

    async def offset_by_time(self, queue: MessageQueue, at_ms: int) -> int:
        """Return the offset of the first message stored at or after a time, in milliseconds since 1970."""
        return await self._runner.run(
            progress.offset_by_time(self._runner.session, queue, at_ms, self._deadline())
        )

    async def poll(
        self, topic: str, *, tags: str = "*", count: int = 32, wait_ms: int = 1_000
    ) -> list[ReceivedMessage]:
        """Return the next messages of one of the topic's queues; none when none came within `wait_ms`.

        What earlier polls returned counts as finished.
        """
        messages = await self._poll(TopicWanted(topic, tags, count), wait_ms)
        if messages:
            self._cursors.hand_out_rest(messages[0].queue)
        return messages

    async def messages(
        self, topic: str, *, tags: str = "*", count: int = 32, idle_ms: int | None = None
    ) -> AsyncIterator[ReceivedMessage]:
        """Iterate over a topic's messages; each is finished when the next is asked for.

        They are pulled `count` at a time. It ends when none came for `idle_ms`; without that, it never ends.
        """
        wanted = TopicWanted(topic, tags, count)
        while True:
            batch = await self._poll(wanted, ROUND_MS if idle_ms is None else idle_ms)
            if not batch and idle_ms is not None:
                return
            for message in batch:
                self._cursors.hand_out(message)
                yield message
                self._cursors.finish()
                await self._runner.run(polling.commit_when_due(self._runner.session, self._cursors))
            if batch:
                self._cursors.hand_out_rest(batch[0].queue)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
        else:
            # What was handed out last may be unfinished: only what is surely finished is committed.
            await self._runner.close(partial(polling.commit_finished, cursors=self._cursors))

    async def _poll(self, wanted: TopicWanted, wait_ms: int) -> list[ReceivedMessage]:
        session = self._runner.session
        deadline = session.deadline(wait_ms, wait_ms)
        return await self._runner.run(polling.poll(session, self._start, self._cursors, wanted, deadline))

    def _deadline(self) -> Deadline:
        session = self._runner.session
        return session.deadline(None, session.settings.mq_client_api_timeout)
