"""When a link reads: whatever arrived, was answered now or later, and was taken by the peer, in any order."""

import asyncio

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from room_transport import RoomTransport

from pyromq.config.settings import NetSettings
from pyromq.errors import ConnectionLost, RequestTimeout
from pyromq.net.link import TURN_BYTES_MAX, Link
from pyromq.net.turn import Turn
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.command import Command, encode

HIGH, LOW = 2_000, 500
#: How a request is answered, by its code: at once or when asked for, with so many bytes.
SMALL, BIG, HUGE, LATER, LATER_BIG, SILENT = range(1, 7)
ANSWER_BYTES = {SMALL: 10, BIG: HIGH, HUGE: 3 * HIGH, LATER: 10, LATER_BIG: HIGH + 1, SILENT: 0}
#: More turns of the loop than anything here takes.
MANY_TURNS = 12


class Stage:
    """A link between a peer that the test plays and a server that answers each code in its way."""

    def __init__(self, *, with_shortcut=False, is_caller=False):
        self.held = []
        self.opaque = 0
        self.transport = RoomTransport()
        turn = Turn()
        turn.shortcut = self.answer_frames if with_shortcut else None
        self.link = Link(
            NetSettings(write_buffer_high_water_mark=HIGH, write_buffer_low_water_mark=LOW),
            turn=turn,
            clock=ManualClock(),
            on_request=self.answer,
            on_end=lambda link: None,
            is_caller=is_caller,
        )
        self.transport.protocol = self.link
        self.link.connection_made(self.transport)

    def answer(self, link, command):
        if command.code in (LATER, LATER_BIG):
            self.held.append(command)
        elif command.code != SILENT:
            self.send_answer(command)

    def answer_frames(self, links):
        """Take one whole frame of SMALL from the front of a link, as the kernel does, and leave others."""
        (link,) = links
        if link.answer_room() <= 0:
            return False
        data, start = link.received, link.start
        size = int.from_bytes(data[start : start + 4], "big") + 4
        if len(data) - start < max(size, 8) or b'"code":%d,' % SMALL not in data[start : start + size]:
            return False
        command = link.next_command()
        self.send_answer(command)
        return True

    def send_answer(self, command):
        self.link.send(
            Command(0, flag=1, opaque=command.opaque, body=bytes(ANSWER_BYTES[command.code])),
        )

    def ask(self, code, padding=0):
        self.opaque += 1
        self.transport.send(encode(Command(code, opaque=self.opaque, body=bytes(padding))))


async def turns(count):
    for _ in range(count):
        await asyncio.sleep(0)


async def play(stage, event):
    kind, number = event
    if kind == "ask":
        stage.ask(number)
    elif kind == "ask much":
        stage.ask(number, padding=TURN_BYTES_MAX + 1)
    elif kind == "ask in pieces":
        stage.opaque += 1
        frame = encode(Command(number, opaque=stage.opaque))
        for at in range(0, len(frame), 7):
            stage.transport.send(frame[at : at + 7])
    elif kind == "ask together":
        frames = [encode(Command(number, opaque=stage.opaque + n)) for n in range(1, 6)]
        stage.opaque += 5
        stage.transport.send(b"".join(frames))
    elif kind == "answer" and stage.held:
        stage.send_answer(stage.held.pop(number % len(stage.held)))
    elif kind == "take":
        stage.transport.take(number)
    elif kind == "turns":
        await turns(number)


CODES = st.sampled_from((SMALL, BIG, HUGE, LATER, LATER_BIG, SILENT))
EVENTS = st.one_of(
    st.tuples(st.sampled_from(("ask", "ask in pieces", "ask together", "ask much")), CODES),
    st.tuples(st.just("answer"), st.integers(0, 20)),
    st.tuples(st.just("take"), st.sampled_from((1, LOW, HIGH, 10 * HIGH))),
    st.tuples(st.just("turns"), st.integers(1, 3)),
)


