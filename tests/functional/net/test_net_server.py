"""A server on a real socket: answers, limits, bad input, orderly ends."""

import asyncio
import contextlib
import socket

import pytest

from pyromq.clock import SystemClock
from pyromq.config.settings import NetSettings
from pyromq.errors import ConnectionLost, DiskFull, HeaderError, ListenFailed, RequestTimeout, TopicNotFound
from pyromq.net.links import Links
from pyromq.net.routes import Answer, RequestTable, Route
from pyromq.net.server import Server
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.wire.command import Command, CommandReader, encode
from pyromq.wire.header import Header, Int32

ECHO, HELD, REFUSED, BROKEN, TYPED, LATER, BIG, TOO_BIG, FULL = range(10, 19)


class Typed(Header, kw_only=True):
    topic: str
    queue_id: Int32


class Fixture:
    """A server with one handler of each kind, and links to it."""

    def __init__(self, *, clock=None, **limits):
        self.settings = NetSettings(**limits)
        self.held = []
        self.served_links = []
        self.closed_links = []
        table = RequestTable(
            [
                Route(ECHO, self.echo),
                Route(HELD, self.hold),
                Route(REFUSED, self.refuse, refusal_ext={}),
                Route(BROKEN, self.break_down),
                Route(TYPED, lambda request: Answer(body=request.header.topic.encode()), Typed),
                Route(FULL, self.find_no_room),
                Route(LATER, self.answer_later),
                Route(BIG, lambda request: Answer(body=bytes(1_000_000))),
                Route(TOO_BIG, lambda request: Answer(body=bytes(16_777_216))),
            ]
        )
        self.server = Server(
            table,
            self.settings,
            clock=clock or SystemClock(),
            name="test server",
            on_link_closed=self.closed_links.append,
        )
        self.links = Links(NetSettings())

    def echo(self, request):
        self.served_links.append(request.link)
        return Answer(body=request.body)

    def hold(self, request):
        future = asyncio.get_running_loop().create_future()
        self.held.append(future)
        return future

    def refuse(self, request):
        raise TopicNotFound(17, "no such topic; create it")

    def break_down(self, request):
        raise RuntimeError("the reason")

    def find_no_room(self, request):
        raise DiskFull("writing topics.json failed: No space left on device")

    async def answer_later(self, request):
        await asyncio.sleep(0)
        raise HeaderError("later")

    async def ask(self, code, timeout_s=5.0, **fields):
        return await self.links.request(self.address, Command(code, **fields), timeout_s)


@contextlib.asynccontextmanager
async def serving(**options):
    fixture = Fixture(**options)
    host, port = await fixture.server.start("127.0.0.1", 0)
    fixture.host, fixture.port, fixture.address = host, port, f"{host}:{port}"
    try:
        yield fixture
    finally:
        await fixture.links.close()
        await fixture.server.close()


