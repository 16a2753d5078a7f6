"""The blocking pull consumer."""

from collections.abc import Iterator
from functools import partial
from types import TracebackType
from typing import Final

from pyromq.client.consumer.pull_terms import PullTerms
from pyromq.client.operations.pull_operations import ROUND_MS, PullOperations, Work
from pyromq.client.plans import polling
from pyromq.client.plans.presence_plans import keep_routes_fresh
from pyromq.client.steps import Plan, compute
from pyromq.client.sync.blocking_face import BlockingFace
from pyromq.client.sync.hosted_engine import HostedOutlet
from pyromq.errors import ClientClosed
from pyromq.model import ReceivedMessage

#: Batches that an iteration takes at once: each time costs a turn of the engine's thread.
BATCHES_MAX: Final = 32


class PullConsumer(PullOperations, BlockingFace):
    """Takes messages when it is asked to.

        with PullConsumer("billing", name_server="127.0.0.1:9876") as consumer:
            consumer.subscribe("orders", "paid || refunded")
            for message in consumer:
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

    `start_from` says where the group begins in a queue that it never read. Use one consumer in one thread.
    """

    def start(self) -> None:
        """Begin; a `with` block does it."""
        self._runner.start()
        self._engine.start()

    def close(self) -> None:
        """Commit what was handed out, unless `auto_commit` is off, and close the connections."""
        self._polls.finish()
        self._end(is_finished=True)

    @property
    def subscription_conflict(self) -> str | None:
        """The conflict that brokers report when members subscribe differently, and who; None if they agree.

        It is logged as well. Apache's brokers say nothing; `pyromq admin consumerStatus` finds out there.
        """
        return self._conflict()

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Iterate over what is subscribed or assigned, until the consumer is closed.

        Each message is finished when the next is asked for.
        """
        _ = self._runner.session
        while True:
            try:
                batches = self._engine.run(lambda outlet: outlet.take(ROUND_MS, BATCHES_MAX))
            except ClientClosed:
                if self._is_closed:
                    return
                raise
            for batch in batches:
                while (message := batch.next_message()) is not None:
                    yield message

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            # What was handed out last may be unfinished: only what is surely finished is committed.
            self._end(is_finished=False)

    def _end(self, *, is_finished: bool) -> None:
        self._is_closed = True
        self._engine.close(lambda outlet: outlet.end(is_finished=is_finished))
        self._runner.close(partial(polling.last_commit, polls=self._polls))

    def _set_engine(self, terms: PullTerms) -> None:
        self._set_runner(terms.name, terms.new_session, keep_routes_fresh)
        self._engine = HostedOutlet(terms)

    def _on_engine(self, work: Work[None]) -> Plan[None]:
        if self._engine.is_running:
            yield from compute(partial(self._engine.run, work))
