"""A link that speaks gRPC, between a peer that is played frame by frame and a service."""

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest
from grpc_stage import SERVICE, CallService
from http2_frames import (
    CALL_HEADERS,
    DATA,
    END_STREAM,
    PING,
    SETTINGS,
    Answers,
    begun,
    called,
    frame,
    opened,
    reset,
    said,
    window,
)
from room_transport import RoomTransport

from pyromq.config.settings import NetSettings
from pyromq.net.http2 import grpc_link
from pyromq.net.http2.arriving import ArrivingBytes, HeaderBytes
from pyromq.net.http2.grpc_link import RESETS_MAX, YOUNG_S, GrpcLink
from pyromq.net.http2.grpc_session import GrpcSession
from pyromq.net.http2.session_terms import Http2Error, SessionLimits
from pyromq.net.http2.which_session import session_class
from pyromq.net.link import OUTPUT_FACTOR_MAX
from pyromq.net.turn import Turn
from pyromq.testing.manual_clock import ManualClock

HIGH, LOW = 100_000, 20_000
#: More turns of the loop than anything here takes.
MANY_TURNS = 12


def headers(name: str, **more: str) -> list[tuple[str, str]]:
    """Return the headers of a call of a method; underscores of names are hyphens."""
    first = [(key, SERVICE + name if key == ":path" else value) for key, value in CALL_HEADERS]
    return [*first, *((key.replace("_", "-"), value) for key, value in more.items())]


