"""The limits of a broker's links when many connections send in one turn of the loop.

Connections are played with transports of the test's own, so what arrives in one turn is exactly what the test
lets arrive between two awaits. The broker, its turn, its routes and its store are the real ones.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from kinds_stage import ManualStage, running_stage
from room_transport import RoomTransport
from staged_files import StagedFiles

from pyromq.codes import ResponseCode
from pyromq.config.settings import MIB
from pyromq.kernel import IS_COMPILED
from pyromq.net.inlet import NOTED_BYTES_MAX, TURN_BYTES_MAX
from pyromq.net.link import Link
from pyromq.net.routes import Dispatcher
from pyromq.store.reading import GetStatus
from pyromq.testing.requests import send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.wire.command import Command, encode
from pyromq.wire.record import iter_records

SEND = 310
SUCCESS, BUSY = ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY
TOPIC = "orders"
MANY = 64
#: A plan of so many bytes of records is long enough (`PLAN_BYTES_MAX` in sends.pyx).
PLAN_BYTES = MIB


class Sender:
    """A connection whose other end is the test."""

    def __init__(self, crowd: "Crowd", number: int) -> None:
        net = crowd.stage.broker.settings.net
        self.number = number
        self.transport = RoomTransport()
        self.sent = 0
        self.link = Link(
            net,
            turn=crowd.stage.broker._turn,
            clock=crowd.stage.clock,
            on_request=Dispatcher(
                crowd.stage.broker._table,
                name="many",
                requests_under_way_max=net.requests_under_way_max,
            ),
            on_end=lambda _link: None,
        )
        self.transport.protocol = self.link
        self.link.connection_made(self.transport)

    def frame(self, body: bytes) -> bytes:
        self.sent += 1
        return encode(Command(SEND, opaque=self.sent, ext=_texts(send_v2_fields(TOPIC)), body=body))

    def send(self, body: bytes, *, at_once: int = 1 << 30) -> None:
        """Let a send arrive now, in pieces of so many bytes."""
        frame = self.frame(body)
        for start in range(0, len(frame), at_once):
            self.transport.send(frame[start : start + at_once])

    def codes(self) -> list[int]:
        """Take all that was written; return the codes of all answers so far, which must be in order."""
        self.transport.take(1 << 30)
        answers = self.transport.commands()
        assert [answer.opaque for answer in answers] == list(range(1, len(answers) + 1))
        return [answer.code for answer in answers]


class Crowd:
    """A broker whose kernel knows the topic, and connections to it."""

    def __init__(self, stage: ManualStage) -> None:
        self.stage = stage
        self.senders: list[Sender] = []

    async def join(self, count: int) -> list[Sender]:
        """Return new connections on each of which something was received before."""
        new = [Sender(self, len(self.senders) + number) for number in range(count)]
        self.senders += new
        for _ in range(2):
            for sender in new:
                sender.send(b"before")
            await self.until(lambda: all(len(sender.codes()) == sender.sent for sender in new))
            # The kernel learns the topic from the first message after that.
            await self.until(lambda: self.stage.broker.topics.has_saved(TOPIC))
        return new

    async def until(self, is_so: Callable[[], bool]) -> None:
        await aeventually(is_so, what="the broker has answered")

    def bodies(self) -> list[bytes]:
        """Return what was stored, apart from what was sent before, in its order."""
        store, found, offset = self.stage.broker.store, list[bytes](), 0
        while (got := store.get(TOPIC, 0, offset, count_max=32)).status is GetStatus.FOUND:
            found += [record.body for record in iter_records(got.body)]
            offset = got.next_offset
        return [body for body in found if body != b"before"]


def _texts(fields: dict[str, object]) -> dict[str, str]:
    return {name: str(value).lower() if value is False else str(value) for name, value in fields.items()}


@asynccontextmanager
async def crowd_at(folder: Path, **settings: object) -> AsyncIterator[Crowd]:
    async with running_stage(folder, mapped_file_size_commit_log=64 * MIB, **settings) as stage:
        yield Crowd(stage)


@pytest.fixture
async def crowd(tmp_path: Path) -> AsyncIterator[Crowd]:
    async with crowd_at(tmp_path) as made:
        yield made


async def turn_over() -> None:
    await asyncio.sleep(0)


async def test_who_sends_more_than_a_share_of_a_turn_waits_and_the_others_do_not(crowd: Crowd) -> None:
    flood, *others = await crowd.join(MANY)
    frame_bytes = len(flood.frame(bytes(10_000)))
    flood.sent = 2
    for _ in range(2 * TURN_BYTES_MAX // frame_bytes):
        flood.send(bytes(10_000))
    for other in others:
        other.send(b"one")
    received, reads_on = flood.link._turn_bytes, flood.transport.is_reading
    await turn_over()

    assert TURN_BYTES_MAX < received <= TURN_BYTES_MAX + frame_bytes
    assert not reads_on
    assert all(other.codes() == [SUCCESS] * 3 for other in others)
    assert len(flood.codes()) < flood.sent
    await crowd.until(lambda: len(flood.codes()) == flood.sent)
    assert set(flood.codes()) == {SUCCESS}


async def test_what_slow_readers_make_wait_has_a_limit_and_nothing_of_it_is_lost(tmp_path: Path) -> None:
    high = 4_000
    limits = {"write_buffer_high_water_mark": high, "write_buffer_low_water_mark": high // 2}
    async with crowd_at(tmp_path, **limits) as crowd:
        *slow, reader = await crowd.join(MANY + 1)
        for _ in range(60):
            for sender in slow:
                sender.send(bytes(1_000))
            reader.send(b"one")
            await turn_over()
            reader.codes()
        answer_bytes, frame_bytes = 600, 1_500
        for sender in slow:
            assert len(sender.transport.waiting) <= high + answer_bytes
            assert sender.link.pending_bytes <= TURN_BYTES_MAX + frame_bytes
            assert not sender.transport.is_reading
        stored = len(crowd.bodies())
        assert stored < MANY * 60 // 2
        assert reader.codes() == [SUCCESS] * reader.sent

        await crowd.until(lambda: all(len(sender.codes()) == sender.sent for sender in slow))
        assert all(set(sender.codes()) == {SUCCESS} for sender in slow)
        assert len(crowd.bodies()) == MANY * 60 + 60


async def test_much_on_many_connections_is_written_together_and_what_is_kept_has_a_limit(
    tmp_path: Path,
) -> None:
    files, ends = StagedFiles(), list[int]()
    async with crowd_at(tmp_path, files=files) as crowd:
        senders = await crowd.join(3 * MANY)
        store = crowd.stage.broker.store
        files.before_log_write = lambda: ends.append(store.whole_position)
        kept, received, read_bytes = 0, 0, 0
        for sender in senders:
            frame = sender.frame(b"%03d" % sender.number * 8_000)
            sender.transport.send(frame)
            received, read_bytes = received + len(frame), max(read_bytes, len(frame))
            kept = max(kept, sum(each.link.pending_bytes for each in senders))
        await turn_over()
        answered = [sender.codes() for sender in senders]
        ends.append(store.whole_position)

        assert kept <= NOTED_BYTES_MAX
        assert answered == [[SUCCESS] * 3] * len(senders)
        assert len(crowd.bodies()) == len(senders)
        written = [end - begin for begin, end in pairwise(ends)]
        assert max(written) <= PLAN_BYTES + read_bytes
        assert received > 4 * NOTED_BYTES_MAX
        if IS_COMPILED:
            # Not more plans than it takes: all connections share them.
            assert len(written) == -(-len(senders) // (NOTED_BYTES_MAX // read_bytes + 1))


async def test_a_plan_has_an_end_and_the_turn_makes_the_next(tmp_path: Path) -> None:
    files, ends = StagedFiles(), list[int]()
    async with crowd_at(tmp_path, files=files) as crowd:
        senders = await crowd.join(MANY)
        turn, store = crowd.stage.broker._turn, crowd.stage.broker.store
        files.before_log_write = lambda: ends.append(store.whole_position)
        body_bytes = 3 * PLAN_BYTES // len(senders)
        for sender in senders:
            sender.send(b"%d" % sender.number * (body_bytes // len(b"%d" % sender.number)))
            # As though it were little: the shortcut may be handed any number of bytes.
            turn.noted_bytes = 0
        await turn_over()
        answered = [sender.codes() for sender in senders]
        ends.append(store.whole_position)

        assert answered == [[SUCCESS] * 3] * len(senders)
        assert len(crowd.bodies()) == len(senders)
        written = [end - begin for begin, end in pairwise(ends)]
        assert sum(written) > 2 * PLAN_BYTES
        assert max(written) <= PLAN_BYTES + 2 * body_bytes
        if IS_COMPILED:
            assert len(written) <= -(-sum(written) // PLAN_BYTES)


async def test_large_bodies_of_several_connections_share_turns_and_others_are_not_kept(crowd: Crowd) -> None:
    *large, small = await crowd.join(5)
    bodies = [bytes([65 + sender.number]) * (4 * MIB - 1_000) for sender in large]
    for sender, body in zip(large, bodies, strict=True):
        sender.send(body, at_once=64 * 1024)
    small.send(b"one")
    await turn_over()
    after_one_turn = small.codes()
    held = [sender.link.pending_bytes for sender in large]

    assert after_one_turn == [SUCCESS] * 3
    assert max(held) <= TURN_BYTES_MAX + 64 * 1024
    await crowd.until(lambda: all(sender.codes() == [SUCCESS] * 3 for sender in large))
    assert sorted(crowd.bodies()) == sorted([*bodies, b"one"])
    assert [sender.link.pending_bytes for sender in large] == [0] * len(large)


async def test_a_connection_with_too_many_requests_under_way_is_refused_and_the_others_are_not(
    tmp_path: Path,
) -> None:
    files = StagedFiles()
    settings = {"flush_disk_type": "SYNC_FLUSH", "requests_under_way_max": 4}
    async with crowd_at(tmp_path, files=files, **settings) as crowd:
        *eager, patient = await crowd.join(MANY)
        with files.held_syncs():
            for number in range(6):
                for sender in eager:
                    sender.send(b"%d" % number)
                await turn_over()
            patient.send(b"patient")
            await turn_over()
            # The refusals of the fifth and the sixth have come; the answers of those before them wait.
            early = [sorted(one.opaque for one in _answers(sender)[2:]) for sender in eager]
        await crowd.until(lambda: all(len(_answers(sender)) == sender.sent for sender in crowd.senders))

        assert early == [[7, 8]] * len(eager)
        for sender in eager:
            codes = {answer.opaque: answer.code for answer in _answers(sender)}
            assert [codes[number] for number in range(3, 9)] == [SUCCESS] * 4 + [BUSY] * 2
        assert [answer.code for answer in _answers(patient)] == [SUCCESS] * 3
        assert len(crowd.bodies()) == 4 * len(eager) + 1


def _answers(sender: Sender) -> list[Command]:
    sender.transport.take(1 << 30)
    return sender.transport.commands()


async def test_a_connection_that_ends_before_its_turn_does_has_nothing_stored(crowd: Crowd) -> None:
    closed, lost, aborted, fine = await crowd.join(4)
    for sender in (closed, lost, aborted, fine):
        sender.send(b"%d" % sender.number)
    closed.link.close()
    lost.link.connection_lost(None)
    aborted.link.abort()
    await crowd.until(lambda: fine.codes() == [SUCCESS] * 3)

    assert crowd.bodies() == [b"%d" % fine.number]
    assert all(sender.codes() == [SUCCESS] * 2 for sender in (closed, lost, aborted))


async def test_a_connection_that_is_paused_before_its_turn_ends_is_handled_when_it_goes_on(
    crowd: Crowd,
) -> None:
    paused, fine = await crowd.join(2)
    for sender in (paused, fine):
        sender.send(b"%d" % sender.number)
    paused.link.pause_writing()
    await crowd.until(lambda: fine.codes() == [SUCCESS] * 3)
    stored_meanwhile = crowd.bodies()
    paused.link.resume_writing()
    await crowd.until(lambda: paused.codes() == [SUCCESS] * 3)

    assert stored_meanwhile == [b"%d" % fine.number]
    assert crowd.bodies() == [b"%d" % fine.number, b"%d" % paused.number]


async def test_connections_that_end_while_their_plan_is_written_keep_no_answer_from_the_others(
    tmp_path: Path,
) -> None:
    files = StagedFiles()
    async with crowd_at(tmp_path, files=files) as crowd:
        senders = await crowd.join(MANY)
        leaving, staying = senders[: MANY // 2], senders[MANY // 2 :]

        def leave() -> None:
            files.before_log_write = lambda: None
            for sender in leaving:
                sender.link.connection_lost(None)

        files.before_log_write = leave
        for sender in reversed(senders):
            sender.send(b"%d" % sender.number)
        await crowd.until(lambda: all(sender.codes() == [SUCCESS] * 3 for sender in staying))

        assert all(sender.codes() == [SUCCESS] * 2 for sender in leaving)
        stored = crowd.bodies()
        assert set(stored) >= {b"%d" % sender.number for sender in staying}
        assert len(set(stored)) == len(stored)
