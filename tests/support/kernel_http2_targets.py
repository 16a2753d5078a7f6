"""Sessions of gRPC, on nghttp2 and on h2, given the same frames; see `kernel_targets`."""

from random import Random
from typing import Any

from http2_frames import (
    ACK,
    CALL_HEADERS,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PRIORITY,
    SETTINGS,
    Answers,
    begun,
    block,
    called,
    frame,
    opened,
    prefixed,
    reset,
    said,
    window,
)
from kernel_inputs import cuts, exact_bytes, expect, module, mutated, target

from pyromq.net.http2 import grpc_session
from pyromq.net.http2.session_terms import ENDED, FAILED, MESSAGE, OPENED, RESET, SessionLimits

LIMITS = SessionLimits(message_bytes_max=40_000, streams_max=20, window_bytes=100_000)
ROOM = 1 << 30
#: So few of the streams that may be open, that there is always room for another.
STREAMS_KEPT = 15
SIZES = (0, 1, 5, 100, 3_000, 20_000)


class Played:
    """A session, what came of what it was given, and a server's side that answers by the same numbers."""

    def __init__(self, kind: type[grpc_session.GrpcSession]) -> None:
        self.session: Any = kind(LIMITS)
        self.events: list[Any] = []
        self.answers = Answers()
        self.output = b""
        #: Calls that are open for us, and those that we reset: of them more or less was written before.
        self.calls: dict[int, None] = {}
        self.dropped: set[int] = set()

    def receive(self, piece: bytes) -> None:
        events = self.session.receive(piece)
        expect(self.session.error is None or not self.session.receive(b"\0"), "an error is the end")
        for kind, stream, *_ in events:
            if kind == OPENED:
                self.calls[stream] = None
            elif kind not in (ENDED, FAILED) and kind > FAILED:
                self.calls.pop(stream, None)
        self.events += events

    def act(self, kind: int, stream: int, size: int) -> None:
        """Do one thing that a server does."""
        if kind == 0:
            self.session.send(stream, bytes(size))
        elif kind == 1:
            self.session.answer(stream, bytes(size))
        elif kind == 2:
            self.session.finish(stream, size % 17, "x" * (size % 50))
        elif kind == 3:
            self.session.reset(stream, 8)
            self.dropped.add(stream)
        if kind in (1, 2, 3):
            self.calls.pop(stream, None)

    def finish_all(self) -> None:
        """End the calls that are open, and write all that can be."""
        for stream in tuple(self.calls):
            self.act(2, stream, 0)
        self.write_all()

    def write_all(self) -> None:
        """Write all that the peer's windows allow."""
        while self.session.wants_output:
            self.write(ROOM)

    def write(self, room: int) -> None:
        output = self.session.take_output(room)
        self.output += output
        self.answers.take(output)


def _pieces(random: Random, streams: list[int]) -> bytes:
    """Return a few frames as clients send them, that break no rule."""
    kind = random.randrange(10)
    stream = random.choice(streams)
    if kind <= 3:
        streams.append(streams[-1] + 2)
        if kind == 0:
            return opened(streams[-1])
        headers = [*CALL_HEADERS, (f"x-{random.randrange(4)}", "v" * random.choice((0, 3, 300)))]
        return called(streams[-1], random.randbytes(random.choice(SIZES)), headers)
    if kind == 4:
        return frame(PING, payload=random.randbytes(8))
    if kind == 5:
        return window(0, random.choice((1, 1_000, 50_000)))
    if kind == 6:
        return frame(SETTINGS, payload=b"\0\x04" + random.choice((10, 65_535, 100_000)).to_bytes(4, "big"))
    if kind == 7:
        return frame(PRIORITY, 0, stream, bytes(4) + b"\x10")
    if kind == 8:
        return frame(0xBE, 0, 0, b"grease")
    # No GOAWAY: a client that opens streams after it is not heard by nghttp2, and is by h2.
    return b""


@target("sessions.GrpcSession", "call_streams.CallStream", "call_streams.CallHeaders")
def sessions(random: Random) -> None:
    """Both speeds tell the same of whatever breaks no rule, and say the same."""
    both = [Played(kind) for kind in (module("sessions").GrpcSession, grpc_session.GrpcSession)]
    streams = [1]
    data = begun() + frame(SETTINGS, ACK) + called(1, b"first")
    for _ in range(random.choice((3, 10, 40))):
        for piece in cuts(random, data):
            for played in both:
                played.receive(exact_bytes(piece))
        expect(both[0].events == both[1].events, "both speeds tell the same")
        expect(both[0].session.error is None, "nothing is wrong")
        _answer_some(random, both)
        data = _pieces(random, streams)
    for played in both:
        played.receive(window(0, 1_000_000) + frame(SETTINGS, payload=b"\0\x04\0\x7f\xff\xff"))
        played.write_all()
        played.finish_all()
    _same_answers(*both)


def _answer_some(random: Random, both: list[Played]) -> None:
    for _ in range(random.randrange(4)):
        if not both[0].calls:
            break
        act = random.randrange(4), random.choice(list(both[0].calls)), random.choice(SIZES)
        for played in both:
            played.act(*act)
    room = random.choice((ROOM, ROOM, 10_000))
    for played in both:
        played.write(room)
        if len(played.calls) > STREAMS_KEPT:
            played.finish_all()


