"""A broker on a clock that is moved by hand, and members of a group that pop from it by its door."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kinds_stage import ManualStage, running_stage, settle

from pyromq.broker.pop.pop_asks import AckResult, PopAsk, Popped
from pyromq.broker.pop.pop_door import Pop
from pyromq.codes import ResponseCode
from pyromq.testing.waiting import aeventually
from pyromq.wire import properties as names
from pyromq.wire.receipt_handle import ReceiptHandle
from pyromq.wire.record import Record, decode_record

T = TypeVar("T")

GROUP, TOPIC = "readers", "orders"
RETRY = "%RETRY%readers_orders"
DEAD = "%DLQ%readers"
SECOND_MS = 1_000


@dataclass(frozen=True)
class PoppedMessage:
    """A message as a client gets it."""

    handle: ReceiptHandle
    record: Record
    attempt: int

    @property
    def body(self) -> bytes:
        return self.record.body

    @property
    def properties(self) -> dict[str, str]:
        return names.decode(self.record.properties)


async def answered(operation: Awaitable[T]) -> T:
    """Return what an operation is answered, when the answer leaves: with the end of the turn."""
    answer = await operation
    await settle()
    return answer


def messages_of(popped: Popped, broker_name: str = "broker-a") -> list[PoppedMessage]:
    """Return what a pop got as clients see it, with the handles that they make."""
    found: list[PoppedMessage] = []
    for part in popped.parts:
        rows = zip(part.offsets, part.positions, part.records, part.attempts, strict=True)
        for offset, position, data, attempt in rows:
            handle = ReceiptHandle(
                part.start_offset,
                popped.popped_at_ms,
                popped.invisible_ms,
                popped.revive_queue_id,
                part.mark,
                broker_name,
                part.queue_id,
                offset,
                position,
            )
            record = decode_record(data)
            assert (record.queue_offset, record.position, record.topic) == (offset, position, part.real_topic)
            found.append(PoppedMessage(handle, record, attempt))
    return found


class Member:
    """A member of a group."""

    def __init__(self, stage: ManualStage, group: str = GROUP, topic: str = TOPIC, **ask: Any) -> None:
        self.stage = stage
        self.group = group
        self.topic = topic
        self.ask = ask

    @property
    def pop_room(self) -> Pop:
        return self.stage.broker.pop

    async def try_pop(self, wait_ms: int = 0, **ask: Any) -> Popped:
        return await answered(
            self.pop_room.pop(PopAsk(self.group, self.topic, **{**self.ask, **ask}), wait_ms)
        )

    async def pop(self, wait_ms: int = 0, **ask: Any) -> list[PoppedMessage]:
        return messages_of(await self.try_pop(wait_ms, **ask))

    async def bodies(self, **ask: Any) -> list[bytes]:
        return [message.body for message in await self.pop(**ask)]

    async def hold(self, wait_ms: int = 20_000, **ask: Any) -> "asyncio.Task[list[PoppedMessage]]":
        """Begin to pop, and return when the broker holds it."""
        task = asyncio.get_running_loop().create_task(self.pop(wait_ms, **ask))
        await settle()
        assert not task.done()
        return task

    async def ack(self, *messages: PoppedMessage) -> Sequence[AckResult]:
        handles = [message.handle for message in messages]
        return await answered(self.pop_room.ack(self.group, self.topic, handles))

    async def ack_all(self, messages: Sequence[PoppedMessage]) -> None:
        assert set(await self.ack(*messages)) <= {AckResult.OK}

    async def change(self, message: PoppedMessage, invisible_ms: int) -> ReceiptHandle | AckResult:
        return await answered(self.pop_room.change(self.group, self.topic, message.handle, invisible_ms))

    async def changed(self, message: PoppedMessage, invisible_ms: int) -> PoppedMessage:
        handle = await self.change(message, invisible_ms)
        assert isinstance(handle, ReceiptHandle)
        return PoppedMessage(handle, message.record, message.attempt)

    async def bury(self, message: PoppedMessage) -> AckResult:
        return await answered(self.pop_room.bury(self.group, self.topic, message.handle))

    async def await_bodies(self, count: int, **ask: Any) -> list[bytes]:
        """Pop and acknowledge until there were so many."""
        bodies: list[bytes] = []

        async def enough() -> bool:
            messages = await self.pop(**ask)
            await self.ack_all(messages)
            bodies.extend(message.body for message in messages)
            return len(bodies) >= count

        await aeventually(enough, what=f"{count} messages are popped")
        return bodies


class PopStage(ManualStage):
    """A stage whose broker is popped from."""

    def member(self, group: str = GROUP, topic: str = TOPIC, **ask: Any) -> Member:
        return Member(self, group, topic, **ask)

    async def send(self, *bodies: bytes, topic: str = TOPIC, queue_id: int = 0, **properties: str) -> None:
        client = self.connect()
        for body in bodies:
            answer = await client.send(topic, body, queue_id=queue_id, properties=properties)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
        await client.close()

    async def pass_time(self, ms: int) -> None:
        """Move the clock, and let the broker do what is due."""
        self.clock.advance(ms)
        await settle()

    def progress(self, topic: str = TOPIC, queue_id: int = 0, group: str = GROUP) -> int | None:
        return self.broker.groups.offsets.progress(group, topic, queue_id)


@asynccontextmanager
async def pop_stage(folder: Path, **settings: Any) -> AsyncIterator[PopStage]:
    """Run a broker that is popped from."""
    async with running_stage(folder, make=PopStage, **settings) as stage:
        assert isinstance(stage, PopStage)
        yield stage