@contextlib.asynccontextmanager
async def raw_connection(fixture):
    reader, writer = await asyncio.open_connection(fixture.host, fixture.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def read_command(reader):
    commands = CommandReader()
    while (command := commands.next_command()) is None:
        data = await reader.read(65536)
        assert data, "the connection ended"
        commands.feed(data)
    return command


def told(caplog):
    """What the network wrote into the log; others of this process may write too."""
    return [record for record in caplog.records if record.name == "pyromq.net"]


async def test_a_request_is_answered_in_its_serializer():
    async with serving() as fixture:
        answer = await fixture.ask(ECHO, body=b"hello", serializer=1)

    assert (answer.code, answer.body, answer.serializer) == (0, b"hello", 1)


async def test_many_requests_are_under_way_on_one_connection():
    async with serving() as fixture:
        held = asyncio.ensure_future(fixture.ask(HELD))
        answers = await asyncio.gather(*(fixture.ask(ECHO, body=b"%d" % n) for n in range(100)))
        open_links = len(fixture.server.links)
        fixture.held[0].set_result(Answer(body=b"at last"))
        last = await held

    assert [answer.body for answer in answers] == [b"%d" % n for n in range(100)]
    assert last.body == b"at last"
    assert open_links == 1


async def test_a_server_may_ask_its_client():
    async with serving() as fixture:
        asking_links = Links(
            NetSettings(), handle=RequestTable([Route(99, lambda request: Answer(body=b"from the client"))])
        )
        await asking_links.request(fixture.address, Command(ECHO), 5)

        answer = await fixture.served_links[0].request(Command(99), 5)
        await asking_links.close()

    assert answer.body == b"from the client"


async def test_a_oneway_request_is_handled_and_not_answered():
    async with serving() as fixture, raw_connection(fixture) as (reader, writer):
        writer.write(encode(Command(ECHO, flag=2, opaque=1)) + encode(Command(ECHO, opaque=2)))
        answer = await read_command(reader)

    assert answer.opaque == 2
    assert len(fixture.served_links) == 2


async def test_a_oneway_request_that_fails_is_not_answered_either():
    async with serving() as fixture, raw_connection(fixture) as (reader, writer):
        for code in (REFUSED, BROKEN, 9999, LATER):
            writer.write(encode(Command(code, flag=2, opaque=1)))
        # What is answered later is answered in the order in which it came.
        writer.write(encode(Command(LATER, opaque=2)))
        answer = await read_command(reader)

    assert answer.opaque == 2


async def test_a_refusal_carries_its_code_its_reason_and_the_routes_fields():
    async with serving() as fixture:
        answer = await fixture.ask(REFUSED)

    assert (answer.code, answer.remark, answer.ext) == (17, "no such topic; create it", {})


@pytest.mark.parametrize(
    ("ext", "named"),
    [({"topic": "T"}, "queueId"), ({"queueId": "1"}, "topic"), ({"topic": "T", "queueId": "x"}, "queueId")],
)
async def test_a_missing_or_unreadable_field_is_answered_by_name(ext, named, caplog):
    async with serving() as fixture:
        answer = await fixture.ask(TYPED, ext=ext)
        well = await fixture.ask(TYPED, ext={"topic": "T", "queueId": "1"})

    assert answer.code == 1
    assert named in answer.remark
    assert well.body == b"T"
    assert len(told(caplog)) == 1


async def test_an_unknown_code_is_answered_and_logged_once(caplog):
    async with serving() as fixture:
        answer = await fixture.ask(9999)

    assert (answer.code, answer.remark) == (3, " request type 9999 not supported")
    assert len(told(caplog)) == 1


async def test_a_handler_that_breaks_is_an_answer_and_a_trace_in_the_log(caplog):
    async with serving() as fixture:
        answer = await fixture.ask(BROKEN)
        well = await fixture.ask(ECHO)

    assert answer.code == 1
    assert "the reason" in answer.remark
    assert well.code == 0
    assert [record.exc_info is not None for record in told(caplog)] == [True]


async def test_a_full_disk_is_answered_as_such_and_logged_without_a_trace(caplog):
    async with serving() as fixture:
        answer = await fixture.ask(FULL)

    assert answer.code == 14
    assert "No space left on device" in answer.remark
    assert [record.exc_info for record in told(caplog)] == [None]


async def test_an_error_of_an_awaited_handler_is_answered_too():
    async with serving() as fixture:
        answer = await fixture.ask(LATER)

    assert (answer.code, answer.remark) == (1, "later")


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x7f\xff\xff\xff",
        b"\x00\x00\x00\x08\x00\x00\x00\x04nope",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01",
    ],
    ids=["a length that lies", "a header that is not JSON", "http", "tls"],
)
async def test_bad_bytes_end_their_own_connection_only(nonsense, caplog):
    async with serving() as fixture, raw_connection(fixture) as (reader, writer):
        await fixture.ask(ECHO)
        writer.write(nonsense)
        rest = await reader.read()
        other = await fixture.ask(ECHO, body=b"still here")

    assert rest == b""
    assert other.body == b"still here"
    assert len(told(caplog)) == 1


async def test_a_frame_over_the_limit_ends_the_connection_before_it_is_read():
    async with serving(frame_bytes_max=4096) as fixture, raw_connection(fixture) as (reader, writer):
        writer.write((5000).to_bytes(4, "big"))

        assert await reader.read() == b""


async def test_requests_over_the_limit_are_told_to_wait_and_the_connection_goes_on():
    async with serving(requests_under_way_max=2) as fixture:
        held = [asyncio.ensure_future(fixture.ask(HELD)) for _ in range(2)]
        await aeventually(lambda: len(fixture.held) == 2)
        busy = await fixture.ask(ECHO)
        fixture.held[0].set_result(Answer())
        await held[0]
        well = await fixture.ask(ECHO)
        fixture.held[1].set_result(None)
        held[1].cancel()

    assert busy.code == 2
    assert "requestsUnderWayMax" in busy.remark
    assert well.code == 0


async def test_connections_over_the_limit_are_closed_as_they_come():
    async with serving(connections_max=1) as fixture:
        await fixture.ask(ECHO)
        async with raw_connection(fixture) as (reader, _):
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        first = await fixture.ask(ECHO, body=b"the first goes on")

    assert first.body == b"the first goes on"


