"""A story of staged batches on one broker, and what the writer does after a crash: it writes the batch again.

The story runs on a broker in this process whose disk remembers all that was done to it; which batches are
known to be published stands in the disk's journal as marks. `begin_again` does what Spark does on whatever a
crash at any moment leaves: the batch that is not known to be published is written once more, under the same
number and in new attempts.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from kinds_stage import Peer, running_stage
from staged_batches import units

from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.choices import FlushDiskType
from pyromq.testing.disk import SimulatedDisk
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.bodies.staging_bodies import PartChunks, StagedBody, encode_staged
from pyromq.wire.command import Command
from pyromq.wire.header import read_header
from pyromq.wire.headers.staging_headers import BatchState, StagedAnswer

ROOT = Path("/store")
QUERY, BROKER, TOPIC = "q", "broker-a", "orders"
QUEUES, BATCHES = 2, 3
SETTINGS: dict[str, object] = {
    "mapped_file_size_commit_log": 8192,
    "mapped_file_size_consume_queue": 400,
    "max_hash_slot_num": 20,
    "max_index_num": 40,
}


@dataclass
class Writer:
    """Writes batches of two parts with three chunks each, in frames."""

    client: Peer
    #: Two writers never have the same attempts.
    name: str = "first"
    _attempts: "count[int]" = field(default_factory=count)

    async def open(self, batch: int) -> StagedAnswer:
        """Begin a batch, or join it."""
        body = encode_staged(StagedBody(layout={TOPIC: {BROKER: QUEUES}}))
        return read_header(StagedAnswer, (await self._ask(RequestCode.OPEN_STAGED_BATCH, batch, body)).ext)

    async def stage(self, batch: int, part: int, chunks: int = 3) -> PartChunks:
        """Stage chunks of a part in a new attempt."""
        attempt = f"{self.name}-{next(self._attempts)}"
        for sequence in range(chunks):
            fields: dict[str, object] = {
                "part": part,
                "attempt": attempt,
                "sequence": sequence,
                "topic": TOPIC,
                "queueId": sequence % QUEUES,
                "bornTimestamp": 1,
            }
            await self._ask(RequestCode.STAGE_MESSAGES, batch, units(_ids(batch, part, sequence)), fields)
        return PartChunks(part=part, attempt=attempt, chunks={BROKER: chunks})

    async def publish(self, batch: int, parts: list[PartChunks]) -> None:
        """Publish parts, or whatever was decided."""
        body = encode_staged(StagedBody(parts=parts))
        answer = await self._ask(RequestCode.PUBLISH_STAGED, batch, body)
        assert read_header(StagedAnswer, answer.ext).state is BatchState.PUBLISHED

    async def abort(self, batch: int, parts: list[PartChunks]) -> None:
        """Give attempts up."""
        await self._ask(RequestCode.ABORT_STAGED, batch, encode_staged(StagedBody(parts=parts)))

    async def write(self, batch: int) -> None:
        """Write a batch, whatever became of it before."""
        opened = await self.open(batch)
        parts = []
        if opened.state is BatchState.OPEN:
            parts = [await self.stage(batch, part) for part in range(2)]
        await self.publish(batch, parts)

    async def _ask(
        self, code: int, batch: int, body: bytes, more: dict[str, object] | None = None
    ) -> Command:
        fields = {"query": QUERY, "batch": batch, "home": BROKER, **(more or {})}
        answer = await self.client.request(code, fields, body=body)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer


def _ids(batch: int, part: int, sequence: int) -> list[str]:
    return [f"{batch}-{part}-{sequence}-{row}" for row in range(3)]


def ids_of(batches: int) -> "Counter[str]":
    """Return the ids of the first batches, each once."""
    return Counter(
        [
            one
            for batch in range(batches)
            for part in range(2)
            for sequence in range(3)
            for one in _ids(batch, part, sequence)
        ]
    )


async def readable(client: Peer) -> "Counter[str]":
    """Return how often each message can be read, by its body."""
    found: Counter[str] = Counter()
    for queue_id in range(QUEUES):
        offset = 0
        while records := await client.stored(TOPIC, queue_id, offset):
            found.update(record.body.decode() for record in records)
            offset += len(records)
    return found


async def told(flush: FlushDiskType) -> tuple[SimulatedDisk, int]:
    """Tell the story, and return the disk that remembers it, and when it ended."""
    disk = SimulatedDisk(boot_id="the boot of the story")
    async with running_stage(ROOT, files=disk, flush_disk_type=flush, **SETTINGS) as stage:
        disk.mark(0)
        writer = Writer(stage.connect())
        await writer.open(0)
        await writer.stage(0, 0, chunks=2)
        parts = [await writer.stage(0, part) for part in range(2)]
        await writer.publish(0, parts)
        disk.mark(1)
        # The table of staged batches is written.
        stage.clock.advance(5_000)
        await writer.open(1)
        await writer.abort(1, [await writer.stage(1, 0)])
        await writer.write(1)
        disk.mark(2)
        await writer.open(2)
        await writer.stage(2, 1)
        remembered = SimulatedDisk(boot_id=disk.boot_id())
        remembered.journal = list(disk.journal)
        return remembered, stage.clock.now_ms()


async def begin_again(disk: SimulatedDisk, published: int, now_ms: int, what: str) -> None:
    """Start a broker on what a crash left; the writer knows that so many batches are published."""
    async with running_stage(ROOT, clock=ManualClock(now_ms), files=disk, **SETTINGS) as stage:
        client = stage.connect()
        writer = Writer(client, name="second")
        before = await readable(client)
        assert before >= ids_of(published), f"lost: {ids_of(published) - before}; {what}"
        for batch in range(published, BATCHES):
            await writer.write(batch)
        after = await readable(client)
        assert after == ids_of(BATCHES), (
            f"lost {ids_of(BATCHES) - after}, twice {after - ids_of(BATCHES)}; {what}"
        )


def batches_of(story: list[object]) -> int:
    """Return how many batches were known to be published, by the last mark."""
    last = story[-1]
    assert isinstance(last, int)
    return last
