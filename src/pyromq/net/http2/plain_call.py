"""A call whose request is there as a whole, and whose handler is called once: most calls are.

    path, headers, message, end ─► do_whole ─► handler ─► answer ─► end

`_kernel/http2/plain_calls` is the same, compiled. What is not plain (a stream, a task, a header that asks for
more) is `ServerCall`'s, which inherits one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyromq.net.http2.grpc_calls import GrpcMethod, GrpcMethods, GrpcStream
from pyromq.net.http2.session_terms import ENDED, MESSAGE, OPENED, Event, timeout_s

if TYPE_CHECKING:
    from pyromq.net.http2.grpc_link import GrpcLink
    from pyromq.net.http2.server_call import ServerCall

#: A deadline that is further away is none.
DEADLINE_S_MAX = 366 * 24 * 3600.0


def is_whole(events: list[Event], at: int, stream_id: int) -> bool:
    """Whether a call has its only message and its end next among some events."""
    if at + 2 > len(events):
        return False
    return events[at][:2] == (MESSAGE, stream_id) and events[at + 1][:2] == (ENDED, stream_id)


def take_all(link: GrpcLink, events: list[Event], call_type: type[ServerCall], uncounted: int) -> None:
    """Have the calls of a link do what its session tells; `call_type` is that of new calls.

    Headers of more calls than `uncounted` are counted.
    """
    calls, count, at = link._calls, len(events), 0
    while at < count:
        kind, stream_id, first, second = events[at]
        at += 1
        if kind != OPENED:
            link._take(kind, stream_id, first, second)
            continue
        # By the time when it was read: a call that waited in a long turn has waited.
        call = calls[stream_id] = call_type(link, stream_id, first, second, link.read_at)
        if len(calls) > uncounted and not link._has_room_for_headers(stream_id, second):
            link._refuse_headers(call)
        elif is_whole(events, at, stream_id):
            call.do_whole(link._methods, events[at][2])
            at += 2
        else:
            call.begin(link._methods)


class PlainCall:
    """The fields of a call, and the steps that most calls take."""

    __slots__ = (
        "_handler",
        "_link",
        "_request",
        "_stream",
        "_task",
        "_timer",
        "deadline",
        "is_over",
        "metadata",
        "method",
        "on_over",
        "opened_at",
        "peer",
        "peer_host_bytes",
        "stream_id",
    )

    def __init__(
        self, link: GrpcLink, stream_id: int, path: str, metadata: Mapping[str, str], opened_at: float
    ) -> None:
        self._link = link
        self.stream_id = stream_id
        self.method = path
        self.metadata = metadata
        self.peer = link.peer
        self.peer_host_bytes = link.peer_host_bytes
        self.opened_at = opened_at
        self.deadline: float | None = None
        self.is_over = False
        self.on_over: Callable[[], None] | None = None
        self._handler: GrpcMethod | None = None
        self._request: bytes | None = None
        self._stream: GrpcStream | None = None
        self._task: asyncio.Future[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def do_whole(self, methods: GrpcMethods, request: bytes) -> None:
        """Do a call of which all has arrived."""
        header, handler = self.metadata.get, methods.get(self.method)
        do = None if handler is None else handler.unary or handler.server_stream
        if handler is None or do is None or header("grpc-encoding") is not None:
            self._do_by_steps(methods, request)
            return
        timeout = header("grpc-timeout")
        if timeout is not None:
            seconds = timeout_s(timeout)
            if seconds is None:
                self._do_by_steps(methods, request)
                return
            if seconds <= DEADLINE_S_MAX:
                self.deadline = self.opened_at + seconds
                if self._link.now() >= self.deadline:
                    self._expire()
                    return
        try:
            answer = do(self, request)
        except Exception as error:  # noqa: BLE001  the border: whatever a handler raises ends its call
            self._fail(error)
            return
        if answer is None:
            # Of a stream it was all; another call is answered later.
            if handler.unary is None:
                self.finish()
        elif isinstance(answer, bytes):
            self.answer(answer)
        else:
            self._own(answer)

    def answer(self, answer: bytes | Awaitable[bytes]) -> None:
        """Answer the call with its only message, or with what gives it later."""
        if not isinstance(answer, bytes):
            self._own(answer)
        elif not self.is_over:
            self._link.answer_call(self.stream_id, answer)
            self.end()

    def end(self) -> None:
        """Note that the call is over: its task is cancelled, and whoever wants to know is told."""
        if self.is_over:
            return
        self.is_over = True
        self._request = None
        self._link.forget_call(self)
        others = (self._timer, self._task, self.on_over, self._stream)
        if any(other is not None for other in others):
            self._end_others()

    # What `ServerCall` does ------------------------------------------------------------------------------

    def send(self, message: bytes) -> None:
        """Send one message when this turn ends; dropped if the call is over."""
        raise NotImplementedError

    def send_framed(self, messages: bytes) -> None:
        """Send messages that have gRPC's prefixes already; see `send`."""
        raise NotImplementedError

    async def room(self) -> None:
        """Wait until the client has taken enough of what was sent before, or the call is over."""
        raise NotImplementedError

    def finish(self, status: int = 0, text: str = "") -> None:
        """End the call after what was sent; one that is over stays as it is."""
        raise NotImplementedError

    def _do_by_steps(self, methods: GrpcMethods, request: bytes) -> None:
        raise NotImplementedError

    def _expire(self) -> None:
        raise NotImplementedError

    def _fail(self, error: Exception) -> None:
        raise NotImplementedError

    def _own(self, awaitable: Awaitable[Any]) -> None:
        raise NotImplementedError

    def _end_others(self) -> None:
        raise NotImplementedError