async def test_a_peer_that_does_not_read_stops_being_read():
    async with serving(write_buffer_high_water_mark=100_000, write_buffer_low_water_mark=50_000) as fixture:
        deaf = socket.create_connection((fixture.host, fixture.port))
        deaf.setblocking(False)
        (link,) = await aeventually(lambda: tuple(fixture.server.links))
        # Each request asks for a megabyte. What is sent at last nobody takes, or this would go on for ever.
        sending = asyncio.ensure_future(send_for_ever(deaf, encode(Command(BIG)) * 1000))
        await aeventually(lambda: not link._transport.is_reading())
        others = await fixture.ask(ECHO, body=b"others are served")
        reads_on, pending = link._transport.is_reading(), link._transport.get_write_buffer_size()
        sending.cancel()
        await asyncio.wait({sending})
        deaf.close()

    assert others.body == b"others are served"
    assert not reads_on
    assert pending < 10_000_000


async def send_for_ever(connection, data):
    while True:
        await asyncio.get_running_loop().sock_sendall(connection, data)


async def test_a_silent_connection_is_closed_and_a_busy_one_is_not():
    clock = ManualClock()
    async with serving(clock=clock) as fixture, raw_connection(fixture) as (reader, writer):
        writer.write(encode(Command(ECHO)))
        await read_command(reader)
        await fixture.ask(ECHO)
        clock.advance(119_000)
        fixture.server.close_idle()
        await fixture.ask(ECHO)
        clock.advance(2_000)
        fixture.server.close_idle()

        assert await reader.read() == b""
        await fixture.ask(ECHO)
        assert len(fixture.server.links) == 1


async def test_the_sweep_for_silent_connections_runs_by_itself():
    clock = ManualClock()
    async with (
        serving(clock=clock, server_channel_max_idle_time_seconds=1) as fixture,
        raw_connection(fixture) as (reader, _),
    ):
        await aeventually(lambda: fixture.server.links)
        clock.advance(1_500)

        assert await reader.read() == b""


async def test_what_a_closed_connection_waited_for_is_cancelled_and_its_end_is_told():
    async with serving() as fixture:
        async with raw_connection(fixture) as (_, writer):
            writer.write(encode(Command(HELD)))
            await aeventually(lambda: fixture.held)
        await aeventually(lambda: fixture.held[0].cancelled())

        assert len(fixture.closed_links) == 1
        assert not fixture.server.links


async def test_a_client_that_gives_up_does_not_disturb_the_connection():
    async with serving() as fixture:
        await fixture.ask(ECHO)  # connected: the time is for the answer alone
        with pytest.raises(RequestTimeout):
            await fixture.ask(HELD, timeout_s=0.01)
        await aeventually(lambda: fixture.held)
        fixture.held[0].set_result(Answer(body=b"late"))
        answer = await fixture.ask(ECHO, body=b"next")

    assert answer.body == b"next"


async def test_a_closing_server_lets_answers_under_way_leave():
    async with serving() as fixture:
        asked = asyncio.ensure_future(fixture.ask(HELD))
        await aeventually(lambda: fixture.held)
        closing = asyncio.ensure_future(fixture.server.close())
        await asyncio.sleep(0)
        fixture.held[0].set_result(Answer(body=b"in time"))
        await closing

        assert (await asked).body == b"in time"


async def test_a_closing_server_does_not_wait_for_ever():
    async with serving() as fixture:
        asked = asyncio.ensure_future(fixture.ask(HELD))
        await aeventually(lambda: fixture.held)

        await fixture.server.close()

        assert fixture.held[0].cancelled()
        with pytest.raises(ConnectionLost):
            await asked


async def test_small_answers_leave_at_once():
    """With Nagle's algorithm a notice behind an answer came 40 ms late, so that a queue had two readers."""
    async with serving() as fixture, raw_connection(fixture):
        (link,) = await aeventually(lambda: list(fixture.server.links))

        connection = link._transport.get_extra_info("socket")
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_one_server_listens_on_several_addresses():
    async with serving() as fixture:
        host, port = await fixture.server.start("127.0.0.1", 0)
        answer = await fixture.links.request(f"{host}:{port}", Command(ECHO, body=b"vip"), 5)

    assert answer.body == b"vip"


async def test_an_address_that_is_taken_is_refused_by_name():
    async with serving() as fixture:
        with pytest.raises(ListenFailed, match=f"cannot listen on 127.0.0.1:{fixture.port}"):
            await fixture.server.start("127.0.0.1", fixture.port)


async def test_an_answer_that_fits_no_frame_is_answered_by_an_error(caplog):
    async with serving() as fixture:
        answer = await fixture.ask(TOO_BIG)

    assert answer.code == 1
    assert "does not fit" in answer.remark
    assert len(told(caplog)) == 1