@settings(deadline=None, max_examples=400)
@given(events=st.lists(EVENTS, max_size=12), with_shortcut=st.booleans())
@example(events=[("ask", HUGE), ("take", 10 * HIGH)], with_shortcut=False)
@example(events=[("ask together", BIG)], with_shortcut=True)
def test_a_link_with_nothing_to_do_reads_as_soon_as_its_peer_has_room(events, with_shortcut):
    async def story():
        stage = Stage(with_shortcut=with_shortcut)
        for event in events:
            await play(stage, event)
            await turns(MANY_TURNS)
            assert stage.transport.is_reading or stage.transport.is_protocol_paused

        while stage.transport.waiting or stage.held:
            await play(stage, ("answer", 0))
            await turns(MANY_TURNS)
            stage.transport.take(len(stage.transport.waiting))
            await turns(MANY_TURNS)

        assert stage.transport.ended is None
        assert stage.transport.is_reading
        stage.ask(SMALL)
        await turns(MANY_TURNS)
        stage.transport.take(len(stage.transport.waiting))
        assert stage.transport.commands()[-1].opaque == stage.opaque

    asyncio.run(story())


@settings(deadline=None, max_examples=100)
@given(events=st.lists(EVENTS, max_size=8))
@example(events=[("ask", HUGE), ("ask", HUGE)])
def test_the_side_that_opened_a_connection_reads_whether_its_peer_does_or_not(events):
    async def story():
        stage = Stage(is_caller=True)
        for event in events:
            await play(stage, event)
            await turns(MANY_TURNS)
            assert stage.transport.is_reading or stage.transport.ended == "aborted"

    asyncio.run(story())


async def test_requests_without_room_wait_for_it_in_their_order():
    stage = Stage(is_caller=True)
    asking = [
        asyncio.ensure_future(stage.link.request(Command(number, body=bytes(HIGH)), 5)) for number in range(5)
    ]
    await turns(MANY_TURNS)
    waiting_at_first = len(stage.transport.waiting)
    while stage.transport.waiting:
        stage.transport.take(HIGH)
        await turns(MANY_TURNS)

    assert waiting_at_first < 2 * HIGH
    assert [command.code for command in stage.transport.commands()] == list(range(5))
    for request in asking:
        request.cancel()


async def test_who_gives_up_waiting_for_room_lets_the_next_one_go():
    stage = Stage(is_caller=True)
    asking = [
        asyncio.ensure_future(stage.link.request(Command(number, body=bytes(HIGH)), 5)) for number in range(4)
    ]
    await turns(MANY_TURNS)
    asking[1].cancel()
    await turns(MANY_TURNS)
    stage.transport.take(HIGH)
    asking[2].cancel()
    while stage.transport.waiting:
        stage.transport.take(HIGH)
        await turns(MANY_TURNS)

    assert [command.code for command in stage.transport.commands()] == [0, 3]
    asking[0].cancel()
    asking[3].cancel()


async def test_who_waits_for_room_hears_of_the_end_and_of_the_time():
    stage = Stage(is_caller=True)
    first, second, third = (
        asyncio.ensure_future(stage.link.request(Command(1, body=bytes(2 * HIGH)), timeout_s))
        for timeout_s in (5, 0.01, 5)
    )

    with pytest.raises(RequestTimeout, match="did not take"):
        await second
    stage.link.connection_lost(None)

    for asked in (first, third):
        with pytest.raises(ConnectionLost):
            await asked


@pytest.mark.parametrize(("turn_took_ms", "reads_on"), [(199, True), (200, False)])
async def test_refused_requests_do_not_count_for_the_share_of_a_turn_unless_it_is_long(
    turn_took_ms, reads_on
):
    clock, transport = ManualClock(), RoomTransport()

    def refuse(links):
        (link,) = links
        received, start = link.received, link.start
        if start == len(received):
            return False
        link.skip_to(len(received))
        link.forgive(len(received) - start)
        return True

    turn = Turn(monotonic=clock.monotonic)
    turn.shortcut = refuse
    link = Link(
        NetSettings(),
        turn=turn,
        clock=clock,
        on_request=lambda link, command: None,
        on_end=lambda link: None,
    )
    transport.protocol = link
    link.connection_made(transport)
    transport.send(b"first")
    clock.advance(turn_took_ms)
    transport.send(bytes(TURN_BYTES_MAX + 1))
    assert transport.is_reading == reads_on
    await turns(MANY_TURNS)
    assert transport.is_reading