class Counted(RoomTransport):
    """Counts writes."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    def write(self, data: bytes) -> None:
        self.writes += 1
        super().write(data)


class Stage:
    """The link, its service, and what came back."""

    def __init__(self, kind: type[GrpcSession], arriving: ArrivingBytes | None = None, **limits: int) -> None:
        self.clock = ManualClock()
        self.service = CallService()
        self.transport = Counted()
        self.answers = Answers()
        self.link = GrpcLink(
            NetSettings(write_buffer_high_water_mark=HIGH, write_buffer_low_water_mark=LOW),
            turn=Turn(monotonic=self.clock.monotonic),
            clock=self.clock,
            methods=self.service.methods(),
            session=kind(SessionLimits(**limits)),
            arriving=arriving or ArrivingBytes(1 << 30),
            on_end=lambda link: None,
        )
        self.transport.protocol = self.link
        self.link.connection_made(self.transport)

    async def say(self, *frames: bytes) -> Answers:
        """Let frames arrive at once, and take what is answered."""
        self.transport.send(b"".join(frames))
        return await self.turns()

    async def turns(self, *, takes: bool = True) -> Answers:
        for _ in range(MANY_TURNS):
            await asyncio.sleep(0)
            if takes:
                self.take()
        return self.answers

    def take(self) -> None:
        """Take all that was written."""
        data = bytes(self.transport.waiting)
        self.answers.take(data)
        self.transport.take(len(data))


@pytest.fixture(params=["h2", "the one that is chosen"])
async def kind(request: pytest.FixtureRequest) -> type[GrpcSession]:
    return GrpcSession if request.param == "h2" else session_class()


@pytest.fixture
async def stage(kind: type[GrpcSession]) -> AsyncIterator[Stage]:
    made = Stage(kind)
    await made.say(begun())
    yield made
    made.link.connection_lost(None)
    await made.turns(takes=False)
    assert made.link.call_count == 0
    assert not made.link.under_way


async def test_answers_of_a_turn_leave_with_one_write(stage: Stage) -> None:
    before = stage.transport.writes
    answers = await stage.say(*(called(stream, b"%d" % stream) for stream in range(1, 41, 2)))
    assert stage.transport.writes == before + 1
    assert [answers.messages(stream) for stream in range(1, 41, 2)] == [
        [b"%d" % stream] for stream in range(1, 41, 2)
    ]


async def test_a_deadline_that_is_over_when_the_call_comes_is_told(stage: Stage) -> None:
    answers = await stage.say(called(1, b"x", headers("Echo", grpc_timeout="0n")))
    assert answers.status(1) == "4"
    assert stage.service.last is None


async def test_a_request_that_is_whole_after_its_deadline_is_not_handled(stage: Stage) -> None:
    await stage.say(opened(1, headers("Echo", grpc_timeout="5S")))
    stage.clock.advance(6_000)
    answers = await stage.say(said(1, b"x"))
    assert answers.status(1) == "4"
    assert stage.service.last is None


@pytest.mark.parametrize("text", ["", "soon", "-5S", "123456789S"])
async def test_a_timeout_that_does_not_read_is_refused(stage: Stage, text: str) -> None:
    answers = await stage.say(called(1, b"x", headers("Echo", grpc_timeout=text)))
    assert answers.status(1) == "13"


async def test_a_timeout_of_centuries_is_none(stage: Stage) -> None:
    answers = await stage.say(called(1, b"x", headers("Echo", grpc_timeout="99999999H")))
    assert answers.status(1) == "0"
    assert stage.service.last is not None
    assert stage.service.last.deadline is None


@pytest.mark.parametrize("name", ["Echo", "Count"])
async def test_one_request_is_one_message(stage: Stage, name: str) -> None:
    twice = said(1, b"1 1", is_last=False) + said(1, b"1 1")
    answers = await stage.say(opened(1, headers(name)), twice)
    assert answers.status(1) == "13"
    answers = await stage.say(opened(3, headers(name), is_whole=True))
    assert answers.status(3) == "13"


async def test_a_stream_with_messages_both_ways_lives_on_one_turn_after_the_other(stage: Stage) -> None:
    await stage.say(opened(1, headers("Chat")))
    answers = await stage.say(said(1, b"a", is_last=False), said(1, b"b", is_last=False))
    assert answers.messages(1) == [b"a", b"A", b"b", b"B"]
    answers = await stage.say(frame(DATA, END_STREAM, 1))
    assert answers.messages(1)[-1] == b"bye"
    assert answers.status(1) == "0"
    assert stage.service.chats == 0


async def test_a_reset_stream_ends_its_handler(stage: Stage) -> None:
    await stage.say(opened(1, headers("Chat")), called(3, b"", headers("Hold")))
    assert (stage.service.chats, len(stage.service.held)) == (1, 1)
    await stage.say(reset(1), reset(3))
    assert (stage.service.chats, stage.service.cancelled, stage.link.call_count) == (0, 1, 0)


async def test_a_connection_that_ends_ends_its_handlers(stage: Stage) -> None:
    await stage.say(opened(1, headers("Chat")), called(3, b"", headers("Hold")))
    stage.link.connection_lost(None)
    await stage.turns(takes=False)
    assert (stage.service.chats, stage.service.cancelled, stage.link.call_count) == (0, 1, 0)


# What a peer can make grow ---------------------------------------------------------------------------------


async def test_streams_that_are_opened_and_reset_at_once_end_the_connection(stage: Stage) -> None:
    """CVE-2023-44487."""
    stream = 1
    while not stage.link.closed:
        pairs = range(stream, stream + 200, 2)
        await stage.say(*(called(number, b"", headers("Hold")) + reset(number) for number in pairs))
        stream += 200
        assert stream < 2 * (RESETS_MAX + 500)
    assert stage.answers.goaway == Http2Error.ENHANCE_YOUR_CALM
    assert stage.service.held == []


async def test_calls_that_were_held_for_a_while_may_be_cancelled_together(stage: Stage) -> None:
    streams = range(1, 2 * RESETS_MAX + 201, 2)
    await stage.say(*(called(stream, b"", headers("Hold")) for stream in streams))
    assert len(stage.service.held) == len(streams)
    stage.clock.advance(int(1000 * YOUNG_S) + 1_000)
    for first in range(0, len(streams), 200):
        await stage.say(*(reset(stream) for stream in streams[first : first + 200]))
    assert not stage.link.closed
    assert (len(stage.service.held), stage.service.cancelled) == (0, len(streams))


async def test_ten_thousand_idle_streams_leave_nothing_behind(kind: type[GrpcSession]) -> None:
    made = Stage(kind)
    await made.say(begun())
    streams = range(1, 20_001, 2)
    for first in range(0, len(streams), 500):
        await made.say(*(opened(stream, headers("Chat")) for stream in streams[first : first + 500]))
    assert made.service.chats == 10_000
    assert not made.link.closed
    await made.say(*(said(stream, b"x", is_last=False) for stream in (1, 9_999, 19_999)))
    assert [made.answers.messages(stream) for stream in (1, 9_999, 19_999)] == [[b"x", b"X"]] * 3
    made.link.connection_lost(None)
    await made.turns(takes=False)
    gc.collect()
    assert (made.service.chats, made.link.call_count, len(made.link.under_way)) == (0, 0, 0)
    assert len(asyncio.all_tasks()) == 1


async def test_a_peer_that_takes_nothing_is_not_read(stage: Stage) -> None:
    """The calls that it goes on making wait outside; when it reads again, all get their answers."""
    await stage.say(frame(SETTINGS, payload=b"\0\x04\x7f\xff\xff\xff") + window(0, 1 << 30))
    for stream in range(1, 41, 2):
        stage.transport.send(called(stream, b"50000", headers("Big")))
        await stage.turns(takes=False)
    assert not stage.transport.is_reading
    assert len(stage.transport.waiting) + stage.link._session.queued_bytes < 3 * HIGH
    answers = await stage.turns()
    answers = await stage.turns()
    assert [len(answers.messages(stream)[0]) for stream in range(1, 41, 2)] == [50_000] * 20


async def test_a_stream_of_answers_waits_for_a_peer_that_keeps_its_window_shut(stage: Stage) -> None:
    answers = await stage.say(called(1, b"100 10000", headers("Count")))
    assert len(answers.data[1]) == 65_535
    assert stage.service.counted < 100
    assert stage.link._session.queued_bytes < 3 * HIGH
    for _ in range(40):
        await stage.say(window(0, 50_000), window(1, 50_000))
    assert len(stage.answers.messages(1)) == 100
    assert stage.answers.status(1) == "0"


async def test_answers_that_nobody_takes_are_bounded(stage: Stage) -> None:
    """One answers without waiting for room; with its windows shut, a peer could have it all kept."""
    stream, kept = 1, 0
    while not stage.link.closed:
        await stage.say(called(stream, b"50000", headers("Big")))
        kept = max(kept, stage.link._session.queued_bytes)
        stream += 2
        assert stream < 1_000
    assert kept <= (OUTPUT_FACTOR_MAX + 1) * HIGH
    assert stage.transport.ended == "aborted"


async def test_requests_that_never_become_whole_are_bounded(kind: type[GrpcSession]) -> None:
    made = Stage(kind, message_bytes_max=100_000)
    await made.say(begun())
    for stream in range(1, 61, 2):
        part = frame(DATA, 0, stream, b"\0\0\x01\0\0" + bytes(16_000))
        await made.say(opened(stream), part)
    assert made.link._session.partial_bytes <= 100_000
    assert "8" in {made.answers.status(stream) for stream in range(1, 61, 2)}
    assert not made.link.closed
    made.link.connection_lost(None)


async def test_parts_of_messages_are_bounded_over_all_connections(
    kind: type[GrpcSession], caplog: pytest.LogCaptureFixture
) -> None:
    """The connection that is one too many ends; what the others sent goes on."""
    arriving = ArrivingBytes(50_000)
    stages = [Stage(kind, arriving) for _ in range(4)]
    part = frame(DATA, 0, 1, b"\0\0\x01\0\0" + bytes(16_000))
    for made in stages:
        await made.say(begun(), opened(1, headers("Echo")), part)
    assert [made.link.closed for made in stages] == [False, False, False, True]
    assert "50000 bytes" in caplog.text
    assert arriving.count == 3 * 16_005
    answers = await stages[0].say(frame(DATA, 0, 1, bytes(16_000)))
    assert stages[0].link.closed
    await stages[1].say(reset(1))
    answers = await stages[2].say(called(3, b"x"))
    assert answers.messages(3) == [b"x"]
    for made in stages:
        made.link.connection_lost(None)
    assert arriving.count == 0


async def test_headers_of_calls_that_are_held_are_bounded(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HeaderBytes, "COUNT_MAX", 100_000)
    streams = range(1, 1_001, 2)
    for first in range(0, len(streams), 50):
        await stage.say(
            *(opened(stream, headers("Chat", x_more="y" * 1_000)) for stream in streams[first : first + 50])
        )
    refused = [stream for stream in streams if stage.answers.status(stream) == "8"]
    assert stage.link.call_count + len(refused) == len(streams)
    assert HeaderBytes.UNCOUNTED < stage.link.call_count < HeaderBytes.UNCOUNTED + 100
    # Whoever ends some may have others.
    await stage.say(*(reset(stream) for stream in streams[200:300]))
    answers = await stage.say(opened(1_001, headers("Chat")), said(1_001, b"x", is_last=False))
    assert answers.messages(1_001) == [b"x", b"X"]


# Connections ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "what"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP/2"),
        (b"\x16\x03\x01\x02\x00", "TLS"),
        (b"\0\0\0\x40\0\0\0\x10{}", "HTTP/2"),
    ],
)
async def test_a_peer_that_speaks_something_else_is_closed_with_one_line(
    kind: type[GrpcSession], first: bytes, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = Stage(kind)
    await made.turns()
    made.transport.send(first)
    await made.turns(takes=False)
    assert made.link.closed
    assert len(caplog.records) == 1
    assert what in caplog.text
    made.link.connection_lost(None)


async def test_a_connection_with_calls_is_not_idle_and_is_looked_after(stage: Stage) -> None:
    await stage.say(opened(1, headers("Chat")))
    stage.clock.advance(100_000)
    assert stage.link.idle_s() == 0
    stage.link.look_after(60)
    await stage.turns(takes=False)
    assert frame(PING, payload=bytes(8)) in bytes(stage.transport.waiting)
    await stage.say(reset(1))
    stage.clock.advance(100_000)
    assert stage.link.idle_s() >= 100


async def test_a_peer_that_takes_nothing_is_idle_whatever_calls_it_has(stage: Stage) -> None:
    await stage.say(frame(SETTINGS, payload=b"\0\x04\x7f\xff\xff\xff") + window(0, 1 << 30))
    stage.transport.send(opened(1, headers("Chat")) + called(3, b"200000", headers("Big")))
    await stage.turns(takes=False)
    stage.clock.advance(200_000)
    assert stage.link.idle_s() >= 200


async def test_goodbye_is_said_before_the_connection_ends(stage: Stage) -> None:
    stage.link.close()
    stage.take()
    assert stage.answers.goaway == Http2Error.NO_ERROR
    assert stage.transport.ended == "closed"


async def test_a_mistake_of_ours_ends_its_connection_alone(
    stage: Stage, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("a mistake")

    monkeypatch.setattr(grpc_link, "take_all", broken)
    await stage.say(called(1, b"x"))
    assert stage.transport.ended == "closed"
    assert [record.levelname for record in caplog.records] == ["ERROR"]
