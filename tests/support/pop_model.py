"""What a group may see of a topic that it pops, and random members that hold a broker to it.

    acknowledged or buried      never comes again
    in flight                   comes to nobody else before its time is up; then, once, with one attempt more
    neither                     comes

A crash may fall into an operation: what was asked for then, and not answered, may have happened or not. After
a power cut under synchronous flush the same holds for pops, which do not wait for the disk.
"""

import copy
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from kinds_stage import settle
from pop_stage import DEAD, GROUP, Member, PoppedMessage, PopStage, messages_of, pop_stage

from pyromq.broker.pop.pop_asks import AckResult
from pyromq.config.choices import FlushDiskType
from pyromq.testing.disk import SimulatedDisk
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.receipt_handle import ReceiptHandle
from pyromq.wire.record import Record

ROOT = Path("/store")
QUEUES = 3
#: Later than any visible time of a story.
LONG_MS = 61_000
SETTINGS: dict[str, object] = {
    "mapped_file_size_commit_log": 16_384,
    "mapped_file_size_consume_queue": 400,
    "max_hash_slot_num": 20,
    "max_index_num": 100,
}


@dataclass
class Flight:
    """The last delivery of a message, as its member knows it."""

    message: PoppedMessage
    visible_at_ms: int
    #: Whether the member got it: what was given back, nobody can acknowledge.
    is_known: bool = True


@dataclass
class Model:
    """What was answered so far, by the bodies of messages."""

    now_ms: int = 0
    sent: set[bytes] = field(default_factory=set)
    ended: set[bytes] = field(default_factory=set)
    dead: set[bytes] = field(default_factory=set)
    flights: dict[bytes, Flight] = field(default_factory=dict)
    attempts: dict[bytes, int] = field(default_factory=dict)
    #: What was asked for and is not answered: it may be, or not.
    asked: set[bytes] = field(default_factory=set)
    #: Whether deliveries may have been forgotten.
    is_vague: bool = False

    def delivered(self, message: PoppedMessage, now_ms: int, invisible_ms: int) -> None:
        """Check a delivery, and know of it."""
        body = message.body
        assert body in self.sent | self.asked, f"{body!r} was never sent"
        assert body not in self.ended, f"{body!r} was finished and came again"
        flight = self.flights.get(body)
        if flight is not None and not self.is_vague:
            assert flight.visible_at_ms <= now_ms, f"{body!r} came while it was in flight"
        expected = self.attempts.get(body, 0) + 1
        if self.is_vague or body in self.asked:
            assert 1 <= message.attempt <= expected + 1
        else:
            assert message.attempt == expected, f"{body!r}: {message.attempt} and not {expected}"
        self.attempts[body] = message.attempt
        self.flights[body] = Flight(message, now_ms + invisible_ms)

    def crashed(self, *, is_power_cut: bool) -> None:
        """Know less: what was under way may have happened."""
        self.is_vague = self.is_vague or is_power_cut


