"""The awaitable pull consumer."""

from collections.abc import AsyncIterator, Iterable
from functools import partial
from types import TracebackType
from typing import Self

from pyromq.client.aio.reading import new_reading
from pyromq.client.aio.sharing import Terms
from pyromq.client.aio.watching import QueuesChanged
from pyromq.client.allocation import Allocate, average
from pyromq.client.cursors import Cursors
from pyromq.client.name_servers import name_server_addresses
from pyromq.client.names import check_group
from pyromq.client.plans import polling, progress
from pyromq.client.plans.polling import Start, TopicWanted
from pyromq.client.plans.pull import Wanted, pull, pull_deadline
from pyromq.client.push.checks import member_of
from pyromq.client.push.delivery import ConsumeModel
from pyromq.client.session import Session, new_local_offsets, new_session
from pyromq.client.steps import Deadline, Plan
from pyromq.clock import SystemClock
from pyromq.config.settings import ClientSettings
from pyromq.errors import ClientClosed, ConfigError
from pyromq.model import ConsumeFrom, MessageQueue, PullResult, ReceivedMessage

#: Milliseconds of one look for messages by an iteration that has no end; only a bound on closing in between.
ROUND_MS = 1_000
#: Milliseconds that a poll waits unless it is told otherwise, as RocketMQ's.
POLL_MS = 5_000


