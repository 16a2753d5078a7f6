"""Progress: offsets that are committed, read again, and reset; and the ends of queues that brokers tell."""

from pyromq.client.aio.admin import Admin
from pyromq.client.aio.pull_consumer import PullConsumer
from pyromq.client.plans.admin.offset_changes import Target, To
from pyromq.errors import PyroError
from pyromq.model import ConsumeFrom, MessageQueue, PullStatus
from pyromq.torture.workload.arrangement import PLAIN, PULLERS
from pyromq.torture.workload.scribe import Scribe, place_of, told
from pyromq.torture.workload.workload_plan import WorkloadKind

_RESET = 0.08
_FORGET = 0.2


class OffsetKeeper:
    """A client that pulls queues by itself and commits how far it is."""

    name = "puller"

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe

    async def main(self) -> None:
        """Pull and commit until the load ends."""
        scribe, settings = self._scribe, self._scribe.settings(self.name)
        address = scribe.stage.namesrv_address
        consumer = PullConsumer(
            PULLERS, address, settings, auto_commit=False, start_from=ConsumeFrom.FIRST_OFFSET
        )
        places: dict[MessageQueue, int] = {}
        async with consumer, Admin(address, settings) as admin:
            while await scribe.pause(WorkloadKind.OFFSETS):
                queue = scribe.chance.choice(scribe.queues[PLAIN])
                try:
                    if scribe.chance.random() < _RESET:
                        await self._reset(admin, queue)
                        places.pop(queue, None)
                    if queue not in places or scribe.chance.random() < _FORGET:
                        places[queue] = await self._read(consumer, queue)
                    places[queue] = await self._pull(consumer, queue, places[queue])
                except PyroError as error:
                    places.pop(queue, None)
                    scribe.history.note("pull_failed", self.name, error=told(error))
            await scribe.wait_for_end()

    async def _pull(self, consumer: PullConsumer, queue: MessageQueue, offset: int) -> int:
        scribe, history = self._scribe, self._scribe.history
        pulled = await consumer.pull(queue, offset, count=8)
        history.note("end", self.name, code="PULL_MESSAGE", place=place_of(queue), end=pulled.max_offset)
        if pulled.status is not PullStatus.FOUND:
            return offset if pulled.status is PullStatus.NO_NEW_MESSAGE else pulled.next_offset
        for message in pulled.messages:
            scribe.note_delivery(self.name, PULLERS, message)
        history.note("commit", self.name, group=PULLERS, place=place_of(queue), offset=pulled.next_offset)
        await consumer.commit(queue, pulled.next_offset)
        history.note("committed", self.name, group=PULLERS, place=place_of(queue), offset=pulled.next_offset)
        return pulled.next_offset

    async def _read(self, consumer: PullConsumer, queue: MessageQueue) -> int:
        offset = await consumer.committed(queue)
        self._scribe.history.note(
            "recorded",
            self.name,
            group=PULLERS,
            place=place_of(queue),
            offset=-1 if offset is None else offset,
        )
        return offset or 0

    async def _reset(self, admin: Admin, queue: MessageQueue) -> None:
        history = self._scribe.history
        history.note("reset", self.name, group=PULLERS, place=place_of(queue), offset=0)
        target = Target(To.FIRST)
        reset = await admin.reset_offsets(
            PULLERS, PLAIN, target, queues=[(queue.broker_name, queue.queue_id)]
        )
        for move in reset.moves:
            if move.failure is None:
                history.note(
                    "was_reset", self.name, group=PULLERS, place=place_of(move.queue), offset=move.after
                )


class Surveyor:
    """A client that asks for the ends of queues, by every code that tells them."""

    name = "surveyor"

    def __init__(self, scribe: Scribe, topics: list[str], groups: list[str]) -> None:
        self._scribe = scribe
        self._topics = topics
        self._groups = groups

    async def main(self) -> None:
        """Ask until the load ends."""
        scribe = self._scribe
        async with Admin(scribe.stage.namesrv_address, scribe.settings(self.name)) as admin:
            while await scribe.pause(WorkloadKind.ENDS):
                try:
                    await scribe.chance.choice((self._by_queue, self._by_topic, self._by_group))(admin)
                except PyroError as error:
                    scribe.history.note("ask_failed", self.name, error=told(error))
            await scribe.wait_for_end()

    async def _by_queue(self, admin: Admin) -> None:
        chance = self._scribe.chance
        queue = chance.choice(self._scribe.queues[chance.choice(self._topics)])
        self._note("GET_MAX_OFFSET", queue, await admin.max_offset(queue))

    async def _by_topic(self, admin: Admin) -> None:
        topic = self._scribe.chance.choice(self._topics)
        for queue, one in sorted((await admin.topic_status(topic)).items()):
            self._note("GET_TOPIC_STATS_INFO", queue, one.max_offset)

    async def _by_group(self, admin: Admin) -> None:
        progress = await admin.group_progress(self._scribe.chance.choice(self._groups))
        for queue, one in sorted(progress.queues.items()):
            self._note("GET_CONSUME_STATS", queue, one.broker_offset)

    def _note(self, code: str, queue: MessageQueue, end: int) -> None:
        self._scribe.history.note("end", self.name, code=code, place=place_of(queue), end=end)