class Chaos:
    """Members that do random things, and note on the disk what they were answered."""

    def __init__(
        self, stage: PopStage, disk: SimulatedDisk, chance: Random, model: Model | None = None
    ) -> None:
        self.stage = stage
        self.disk = disk
        self.chance = chance
        self.model = model or Model()
        self.member = Member(stage)
        self._count = len(self.model.sent)

    async def step(self) -> None:
        """Do one thing."""
        steps = [self._send, self._send, self._pop, self._pop, self._pop, self._ack, self._ack, self._ack]
        steps += [self._change, self._give_back, self._bury, self._pass_time, self._pass_time]
        await self.chance.choice(steps)()
        self._note()

    def _note(self, *asked: bytes) -> None:
        self.model.asked = set(asked)
        self.model.now_ms = self.stage.clock.now_ms()
        self.disk.mark(copy.deepcopy(self.model))

    async def _send(self) -> None:
        bodies = [b"%05d" % (self._count + number) for number in range(self.chance.randrange(1, 4))]
        self._count += len(bodies)
        self._note(*bodies)
        for body in bodies:
            await self.stage.send(body, queue_id=self.chance.randrange(QUEUES))
        self.model.sent.update(bodies)

    async def _pop(self) -> None:
        invisible_ms = self.chance.choice([1_000, 5_000, 60_000])
        self._note(*(self.model.sent - self.model.ended))
        messages = await self.member.pop(
            count_max=self.chance.choice([1, 2, 8, 32]), invisible_ms=invisible_ms
        )
        self.model.asked = set()
        for message in messages:
            self.model.delivered(message, self.stage.clock.now_ms(), invisible_ms)

    def _some_flights(self, count: int) -> list[tuple[bytes, Flight]]:
        flights = [
            (body, one)
            for body, one in self.model.flights.items()
            if one.is_known and body not in self.model.ended
        ]
        return self.chance.sample(flights, min(count, len(flights)))

    def _is_sure(self, flight: Flight) -> bool:
        return flight.visible_at_ms > self.stage.clock.now_ms() and not self.model.is_vague

    async def _ack(self) -> None:
        flights = self._some_flights(self.chance.randrange(1, 6))
        if not flights:
            return
        self._note(*(body for body, _ in flights))
        results = await self.member.ack(*(flight.message for _, flight in flights))
        for (body, flight), result in zip(flights, results, strict=True):
            assert result is AckResult.OK or not self._is_sure(flight), f"{body!r}: {result}"
            if result is AckResult.OK and (flight.visible_at_ms > self.stage.clock.now_ms()):
                self.model.ended.add(body)
            elif result is AckResult.OK:
                raise AssertionError(f"{body!r} was acknowledged after its time")

    async def _change(self) -> None:
        for body, flight in self._some_flights(1):
            invisible_ms = self.chance.choice([0, 3_000, 20_000])
            self._note(body)
            handle = await self.member.change(flight.message, invisible_ms)
            assert isinstance(handle, ReceiptHandle) or not self._is_sure(flight), f"{body!r}: {handle}"
            if isinstance(handle, ReceiptHandle):
                flight.message = PoppedMessage(handle, flight.message.record, flight.message.attempt)
                flight.visible_at_ms = handle.visible_at_ms

    async def _give_back(self) -> None:
        ask = self.member
        invisible_ms = 60_000
        self._note(*(self.model.sent - self.model.ended))
        popped = await ask.try_pop(count_max=2, invisible_ms=invisible_ms)
        self.stage.broker.pop.give_back(popped, GROUP)
        await settle()
        self.model.asked = set()
        for message in messages_of(popped):
            self.model.delivered(message, self.stage.clock.now_ms(), 1_000)
            self.model.flights[message.body].is_known = False

    async def _bury(self) -> None:
        if self.chance.random() < 0.5:
            return
        for body, flight in self._some_flights(1):
            self._note(body)
            result = await self.member.bury(flight.message)
            assert result is AckResult.OK or not self._is_sure(flight), f"{body!r}: {result}"
            if result is AckResult.OK:
                self.model.ended.add(body)
                self.model.dead.add(body)

    async def _pass_time(self) -> None:
        await self.stage.pass_time(self.chance.choice([100, 1_000, 1_000, 5_000, 30_000]))

    # In the end

    async def finish(self) -> None:
        """Let all come that has to, and check that nothing else does."""
        await finish(self.stage, self.model)


async def finish(stage: PopStage, model: Model) -> None:
    """Pop and acknowledge until nothing comes any more; check what came against the promises."""
    member = Member(stage)
    came: Counter[bytes] = Counter()
    idle = 0
    while idle < 2:
        await stage.pass_time(LONG_MS)
        # Under synchronous flush, what came again is seen once the disk has it.
        await stage.broker.durability.sync_now()
        await settle()
        found = 0
        while messages := await member.pop():
            for message in messages:
                assert message.body not in model.ended, f"{message.body!r} was finished and came again"
            came.update(message.body for message in messages)
            await member.ack_all(messages)
            found += len(messages)
        idle = 0 if found else idle + 1
    dead = Counter(record.body for record in await all_dead(stage))
    twice = [body for body, count in came.items() if count > 1]
    assert not twice, f"came twice: {twice}"
    assert max(dead.values(), default=1) == 1, f"dead twice: {dead}"
    assert model.dead <= dead.keys() <= model.dead | model.asked
    missing = model.sent - model.ended - came.keys() - model.asked
    assert not missing, f"never came: {sorted(missing)}"
    assert came.keys() <= model.sent | model.asked
    gone = model.asked & model.sent - model.ended - came.keys() - dead.keys()
    # An operation that was under way may have finished what it was about, and nothing else.
    assert not gone or model.asked, gone
    assert stage.broker.pop.in_flight_count == 0
    for queue_id in range(QUEUES):
        end = stage.stored_end("orders", queue_id)
        assert (stage.progress(queue_id=queue_id) or 0) == end


async def all_dead(stage: PopStage) -> list[Record]:
    """Return the group's dead letters."""
    client = stage.connect()
    records: list[Record] = []
    while more := await client.stored(DEAD, 0, len(records)):
        records += more
    return records


@asynccontextmanager
async def popped_on(
    disk: SimulatedDisk, clock: ManualClock | None = None, flush: FlushDiskType = FlushDiskType.ASYNC_FLUSH
) -> AsyncIterator[PopStage]:
    """Run a broker on a simulated disk."""
    async with pop_stage(ROOT, clock=clock, files=disk, flush_disk_type=flush, **SETTINGS) as stage:
        yield stage
