"""From a request to its answer: the table of requests, and the one border where errors become answers.

A server's `routes.py` lists its `Route`s on one page, each with all that is to be known of its request; a
`RequestTable` finds them by code, and a `Dispatcher` calls their handlers. A handler takes a `Request` and
returns its `Answer` at once (no task is made for it), or something to await that will give one, or None for
no answer at all. It raises `Refused` to say no.

    Refused                 its code and remark, with the route's `refusal_ext`
    HeaderError, BodyError  SYSTEM_ERROR with the text, which names the field; one log line
    and the like
    StoreError              SERVICE_NOT_AVAILABLE with the text: a full or ill disk; one log line
    anything else           SYSTEM_ERROR; one log line with the trace

A oneway request is never answered. A handler that returns its answer at once costs no task; one that returns
something to await is owned by the link, and cancelled with it. A connection with `requests_under_way_max`
unanswered requests gets SYSTEM_BUSY for the next one and is still read: were it read no further, a client
that holds many pulls could not even send its heartbeat.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from pyromq.codes import CommandFlag, RequestCode, ResponseCode
from pyromq.errors import BodyError, LocalProtocolError, ProtocolError, Refused, StoreError
from pyromq.wire.command import Command
from pyromq.wire.header import Header, read_header, write_header

if TYPE_CHECKING:
    from pyromq.net.link import Link

H = TypeVar("H")

#: Plain numbers: an operation on an enum's member costs ten times one on an int, and each answer pays it.
_RESPONSE: Final = int(CommandFlag.RESPONSE)
_ONEWAY: Final = int(CommandFlag.ONEWAY)

_log = logging.getLogger("pyromq.net")


class Answer:
    """A handler's answer.

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
    """The limit of a request's body in bytes; a longer one is refused before anything else reads it."""

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


class RequestTable:
    """Routes by code; `unknown` answers the codes that have none.

    `pressure`, if set, is asked before all whether a request is taken now, then `admit` who may send it.
    `on_refused`, if set, is told after each request that a handler or a guard refused.
    """

    __slots__ = ("admit", "answer", "by_code", "on_refused", "pressure", "unknown")

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
        #: Answers a request that was let in before, as the dispatcher of the table does.
        self.answer: Callable[[Link, Command, Callable[[], Answer]], None] | None = None
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


class Dispatcher:
    """Hands requests to the handlers of a table, and their answers to the links."""

    def __init__(self, table: RequestTable, *, name: str, requests_under_way_max: int) -> None:
        self._table = table
        self._by_code = table.by_code
        self._unknown = table.unknown
        self._name = name
        self._under_way_max = requests_under_way_max
        table.answer = self.answer

    def answer(self, link: Link, command: Command, handle: Callable[[], Answer]) -> None:
        """Answer a request that was let in before, with what `handle` returns or raises now."""
        try:
            answer = handle()
        except Exception as error:  # noqa: BLE001  the border: whatever a handler raises is answered
            answer = self._answer_to(error, link, command)
        self._send(link, command, answer)

    def __call__(self, link: Link, command: Command) -> None:
        """Handle a request, now or in a task."""
        try:
            handled = self._handle(link, command)
        except Exception as error:  # noqa: BLE001  the border: whatever a handler raises is answered
            handled = self._answer_to(error, link, command)
        if handled is None or isinstance(handled, Answer):
            self._send(link, command, handled)
            return
        future = asyncio.ensure_future(handled)
        link.under_way.add(future)
        if self._table.pressure is not None:
            self._table.pressure.waits(command.code, future)
        future.add_done_callback(partial(self._finish, link, _envelope(command)))

    def _handle(self, link: Link, command: Command) -> Handled:
        if link.under_way_count >= self._under_way_max:
            return self._busy(link)
        pressure = self._table.pressure
        if pressure is not None and (refusal := pressure.refuse(link, command)) is not None:
            return refusal
        admit = self._table.admit
        caller = None
        if admit is not None:
            admitted = admit(link, command)
            if isinstance(admitted, Answer):
                return admitted
            caller = admitted
        route = self._by_code.get(command.code)
        if route is None:
            _log.warning(
                "%s: %s asks for code %d, which is unknown here", self._name, link.peer, command.code
            )
            return self._unknown(Request(command, None, link, caller))
        if len(command.body) > route.body:
            raise BodyError(_too_long(command, route.body))
        header = None if route.header is None else read_header(route.header, command.ext)
        request = Request(command, header, link, caller)
        for guard in route.guards:
            guard(request)
        return route.handle(request)

    def _busy(self, link: Link) -> Answer:
        return Answer(
            ResponseCode.SYSTEM_BUSY,
            f"{self._name}: {link.under_way_count} requests of {link.peer} wait for their answers; "
            "wait for some of them, use more connections, or raise requestsUnderWayMax",
        )

    def _finish(self, link: Link, command: Command, future: asyncio.Future[Answer | None]) -> None:
        link.under_way.discard(future)
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self._send(link, command, future.result())
        elif isinstance(error, Exception):
            self._send(link, command, self._answer_to(error, link, command))
        else:
            raise error

    def _answer_to(self, error: Exception, link: Link, command: Command) -> Answer:
        if isinstance(error, Refused):
            if self._table.on_refused is not None:
                self._table.on_refused()
            route = self._by_code.get(command.code)
            return Answer(error.code, error.remark, ext=None if route is None else route.refusal_ext)
        what = _request_name(command.code)
        if isinstance(error, ProtocolError):
            _log.warning("%s: %s of %s does not read: %s", self._name, what, link.peer, error)
            return Answer(ResponseCode.SYSTEM_ERROR, str(error))
        if isinstance(error, StoreError):
            # What a disk does is no mistake of ours: a trace would tell an operator nothing.
            _log.error("%s: %s of %s failed: %s", self._name, what, link.peer, error)
            return Answer(ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
        _log.error("%s: %s of %s failed", self._name, what, link.peer, exc_info=error)
        return Answer(
            ResponseCode.SYSTEM_ERROR,
            f"{type(error).__name__}: {error}; the log of {self._name} has the cause",
        )

    def _send(self, link: Link, command: Command, answer: Answer | None) -> None:
        if answer is None or command.flag & _ONEWAY:
            return
        ext = answer.ext
        if ext is None and answer.header is not None:
            ext = write_header(answer.header)
        response = Command(
            answer.code,
            opaque=command.opaque,
            flag=_RESPONSE,
            remark=answer.remark,
            ext=ext,
            body=answer.body,
            serializer=command.serializer,
        )
        try:
            link.send(response)
        except LocalProtocolError as error:
            _log.exception("%s: the answer to %s does not fit", self._name, _request_name(command.code))
            response.code, response.remark = ResponseCode.SYSTEM_ERROR, f"the answer does not fit: {error}"
            response.ext, response.body = None, b""
            link.send(response)


def _envelope(command: Command) -> Command:
    """Return what an answer needs of a request that waits: not its body, nor fields that nobody reads."""
    return Command(command.code, opaque=command.opaque, flag=command.flag, serializer=command.serializer)


def _too_long(command: Command, limit: int) -> str:
    return f"{_request_name(command.code)} carries at most {limit} bytes of body, not {len(command.body)}"


def _request_name(code: int) -> str:
    try:
        return f"{RequestCode(code).name} ({code})"
    except ValueError:
        return f"code {code}"