class PullConsumer:
    """Takes messages when it is asked to.

        async with PullConsumer("billing", name_server="127.0.0.1:9876") as consumer:
            consumer.subscribe("orders", "paid || refunded")
            async for message in consumer:
                ...

    There are three ways, from the most convenient to the plainest:

    - `subscribe`: the group's members share the queues of topics (by `allocate`); or `assign`: this one reads
      the queues it is told. Then `poll`, or iterate. Messages are pulled ahead.
    - `messages` and `poll_topic`: all queues of a topic in turn, whoever else reads them.
    - `pull`: one queue from one offset on; all book-keeping is yours.

    The first two keep the group's progress: a message is finished when the next is asked for, or when the
    consumer is closed without an error. What is finished is committed every five seconds and at the end,
    unless `auto_commit` is off: then only `commit` commits.

    `model="broadcasting"` reads every queue of a subscribed topic, whoever else does, and keeps its progress
    in a local file where RocketMQ does (`~/.rocketmq_offsets`, or `local_offset_store_dir`). The file belongs
    to `instance_name`: give each process of one machine its own.

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
        allocate: Allocate = average,
        auto_commit: bool = True,
        model: str = "clustering",
    ) -> None:
        check_group(group)
        self.group = group
        self._start = Start(start_from, start_at_ms)
        self._auto_commit = auto_commit
        self._is_closed = False
        self._cursors = Cursors(is_committed=auto_commit)
        settings = settings or ClientSettings()
        addresses = name_server_addresses(name_server, settings)
        shares = member_of(ConsumeModel, "model", model)
        local = new_local_offsets(group, settings) if shares is ConsumeModel.BROADCASTING else None
        make_session = partial(new_session, group, addresses, settings, local=local)
        self._runner, self._reading = new_reading(
            f"consumer {group}",
            make_session,
            Terms(group, self._start, allocate, auto_commit, settings.namespace, shares),
        )

    async def start(self) -> None:
        """Begin; an `async with` block does it."""
        await self._runner.start()
        self._reading.start()

    async def close(self) -> None:
        """Commit what was handed out, unless `auto_commit` is off, and close the connections."""
        self._cursors.finish()
        self._reading.finish()
        await self._end()

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Read this member's share of a topic's queues: messages with one of the tags «a || b», or by `sql`.

        Several topics may be subscribed, before the start or after it. The group's other members must
        subscribe to the same.
        """
        self._reading.subscribe(topic, tags, sql, SystemClock().now_ms())

    def unsubscribe(self, topic: str) -> None:
        """Read a topic no more; what was pulled of it and not handed out is left to others."""
        self._reading.unsubscribe(topic)

    def assign(self, queues: Iterable[MessageQueue], *, tags: str = "*", sql: str | None = None) -> None:
        """Read these queues, in place of those assigned before; nobody shares them with us or knows of it."""
        self._reading.assign(queues, tags, sql)

    @property
    def subscription_conflict(self) -> str | None:
        """What brokers say when members of the group subscribe differently, and who; None if they agree.

        It is logged as well. Apache's brokers say nothing; `pyromq admin consumerStatus` finds out there.
        """
        return self._runner.session.subscription_conflict

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that are read: this member's share, or what was assigned."""
        return self._reading.assignment

    async def poll(self, timeout_ms: int = POLL_MS) -> list[ReceivedMessage]:
        """Return the next messages, of one queue; none when none came in time.

        What earlier polls returned counts as finished. Brokers that are away are tried again, and are no
        error; a filter or a group that every broker refuses is.
        """
        return [message for batch in await self._reading.take(timeout_ms) for message in batch.rest()]

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Iterate over what is subscribed or assigned, until the consumer is closed.

        Each message is finished when the next is asked for.
        """
        _ = self._runner.session
        while True:
            try:
                batches = await self._reading.take(ROUND_MS)
            except ClientClosed:
                if self._is_closed:
                    return
                raise
            for batch in batches:
                while (message := batch.next_message()) is not None:
                    yield message

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at an offset of a queue that is read; the next commit says so to the broker."""
        await self._reading.seek(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the first message that is still there."""
        await self._reading.seek(queue, None)

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with the messages that come from now on."""
        await self._reading.seek(queue, None, to_end=True)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Hand out nothing of these queues, and pull no more of them; they stay this consumer's."""
        self._reading.pause(queues, is_paused=True)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Go on with queues that were paused."""
        self._reading.pause(queues, is_paused=False)

    def on_queues_changed(self, topic: str, listener: QueuesChanged) -> None:
        """Have a listener called with a topic and its queues when they are others than before.

        The name server is asked every 30 s. A listener of `pyromq.aio` may be a coroutine function; one of
        `pyromq` is called on a thread of its own.
        """
        self._reading.listen(topic, listener)

    async def fetch_message_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that can be read, as a name server says now; none without a route."""
        return await self._runner.run(progress.fetch_queues(self._runner.session, topic, self._deadline()))

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
        sql: str | None = None,
        wait_ms: int = 0,
        timeout_ms: int | None = None,
    ) -> PullResult:
        """Return up to `count` messages of a queue from `offset` on, with one of the tags «a || b».

        Or those for which an expression of `sql` is true. With `wait_ms` the broker holds the question that
        long if there are none.
        """
        session = self._runner.session
        wanted = Wanted(queue, offset, count, tags, wait_ms, sql)
        return await self._runner.run(pull(session, wanted, pull_deadline(session, wait_ms, timeout_ms)))

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the offset that the group reads next, or None when it has not read the queue yet."""
        return await self._runner.run(progress.committed(self._runner.session, queue, self._deadline()))

    async def commit(self, queue: MessageQueue | None = None, offset: int | None = None) -> None:
        """Let brokers remember how far the group is: with all that was handed out by `poll` or iteration.

        A consumer that is broadcasting remembers it in its file.

        With a queue and an offset, that is what the group reads next of that queue: one past the last that is
        finished. Raises what went wrong with the first queue that could not be committed.
        """
        if queue is None or offset is None:
            if (queue is None) != (offset is None):
                raise ConfigError("commit a queue with its offset, or everything without either")
            self._cursors.finish()
            await self._runner.run(polling.commit_finished(self._runner.session, self._cursors))
            await self._reading.commit()
            return
        await self._runner.run(progress.commit(self._runner.session, queue, offset, self._deadline()))
        self._cursors.committed(queue, offset)
        self._reading.note_committed(queue, offset)

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

    async def offset_for_timestamp(self, queue: MessageQueue, at_ms: int) -> int:
        """Return the same as `offset_by_time`, under the name that RocketMQ has for it."""
        return await self.offset_by_time(queue, at_ms)

    async def poll_topic(
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
            await self._end()

    async def _end(self) -> None:
        self._is_closed = True
        await self._reading.stop()
        await self._runner.close(self._farewell)

    def _farewell(self, session: Session) -> Plan[None]:
        if self._auto_commit:
            yield from polling.commit_finished(session, self._cursors)
        yield from self._reading.farewell(session)

    async def _poll(self, wanted: TopicWanted, wait_ms: int) -> list[ReceivedMessage]:
        session = self._runner.session
        deadline = session.deadline(wait_ms, wait_ms)
        return await self._runner.run(polling.poll(session, self._start, self._cursors, wanted, deadline))

    def _deadline(self) -> Deadline:
        session = self._runner.session
        return session.deadline(None, session.settings.mq_client_api_timeout)
