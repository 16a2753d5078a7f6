"""Calls that arrive whole: compiled, in Python, and step by step they come to the same."""

import asyncio
import itertools
from random import Random

import pytest
from effort import times
from grpc_stage import SERVICE, CallService
from http2_frames import CALL_HEADERS, Answers, begun, called, opened, said
from room_transport import RoomTransport

from pyromq.config.settings import NetSettings
from pyromq.kernel import IS_COMPILED
from pyromq.net.http2 import grpc_link
from pyromq.net.http2.arriving import ArrivingBytes
from pyromq.net.http2.plain_call import PlainCall
from pyromq.net.http2.server_call import ServerCall
from pyromq.net.http2.session_terms import SessionLimits
from pyromq.net.http2.which_session import session_class
from pyromq.net.turn import Turn
from pyromq.testing.manual_clock import ManualClock

#: What a class has of its own, and no twin of it may take over.
NOT_TAKEN = ("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__")
TIMEOUTS = (
    "5S",
    "0n",
    "1u",
    "00000001H",
    "99999999H",
    "99999999S",
    "",
    "S",
    "5",
    "5x",
    "-5S",
    "+5S",
    " 5S",
    "1.S",
)
ENCODINGS = ("identity", "gzip", "")
NAMES = ("Echo", "Later", "Fail", "Break", "Big", "Count", "Chat", "Nothing")


def call_of_python() -> type[ServerCall]:
    """Return the class of calls as it is without a compiler."""
    own = {name: value for name, value in vars(ServerCall).items() if name not in NOT_TAKEN}
    return type("CallOfPython", (PlainCall,), own)


def calls() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the calls that are made: their names, and the headers that only they have."""
    plain: list[list[tuple[str, str]]] = [[]]
    plain += [[("grpc-timeout", text)] for text in TIMEOUTS]
    plain += [[("grpc-timeout", "soon"), ("grpc-timeout", text)] for text in ("5S", "soon")]
    plain += [[("grpc-encoding", text)] for text in ENCODINGS]
    plain += [[("grpc-encoding", "gzip"), ("grpc-timeout", "soon")]]
    return list(itertools.product(NAMES, plain))


async def played(call: type[ServerCall], *, is_cut: bool, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return what each call is answered, by calls of a class that come whole, or in pieces."""
    monkeypatch.setattr(grpc_link, "ServerCall", call)
    clock, transport, answers, ended = ManualClock(), RoomTransport(), Answers(), []
    service = CallService()
    link = grpc_link.GrpcLink(
        NetSettings(),
        turn=Turn(monotonic=clock.monotonic),
        clock=clock,
        methods=service.methods(),
        session=session_class()(SessionLimits()),
        arriving=ArrivingBytes(1 << 30),
        on_end=lambda _link: None,
    )
    transport.protocol = link
    link.connection_made(transport)
    transport.send(begun())
    for number, (name, more) in enumerate(calls()):
        stream, service.last = 2 * number + 1, None
        headers = [(key, SERVICE + name if key == ":path" else value) for key, value in CALL_HEADERS]
        pieces = [called(stream, b"2 1", [*headers, *more])]
        if is_cut:
            pieces = [opened(stream, [*headers, *more]), said(stream, b"2 1")]
        for piece in pieces:
            transport.send(piece)
        for _ in range(6):
            await asyncio.sleep(0)
            data = bytes(transport.waiting)
            answers.take(data)
            transport.take(len(data))
        deadline = None if service.last is None else service.last.deadline
        ended.append((name, more, answers.headers.get(stream), answers.data.get(stream), deadline))
    link.connection_lost(None)
    await asyncio.sleep(0)
    assert link.call_count == 0
    assert not link.under_way
    return ended


async def test_calls_end_in_the_same_way_whoever_does_them(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await played(ServerCall, is_cut=False, monkeypatch=monkeypatch)
    assert whole == await played(call_of_python(), is_cut=False, monkeypatch=monkeypatch)
    assert whole == await played(ServerCall, is_cut=True, monkeypatch=monkeypatch)
    assert whole == await played(call_of_python(), is_cut=True, monkeypatch=monkeypatch)


@pytest.mark.skipif(not IS_COMPILED, reason="the pure version runs")
def test_calls_are_compiled_where_the_kernel_is() -> None:
    assert not issubclass(ServerCall, PlainCall)
    assert issubclass(call_of_python(), PlainCall)


class NotingLink:
    """As much of a link as `take_all` looks at; notes what is done."""

    def __init__(self) -> None:
        self.done: list[object] = []
        self._calls: dict[int, object] = {}
        self._methods = {"/method": "handler"}
        self.read_at = 5.0

    def _take(self, *event: object) -> None:
        self.done.append(event)

    def _has_room_for_headers(self, stream_id: int, headers: object) -> bool:
        self.done.append(("room", stream_id, headers))
        return stream_id % 4 == 1

    def _refuse_headers(self, call: "NotingCall") -> None:
        self.done.append(("refused", call.opened))


class NotingCall:
    """A call that does nothing."""

    def __init__(self, link: NotingLink, *opened: object) -> None:
        self.link, self.opened = link, opened

    def do_whole(self, methods: object, request: bytes) -> None:
        self.link.done.append(("whole", self.opened, methods, request))

    def begin(self, methods: object) -> None:
        self.link.done.append(("begun", self.opened, methods))


@pytest.mark.skipif(not IS_COMPILED, reason="the pure version runs")
def test_what_is_whole_is_seen_alike() -> None:
    from pyromq._kernel.http2 import plain_calls
    from pyromq.net.http2 import plain_call

    random = Random(3)
    for _ in range(times(2_000)):
        events = []
        for _ in range(random.randrange(12)):
            stream = random.choice((1, 3, 5))
            events.append((random.choice((0, 0, 1, 1, 2, 2, 3, 4)), stream, random.randbytes(2), {"a": "b"}))
            if random.random() < 0.5:
                events += [(0, stream, "/method", {}), (1, stream, b"2", None), (2, stream, None, None)]
        uncounted, found = random.choice((1, 100)), []
        for take_all in (plain_calls.take_all, plain_call.take_all):
            link = NotingLink()
            take_all(link, list(events), NotingCall, uncounted)  # type: ignore[arg-type]
            found.append((link.done, list(link._calls)))
        assert found[0] == found[1]
