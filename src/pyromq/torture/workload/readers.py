"""Consumers that are to see everything: push and lite pull, concurrent and in order, with tags and SQL."""

from collections.abc import Awaitable, Callable

from pyromq.client.aio.pull_consumer import PullConsumer
from pyromq.client.aio.push_consumer import PushConsumer
from pyromq.model import ConsumeFrom, ReceivedMessage
from pyromq.torture.workload.arrangement import (
    CHOSEN,
    DELAYED,
    LARGE,
    ORDERED,
    ORDERLY,
    PAID,
    PLAIN,
    READERS,
    STAGED,
    TAGGED,
    TIMED,
)
from pyromq.torture.workload.scribe import Scribe
from pyromq.torture.workload.workload_plan import WorkloadKind

#: The topics that a kind sends to, for the group that reads them all.
READ_TOPICS = {
    PLAIN: (WorkloadKind.PLAIN, WorkloadKind.BATCH, WorkloadKind.COMPRESSED, WorkloadKind.FILTERED),
    LARGE: (WorkloadKind.LARGE,),
    DELAYED: (WorkloadKind.DELAYED,),
    TIMED: (WorkloadKind.TIMED,),
    PAID: (WorkloadKind.TRANSACTION,),
    STAGED: (WorkloadKind.STAGED,),
}
_POLL_MS = 1_000
#: Messages heavier than this are chosen by SQL.
WEIGHT = 5
TAGS = ("a", "b")


def note_subscription(scribe: Scribe, group: str, topic: str, **filters: list[str] | int | None) -> None:
    """Write down what a group is to get: the tags, or the weight above which SQL takes a message."""
    tags, above = filters.get("tags"), filters.get("above")
    scribe.history.note("subscribe", group, group=group, topic=topic, tags=tags, above=above)  # type: ignore[arg-type]


def push_consumer(
    scribe: Scribe,
    name: str,
    group: str,
    listener: Callable[[ReceivedMessage], Awaitable[object]],
    *,
    order: str = "concurrent",
    tries_max: int = -1,
) -> PushConsumer:
    """Return a push consumer that begins at the first message."""
    return PushConsumer(
        group,
        scribe.stage.namesrv_address,
        listener=listener,
        order=order,
        settings=scribe.settings(name, max_reconsume_times=tries_max),
        consume_from=ConsumeFrom.FIRST_OFFSET,
    )


class PushReader:
    """A push consumer of most topics."""

    name = "reader"

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe
        self.topics = [topic for topic, kinds in READ_TOPICS.items() if scribe.plan.has(*kinds)]
        for topic in self.topics:
            note_subscription(scribe, READERS, topic)

    async def main(self) -> None:
        """Read until the run is over."""
        async with push_consumer(self._scribe, self.name, READERS, self._listen) as consumer:
            for topic in self.topics:
                consumer.subscribe(topic)
            await self._scribe.wait_for_end()

    async def _listen(self, message: ReceivedMessage) -> None:
        self._scribe.note_delivery(self.name, READERS, message)


class OrderlyReader:
    """A push consumer that reads queues in order; some messages fail once, and hold their queue up."""

    name = "orderly"

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe
        self._failed: dict[str, None] = {}
        note_subscription(scribe, ORDERLY, ORDERED)

    async def main(self) -> None:
        """Read until the run is over."""
        consumer = push_consumer(self._scribe, self.name, ORDERLY, self._listen, order="orderly")
        async with consumer:
            consumer.subscribe(ORDERED)
            await self._scribe.wait_for_end()

    async def _listen(self, message: ReceivedMessage) -> bool:
        # By its id, which does not depend on how often it was delivered.
        is_done = message.queue_offset % 7 != 3 or message.message_id in self._failed
        self._failed[message.message_id] = None
        self._scribe.note_delivery(self.name, ORDERLY, message, is_done=is_done)
        return is_done


class TagReader:
    """A lite pull consumer that takes some tags."""

    name = "tagged"

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe
        note_subscription(scribe, TAGGED, PLAIN, tags=list(TAGS))

    async def main(self) -> None:
        """Read until the run is over."""
        scribe = self._scribe
        consumer = PullConsumer(
            TAGGED,
            scribe.stage.namesrv_address,
            scribe.settings(self.name),
            start_from=ConsumeFrom.FIRST_OFFSET,
        )
        async with consumer:
            consumer.subscribe(PLAIN, " || ".join(TAGS))
            while not scribe.is_over:
                for message in await consumer.poll(_POLL_MS):
                    scribe.note_delivery(self.name, TAGGED, message)


class SqlReader:
    """A push consumer that takes what an expression of SQL takes."""

    name = "chosen"

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe
        note_subscription(scribe, CHOSEN, PLAIN, above=WEIGHT)

    async def main(self) -> None:
        """Read until the run is over."""
        async with push_consumer(self._scribe, self.name, CHOSEN, self._listen) as consumer:
            consumer.subscribe(PLAIN, sql=f"weight > {WEIGHT}")
            await self._scribe.wait_for_end()

    async def _listen(self, message: ReceivedMessage) -> None:
        self._scribe.note_delivery(self.name, CHOSEN, message)