def _same_answers(compiled: Played, plain: Played) -> None:
    expect(compiled.events == plain.events, "both speeds tell the same")
    for stream in {1, *compiled.answers.headers, *plain.answers.headers} - compiled.dropped:
        said_by = [
            (
                played.answers.headers.get(stream),
                played.answers.data.get(stream),
                stream in played.answers.ended,
                played.answers.resets.get(stream),
            )
            for played in (compiled, plain)
        ]
        expect(said_by[0] == said_by[1], "both speeds say the same")
    for played in (compiled, plain):
        expect(played.session.queued_bytes == 0, "everything was sent")
        expect(played.session.partial_bytes >= 0, "parts are counted")


@target("sessions.GrpcSession any bytes")
def any_frames(random: Random) -> None:
    """No bytes make either raise, or read or write where it should not; what is queued is counted right."""
    seeds = [
        begun(),
        begun([(4, 10)]),
        called(1, b"x" * 100),
        opened(3),
        said(3, b"y" * 20_000, is_last=False),
        frame(DATA, END_STREAM, 1, prefixed(b"z", mark=1)),
        frame(HEADERS, END_HEADERS | END_STREAM, 3, block([("x-late", "1")])),
        reset(1),
        window(0, 1_000),
        window(3, 1_000),
        frame(PING, payload=bytes(8)),
        frame(SETTINGS, ACK),
        frame(GOAWAY, payload=bytes(8)),
    ]
    # h2 is Python: what it must not do is raise what nobody expects.
    played = Played(random.choice((module("sessions").GrpcSession, grpc_session.GrpcSession)))
    seen: set[int] = set()
    for number in range(random.choice((2, 6, 20))):
        data = random.choice(seeds) if number else begun()
        if random.random() < 0.3:
            data = mutated(random, data)
        for piece in cuts(random, data):
            played.receive(exact_bytes(piece))
        seen |= set(played.calls)
        for _ in range(random.randrange(3)):
            played.act(random.randrange(4), random.choice([*seen, 1, 999]), random.choice(SIZES))
        played.session.take_output(random.choice((1, 1_000, ROOM)))
        unsent = sum(played.session.unsent(stream) for stream in seen | {1})
        expect(played.session.queued_bytes == unsent, "what is queued is counted")
    if random.random() < 0.5:
        played.session.ping()
        played.session.shut_down()
        played.session.take_output(ROOM)


class AnsweringLink:
    """What a call needs of its connection; keeps what it is told."""

    def __init__(self) -> None:
        self.peer, self.peer_host_bytes = "127.0.0.1:1", b"\x7f\0\0\1"
        self.told: list[Any] = []
        self.queued_bytes = self._out_bytes_high = 0
        self._is_noted_for_output, self._headers, self._rooms = False, None, dict[int, Any]()
        self._calls: dict[int, Any] = {}
        self._session, self._methods, self.read_at = self, dict[str, Any](), 1.0

    def answer(self, stream_id: int, message: bytes) -> None:
        self.told.append((stream_id, message))

    def answer_call(self, stream_id: int, message: bytes) -> None:
        self.answer(stream_id, message)
        self._has_output()

    def forget_call(self, call: Any) -> None:
        self._calls.pop(call.stream_id, None)

    def _has_output(self) -> None:
        self.told.append("has output")

    def _take(self, *event: Any) -> None:
        self.told.append(event)

    def _has_room_for_headers(self, stream_id: int, _headers: Any) -> bool:
        return stream_id == 1

    def _refuse_headers(self, call: Any) -> None:
        self.told.append(("refused", call.stream_id))


def noting(kind: Any) -> Any:
    """Return a class of calls that only tells its link how far it came."""

    class NotingCall(kind.PlainCall):  # type: ignore[misc]
        __slots__ = ()

        def _do_by_steps(self, methods: Any, request: bytes) -> None:
            self._link.told.append(("whole", self.stream_id, self.method, request, methods))

        def begin(self, methods: Any) -> None:
            self._link.told.append(("begun", self.stream_id, self.method, methods))

    return NotingCall


@target("plain_calls.PlainCall", "plain_calls.take_all")
def plain_calls(random: Random) -> None:
    """Both speeds know a whole call, and end one that is answered; `test_whole_calls` compares the rest."""
    from pyromq.net.http2 import plain_call as in_python

    kinds = (module("plain_calls"), in_python)
    choices: list[Any] = [(OPENED, "/path", {}), (MESSAGE, b"x", None), (ENDED, None, None), (RESET, 8, True)]
    events = [
        (kind, stream_id, first, second)
        for stream_id in random.choices((1, 3), k=random.randint(0, 4))
        for kind, first, second in random.choice((choices[:3], random.sample(choices, 3)))
    ]
    uncounted, taken = random.choice((0, 1, 100)), []
    for kind in kinds:
        link = AnsweringLink()
        kind.take_all(link, list(events), noting(kind), uncounted)
        taken.append((link.told, list(link._calls)))
    expect(taken[0] == taken[1], "both do what is told alike")
    answers = [random.randbytes(random.choice(SIZES)) for _ in range(random.randint(1, 3))]
    ended = []
    for kind in kinds:
        link = AnsweringLink()
        call = kind.PlainCall(link, 1, "/path", {}, 1.0)
        call._timer = call._task = call.on_over = call._stream = call._request = call._handler = (
            call.deadline
        ) = None
        call.is_over = False
        link._calls[1] = call
        for answer in answers:
            call.answer(answer)
        call.end()
        ended.append((link.told, link._calls, call.is_over))
    expect(ended[0] == ended[1], "both tell the link the same")
