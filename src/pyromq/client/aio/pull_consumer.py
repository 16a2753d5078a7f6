"""The awaitable pull consumer."""

from collections.abc import AsyncIterator
from functools import partial
from types import TracebackType

from pyromq.client.aio.awaitable_face import AwaitableFace
from pyromq.client.consumer.poll_outlet import PollOutlet
from pyromq.client.consumer.pull_terms import PullTerms
from pyromq.client.operations.pull_operations import ROUND_MS, PullOperations, Work
from pyromq.client.plans import polling
from pyromq.client.steps import Plan, awaited
from pyromq.errors import ClientClosed
from pyromq.model import ReceivedMessage


class PullConsumer(PullOperations, AwaitableFace):
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

    async def start(self) -> None:
        """Begin; an `async with` block does it."""
        await self._engine.start()

    async def close(self) -> None:
        """Commit what was handed out, unless `auto_commit` is off, and close the connections."""
        self._polls.finish()
        await self._end(is_finished=True)

    @property
    def subscription_conflict(self) -> str | None:
        """The conflict that brokers report when members subscribe differently, and who; None if they agree.

        It is logged as well. Apache's brokers say nothing; `pyromq admin consumerStatus` finds out there.
        """
        return self._conflict()

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Iterate over what is subscribed or assigned, until the consumer is closed.

        Each message is finished when the next is asked for.
        """
        _ = self._runner.session
        while True:
            try:
                batches = await self._engine.take(ROUND_MS)
            except ClientClosed:
                if self._is_closed:
                    return
                raise
            for batch in batches:
                while (message := batch.next_message()) is not None:
                    yield message

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
        else:
            # What was handed out last may be unfinished: only what is surely finished is committed.
            await self._end(is_finished=False)

    async def _end(self, *, is_finished: bool) -> None:
        self._is_closed = True
        farewell = partial(polling.last_commit, polls=self._polls)
        await self._engine.end(is_finished=is_finished, farewell=farewell)

    def _set_engine(self, terms: PullTerms) -> None:
        self._engine = PollOutlet(terms)
        self._runner = self._engine.runner

    def _on_engine(self, work: Work[None]) -> Plan[None]:
        return awaited(partial(work, self._engine))
