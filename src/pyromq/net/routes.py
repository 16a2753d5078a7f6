"""The table of requests: code → handler, header types, limits, guards.

A server's `routes.py` lists its `Route`s on one page, each with all that is to be known of its request; a
`RouteTable` finds them by code. A handler takes a `Request` and returns its `Answer` at once (no task is
made for it), or something to await that will give one, or None for no answer at all. It raises `Refused` to
say no.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from pyromq.codes import ResponseCode

if TYPE_CHECKING:
    import asyncio

    from pyromq.net.link import Link
    from pyromq.wire.command import Command
    from pyromq.wire.header import Header

H = TypeVar("H")


class Answer:
    """What a handler answers.

    The fields travel as `ext` if that is given, else as `header` writes them. With neither, the answer has no
    `extFields` at all; `ext={}` gives the empty map that RocketMQ writes for an answer header without values.
    """

    __slots__ = ("body", "code", "ext", "header", "remark")

    def __init__(
        self,
        code: int = ResponseCode.SUCCESS,
        remark: str | None = None,
        *,
        header: Header | None = None,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> None:
        self.code = code
        self.remark = remark
        self.header = header
        self.ext = ext
        self.body = body

    def __repr__(self) -> str:
        return f"Answer({self.code}, {self.remark!r}, body of {len(self.body)} bytes)"


class BodyLimit(IntEnum):
    """How many bytes of body a request may carry; a longer one is refused before anything else reads it."""

    #: It says all in its fields. What a client sends besides is ignored, as RocketMQ does.
    FIELDS_ONLY = 64 * 1024
    #: Names, settings and offsets.
    NAMES = 4 * 1024 * 1024
    #: Messages: whatever fits a frame (`frameBytesMax`).
    MESSAGES = 2**31 - 1


class Caller(NamedTuple):
    """Whoever sent a request, as access control knows it.

    `name` is the access key, empty for an address that needs none. `is_trusted`: it may do everything, as
    such an address may, and an administrator.
    """

    name: str
    is_trusted: bool


class Request(Generic[H]):
    """A request that arrived: the command, its typed header, the link to whoever asks, and who that is.

    `caller` is None where there is no access control.
    """

    __slots__ = ("caller", "command", "header", "link")

    def __init__(self, command: Command, header: H, link: Link, caller: Caller | None = None) -> None:
        self.command = command
        self.header = header
        self.link = link
        self.caller = caller

    @property
    def body(self) -> bytes:
        """The request's body."""
        return self.command.body


#: What a handler returns: an answer, none, or either of them later.
Handled = Answer | None | Awaitable[Answer | None]
#: A check that runs before the handler and raises Refused to say no.
Guard = Callable[[Request[Any]], None]
#: Looks at a request before anything else does: returns who sent it, or the answer to one that may not pass.
Admit = Callable[["Link", "Command"], Answer | Caller]


class Pressure(Protocol):
    """Says no to requests of which too many wait, or which waited too long, before anything else is asked."""

    def refuse(self, link: Link, command: Command) -> Answer | None:
        """Return the answer to a request that is not taken, None for one that is."""
        ...

    def waits(self, code: int, answered: asyncio.Future[Any]) -> None:
        """Note that a request was taken and its answer is not there yet."""
        ...


@dataclass(frozen=True, slots=True)
class Route(Generic[H]):
    """One request that a server answers. Guards run in their order, after the header was read.

    `header` is the type of the request's fields, `answer` that of the answer's, None where there are none; an
    answer type without fields carries an empty map, as RocketMQ 4.9.8 sends it. `holds`: the answer may wait
    for messages on purpose. `refusal_ext` are the fields of an answer that says no: RocketMQ's differ from
    request to request.
    """

    code: int
    handle: Callable[[Request[H]], Handled]
    header: type[H] | None = None
    answer: type[Header] | None = None
    body: BodyLimit = BodyLimit.MESSAGES
    holds: bool = False
    guards: tuple[Guard, ...] = ()
    refusal_ext: dict[str, str] | None = None


def not_supported(request: Request[None]) -> Answer:
    """Answer a code that is not in the table, as RocketMQ's broker does."""
    # The leading space is RocketMQ's own.
    return Answer(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {request.command.code} not supported"
    )


class RouteTable:
    """Routes by code; `unknown` answers the codes that have none.

    `pressure`, if set, is asked before all whether a request is taken now, then `admit` who may send it.
    `on_refused`, if set, is told after each request that a handler or a guard refused.
    """

    __slots__ = ("admit", "by_code", "on_refused", "pressure", "unknown")

    def __init__(
        self,
        routes: Iterable[Route[Any]],
        *,
        unknown: Callable[[Request[None]], Handled] = not_supported,
    ) -> None:
        self.by_code: dict[int, Route[Any]] = {}
        self.unknown = unknown
        self.admit: Admit | None = None
        self.on_refused: Callable[[], None] | None = None
        self.pressure: Pressure | None = None
        self.add(routes)

    def add(self, routes: Iterable[Route[Any]]) -> None:
        """Answer these codes too; a server that has the table does so from now on."""
        for route in routes:
            assert route.code not in self.by_code, f"code {route.code} is routed twice"
            self.by_code[int(route.code)] = route

    def guard(self, guard: Guard, codes: Iterable[int] | None = None) -> None:
        """Let the requests of some codes, or all, pass a guard before the ones that they have."""
        for code in self.codes if codes is None else codes:
            route = self.by_code[code]
            self.by_code[code] = replace(route, guards=(guard, *route.guards))

    @property
    def codes(self) -> frozenset[int]:
        """The codes that are answered."""
        return frozenset(self.by_code)
