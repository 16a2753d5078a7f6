"""Calls of gRPC, as whoever answers them sees them: a table of methods, and the call that each is given.

    unary            one request, one answer: `unary(call, request)` returns the answer, or something to
                     await that gives it, or None: it calls `call.answer` later
    server stream    one request, many answers: `server_stream(call, request)` sends by `call.send`, and
                     returns None when it has sent all; or it returns something to await, which waits by
                     `await call.room()` before it sends much
    both ways        `bidi(call)` returns a `GrpcStream`, which is told of each message that arrives

A handler that is done ends its call with status OK; one that raises `GrpcFailed` ends it with that status.
Whatever else it raises is logged once and ends the call with INTERNAL. Something to await is owned by the
connection, and cancelled as soon as the call is over: its client cancelled it, its deadline passed, or the
connection ended. A stream both ways lasts until one of its sides calls `finish`, or the call is over.

What a handler sends is written when the turn of the loop ends, with all other answers of the connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol


class GrpcStatus(IntEnum):
    """gRPC's statuses, by their numbers on the wire."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class GrpcFailed(Exception):
    """A call ends with a status other than OK, and a text that says what to do."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"gRPC status {int(status)}: {text}")
        self.status = int(status)
        self.text = text


class GrpcCall(Protocol):
    """One call that was made to us, until it is over."""

    #: The path that was called, such as `/apache.rocketmq.v2.MessagingService/SendMessage`.
    method: str
    #: Headers by their names in lower case, without those that begin with a colon; of several of one name the
    #: last. Values of names that end in `-bin` stay in base64.
    metadata: Mapping[str, str]
    #: Whoever called: `host:port`, and the bytes that a record carries of it.
    peer: str
    peer_host_bytes: bytes
    #: When the call ends with DEADLINE_EXCEEDED, in seconds of the server's `Clock.monotonic`; None: never.
    deadline: float | None
    #: Whether the call has ended, for whatever reason. What is sent then is dropped.
    is_over: bool
    #: Called once when the call is over, for whatever reason; not if it is set afterwards.
    on_over: Callable[[], None] | None

    def send(self, message: bytes) -> None:
        """Send one message when this turn ends; dropped if the call is over."""
        ...

    def send_framed(self, messages: bytes) -> None:
        """Send messages that have gRPC's prefixes already; see `send`."""
        ...

    async def room(self) -> None:
        """Wait until the client has taken enough of what was sent before, or the call is over."""
        ...

    def finish(self, status: int = 0, text: str = "") -> None:
        """End the call after what was sent; one that is over stays as it is."""
        ...

    def answer(self, answer: bytes | Awaitable[bytes]) -> None:
        """Answer a call whose handler returned None, with the only message or what gives it later."""
        ...


class GrpcStream(Protocol):
    """Our side of a call with messages both ways. What it raises ends the call, as with other handlers."""

    def message(self, data: bytes) -> None:
        """Take a message that arrived."""
        ...

    def half_closed(self) -> None:
        """Note that the client sends no more; the call goes on until it is finished."""
        ...

    def over(self) -> None:
        """Note, once, that the call is over, for whatever reason."""
        ...


@dataclass(frozen=True, slots=True)
class GrpcMethod:
    """The handler of a method: exactly one of the three."""

    unary: Callable[[GrpcCall, bytes], bytes | Awaitable[bytes] | None] | None = None
    server_stream: Callable[[GrpcCall, bytes], Awaitable[None] | None] | None = None
    bidi: Callable[[GrpcCall], GrpcStream] | None = None

    def __post_init__(self) -> None:
        kinds = (self.unary, self.server_stream, self.bidi)
        if sum(kind is not None for kind in kinds) != 1:
            raise ValueError("a method has one handler: unary, server_stream or bidi")


#: Methods by their paths, `/package.Service/Method`. A call of a path that is not there ends with
#: UNIMPLEMENTED.
GrpcMethods = Mapping[str, GrpcMethod]
