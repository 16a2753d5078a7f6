"""From a request to its answer: the one border where errors become answers.

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

import asyncio
import logging
from functools import partial

from pyromq.codes import CommandFlag, RequestCode, ResponseCode
from pyromq.errors import BodyError, LocalProtocolError, ProtocolError, Refused, StoreError
from pyromq.net.link import Link
from pyromq.net.routes import Answer, Handled, Request, RouteTable
from pyromq.wire.command import Command
from pyromq.wire.header import read_header, write_header

#: Plain numbers: an operation on an enum's member costs ten times one on an int, and each answer pays it.
_RESPONSE = int(CommandFlag.RESPONSE)
_ONEWAY = int(CommandFlag.ONEWAY)

_log = logging.getLogger("pyromq.net")


class Dispatcher:
    """Hands requests to the handlers of a table, and their answers to the links."""

    def __init__(self, table: RouteTable, *, name: str, requests_under_way_max: int) -> None:
        self._table = table
        self._by_code = table.by_code
        self._unknown = table.unknown
        self._name = name
        self._under_way_max = requests_under_way_max

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
        if len(link.under_way) >= self._under_way_max:
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
            f"{self._name}: {len(link.under_way)} requests of {link.peer} wait for their answers; "
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
