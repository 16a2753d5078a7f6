"""A power cut under a whole broker: the log and the tables come back together, and fit.

The disk keeps any part of what was not synced (`pyromq.testing.disk`). The broker runs in this process; at
random moments, with requests under way, the disk is copied as a power cut might leave it, and another broker
is started on the copy.
"""

import asyncio
import copy
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from kinds_stage import ManualStage, Peer, running_stage

from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.choices import FlushDiskType
from pyromq.testing.disk import SimulatedDisk
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.wire.bodies.offset_bodies import decode_group_offsets
from pyromq.wire.bodies.topic_bodies import decode_topic_table
from pyromq.wire.record import Record

ROOT = Path("/store")
QUEUES = [("orders", 0), ("orders", 1), ("other", 0)]
DEAD = ("%DLQ%readers", 0)
Queue = tuple[str, int]


@dataclass
class Promised:
    """What the broker said so far."""

    bodies: dict[Queue, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    topics: set[str] = field(default_factory=set)
    #: Messages that are due in «later» when their time has come, and those that were given up.
    delayed: set[bytes] = field(default_factory=set)
    dead: set[bytes] = field(default_factory=set)
    progress: dict[Queue, int] = field(default_factory=lambda: defaultdict(int))


class Work:
    """Requests as the chance has them, and what came of them."""

    def __init__(self, stage: ManualStage, chance: Random) -> None:
        self.stage = stage
        self.chance = chance
        self.promised = Promised()
        self._count = 0

    async def turn(self) -> None:
        """Do several things at once."""
        steps = [self._send, self._send, self._send, self._send_later, self._bury]
        steps += [self._commit, self._make_topic, self._auto_create]
        await asyncio.gather(*[self.chance.choice(steps)() for _ in range(self.chance.randrange(1, 8))])
        if self.chance.random() < 0.3:
            # The progress is saved every five seconds, and the queues are synced after sixty.
            self.stage.clock.advance(self.chance.choice([500, 5_000, 60_000]))

    async def _send(self, queue: Queue | None = None) -> None:
        self._count += 1
        topic, queue_id = queue or self.chance.choice(QUEUES)
        body = b"%08d" % self._count + self.chance.randbytes(self.chance.choice([0, 50, 700, 3000]))
        answer = await self.client.send(topic, body, queue_id=queue_id, properties={"KEYS": "k"})
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        self.promised.bodies[topic, queue_id][int((answer.ext or {})["queueOffset"])] = body
        self.promised.topics.add(topic)

    async def _send_later(self) -> None:
        self._count += 1
        body = b"%08d" % self._count
        answer = await self.client.send("later", body, properties={"DELAY": "1"})
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        self.promised.delayed.add(body)

    async def _bury(self) -> None:
        """Give a message up that was read."""
        records = await self.client.stored(*self.chance.choice(QUEUES))
        if records:
            record = self.chance.choice(records)
            fields = {"offset": record.position, "group": "readers", "delayLevel": -1}
            answer = await self.client.request(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            self.promised.dead.add(record.body)
            self.promised.topics.add(DEAD[0])

    async def _auto_create(self) -> None:
        await self._send((f"auto-{self._count}", 0))

    async def _make_topic(self) -> None:
        self._count += 1
        topic = f"made-{self._count}"
        fields = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": 2,
            "writeQueueNums": 2,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
        }
        answer = await self.client.request(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        self.promised.topics.add(topic)

    async def _commit(self) -> None:
        topic, queue_id = queue = self.chance.choice(QUEUES)
        offset = max(self.promised.bodies[queue], default=-1) + 1
        self.promised.progress[queue] = max(offset, self.promised.progress[queue])
        fields = {"consumerGroup": "readers", "topic": topic, "queueId": queue_id, "commitOffset": offset}
        await self.client.request(RequestCode.UPDATE_CONSUMER_OFFSET, fields)

    @property
    def client(self) -> Peer:
        return self._client

    async def run_and_cut(
        self, disk: SimulatedDisk, turns: int
    ) -> AsyncIterator[tuple[SimulatedDisk, Promised]]:
        """Work on, and yield what a power cut in the middle of each turn leaves, with the promises so far."""
        self._client = self.stage.connect()
        for _ in range(turns):
            turn = asyncio.ensure_future(self.turn())
            for _ in range(self.chance.randrange(12)):
                await asyncio.sleep(0)
            promised = copy.deepcopy(self.promised)
            yield disk.after_power_cut(self.chance), promised
            await turn


@asynccontextmanager
async def broker_on(
    disk: SimulatedDisk, flush: FlushDiskType, clock: ManualClock | None = None
) -> AsyncIterator[ManualStage]:
    small = {
        "mapped_file_size_commit_log": 16384,
        "mapped_file_size_consume_queue": 400,
        "max_index_num": 100,
    }
    async with running_stage(
        ROOT, clock=clock, files=disk, flush_disk_type=flush, max_hash_slot_num=20, **small
    ) as stage:
        yield stage


async def all_of(client: Peer, queue: Queue) -> list[Record]:
    records: list[Record] = []
    while more := await client.stored(*queue, offset=len(records)):
        records += more
    return records


async def has_all(client: Peer, queue: Queue, bodies: set[bytes]) -> bool:
    return not bodies or bodies <= {record.body for record in await all_of(client, queue)}


async def check(survivor: ManualStage, promised: Promised, *, is_synchronous: bool) -> None:
    client = survivor.connect()
    topics = decode_topic_table((await client.request(RequestCode.GET_ALL_TOPIC_CONFIG)).body)
    # A topic is on disk before anybody is told of it, whichever flush.
    assert promised.topics <= set(topics.topic_config_table)
    progress = decode_group_offsets((await client.request(RequestCode.GET_ALL_CONSUMER_OFFSET)).body)
    for queue in sorted({*QUEUES, *promised.bodies}):
        if queue[0] not in topics.topic_config_table:
            continue
        records = await all_of(client, queue)
        assert [record.queue_offset for record in records] == list(range(len(records)))
        there = {record.queue_offset: record.body for record in records}
        if is_synchronous:
            assert promised.bodies[queue].items() <= there.items()
        offset = progress.get(f"{queue[0]}@readers", {}).get(queue[1], 0)
        assert offset <= promised.progress[queue]
        # Otherwise the group would pass over the next messages, which get these offsets.
        assert offset <= len(records)
    if is_synchronous:
        assert promised.dead <= {record.body for record in await all_of(client, DEAD)}
        survivor.clock.advance(1_000)
        await aeventually(lambda: has_all(client, ("later", 0), promised.delayed))
    answer = await client.send("orders", b"again")
    assert answer.code == ResponseCode.SUCCESS, answer.remark


async def cut_often(seed: int, flush: FlushDiskType, turns: int) -> None:
    """Cut the power in the middle of so many turns of work, and see each time what is left."""
    disk = SimulatedDisk()
    async with broker_on(disk, flush) as stage:
        work = Work(stage, Random(seed))
        async for survivor, promised in work.run_and_cut(disk, turns):
            async with broker_on(survivor, flush, ManualClock(stage.clock.now_ms())) as second:
                await check(second, promised, is_synchronous=flush == FlushDiskType.SYNC_FLUSH)
