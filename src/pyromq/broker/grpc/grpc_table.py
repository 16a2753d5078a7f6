"""Every RPC that the broker answers, and the one border where errors become statuses.

An `Rpc` says its name, its messages, and what its account needs; a handler takes the caller and the request,
and returns the response, at once or later. It raises `GrpcRefused` to say no.

    client id ─► account ─► permission ─► handler

    GrpcRefused         its code and text
    Refused             a handler of remoting said no: the code that gRPC has for it
    ProtocolError       INTERNAL_SERVER_ERROR with the text, which names the field; one log line
    StoreError          INTERNAL_SERVER_ERROR with the text: a full or ill disk; one log line
    anything else       INTERNAL_SERVER_ERROR; one log line with the trace

A business error is a `Status` in a call that ends well; only bytes that are no request end it otherwise.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, Generic, Protocol, TypeVar

from pyromq.broker.grpc.grpc_access import GrpcAccess
from pyromq.broker.grpc.grpc_callers import GrpcCaller, caller_of, client_id_of
from pyromq.broker.grpc.grpc_needs import GrpcNeeds
from pyromq.broker.grpc.waiting_bytes import WaitingBytes
from pyromq.errors import ProtocolError, Refused, StoreError
from pyromq.net.http2.grpc_calls import GrpcCall, GrpcFailed, GrpcMethod, GrpcStatus
from pyromq.net.routes import Caller
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused, code_of_remoting
from pyromq.wire.grpc.grpc_messages import DecodeError, ProtoMessage, Status

SERVICE: Final = "/apache.rocketmq.v2.MessagingService/"
OK_STATUS: Final = Status(code=GrpcCode.OK, message=GrpcCode.OK.name)

_log = logging.getLogger("pyromq.grpc")

Asked = TypeVar("Asked", bound=ProtoMessage)
Answered = TypeVar("Answered", bound="HasStatus")
#: A request as a handler of a stream is given it.
Told = TypeVar("Told")


class HasStatus(Protocol):
    """A response: all of them have a status."""

    status: Status

    def SerializeToString(self) -> bytes:  # noqa: N802  protobuf calls it so
        """Return its bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Rpc(Generic[Asked, Answered]):
    """One RPC with one request and one response."""

    name: str
    request: type[Asked]
    #: Makes an empty response.
    response: Callable[[], Answered]
    needs: GrpcNeeds
    handle: Callable[[GrpcCaller, Asked], Answered | Awaitable[Answered]]
    #: Says how many bytes are kept of a request while its answer waits; without it, all may be.
    kept: Callable[[Asked], int] | None = None


@dataclass(frozen=True, slots=True)
class StreamedRpc(Generic[Told]):
    """One RPC with one request and many responses; `refuse` sends a refusal, and what belongs behind it.

    The response to a refusal that nobody was let in for is one status, as `refuse` without more sends it.
    """

    name: str
    request: type[ProtoMessage]
    needs: GrpcNeeds
    handle: Callable[[GrpcCall, GrpcCaller, Told], Awaitable[None] | None]
    #: Returns the one response that says no.
    refusal: Callable[[int, str], bytes]
    #: Returns what follows it, unless the caller was not let in.
    end: Callable[[], bytes] | None = None
    #: Reads a request for `needs` and `handle`, or raises DecodeError; without it, protobuf does.
    read: Callable[[bytes], Told] | None = None


class CallDone(Protocol):
    """Whoever is told of calls: the RPC, its code, and when it began by `perf_counter`."""

    def __call__(self, name: str, code: int, began: float, *, is_held: bool) -> None:
        """Note a call."""
        ...


class GrpcTable:
    """The RPCs of one broker, as methods for the transport."""

    def __init__(self, access: GrpcAccess) -> None:
        self._access = access
        #: What is kept of calls that wait.
        self.waiting = WaitingBytes()
        self.methods: dict[str, GrpcMethod] = {}
        #: What each RPC needs, by its name; for whoever walks over all of them.
        self.rpcs: dict[str, Rpc[Any, Any] | StreamedRpc[Any]] = {}
        #: Told of each call that was refused.
        self.on_refused: Callable[[], None] | None = None
        #: How many calls were answered, by RPC and code. A stream that was served counts as OK.
        self.calls: Counter[tuple[str, int]] = Counter()
        #: Told of each call, if somebody wants to know how long they take.
        self.on_done: CallDone | None = None

    def add(self, rpcs: Iterable[Rpc[Any, Any] | StreamedRpc[Any]]) -> None:
        """Answer these RPCs too."""
        for rpc in rpcs:
            path = f"{SERVICE}{rpc.name}"
            assert path not in self.methods, f"{rpc.name} is there twice"
            self.rpcs[rpc.name] = rpc
            self.methods[path] = (
                GrpcMethod(unary=self._unary(rpc))
                if isinstance(rpc, Rpc)
                else GrpcMethod(server_stream=self._streamed(rpc))
            )

    @staticmethod
    def path(name: str) -> str:
        """Return the path by which the transport knows an RPC."""
        return f"{SERVICE}{name}"

    def done(self, name: str, code: int, began: float) -> None:
        """Note a call that was answered without the table."""
        self._done(name, code, began)

    def refused(self, name: str, error: Exception, call: GrpcCall, began: float) -> bytes:
        """Return the response to a call that was let in before, and that an error ends."""
        rpc = self.rpcs[name]
        assert isinstance(rpc, Rpc)
        return self._refusal(error, rpc, call, began)

    def add_method(self, name: str, method: GrpcMethod) -> None:
        """Answer an RPC whose messages go both ways; it looks at its callers itself."""
        self.methods[f"{SERVICE}{name}"] = method

    def _unary(self, rpc: Rpc[Any, Any]) -> Callable[[GrpcCall, bytes], bytes | Awaitable[bytes]]:
        def answer(call: GrpcCall, data: bytes) -> bytes | Awaitable[bytes]:
            began = perf_counter()
            request = _read(rpc, rpc.request.FromString, data)
            try:
                client_id = client_id_of(call)
                account = self._account(call, rpc, request)
                self.waiting.check()
                handled = rpc.handle(caller_of(call, client_id, account), request)
            except Exception as error:  # noqa: BLE001  the border: whatever a handler raises is answered
                return self._refusal(error, rpc, call, began)
            if isinstance(handled, Awaitable):
                kept = len(data) if rpc.kept is None else rpc.kept(request)
                return self.waiting.own(later(handled, call, began), kept)
            self._done(rpc.name, handled.status.code, began)
            written: bytes = handled.SerializeToString()
            return written

        async def later(handling: Awaitable[Any], call: GrpcCall, began: float) -> bytes:
            try:
                response = await handling
            except Exception as error:  # noqa: BLE001  the same border, for what takes longer
                return self._refusal(error, rpc, call, began)
            self._done(rpc.name, response.status.code, began)
            written: bytes = response.SerializeToString()
            return written

        return answer

    def _streamed(self, rpc: StreamedRpc[Any]) -> Callable[[GrpcCall, bytes], Awaitable[None] | None]:
        read = rpc.request.FromString if rpc.read is None else rpc.read

        def answer(call: GrpcCall, data: bytes) -> Awaitable[None] | None:
            began = perf_counter()
            request = _read(rpc, read, data)
            try:
                client_id = client_id_of(call)
                account = self._account(call, rpc, request)
            except GrpcRefused as refused:
                self._note(refused)
                self._done(rpc.name, refused.code, began)
                call.send(rpc.refusal(refused.code, refused.text))
                return None
            try:
                self.waiting.check()
                handled = rpc.handle(call, caller_of(call, client_id, account), request)
            except Exception as error:  # noqa: BLE001  the same border
                self._refuse_stream(error, rpc, call, began)
                return None
            if handled is not None:
                return self.waiting.own(later(handled, call, began), len(data))
            self._done(rpc.name, GrpcCode.OK, began)
            return None

        async def later(handling: Awaitable[None], call: GrpcCall, began: float) -> None:
            try:
                await handling
            except Exception as error:  # noqa: BLE001  the same border, for what takes longer
                self._refuse_stream(error, rpc, call, began)
            else:
                self._done(rpc.name, GrpcCode.OK, began, is_held=True)

        return answer

    def _account(self, call: GrpcCall, rpc: Rpc[Any, Any] | StreamedRpc[Any], request: Any) -> Caller | None:
        """Return whose a call is; raise GrpcRefused if it may not be made."""
        return self._access.admit(call, rpc.needs(request)) if self._access.is_wanted else None

    def _done(self, name: str, code: int, began: float, *, is_held: bool = False) -> None:
        self.calls[name, code] += 1
        if self.on_done is not None:
            self.on_done(name, code, began, is_held=is_held)

    def _refuse_stream(self, error: Exception, rpc: StreamedRpc[Any], call: GrpcCall, began: float) -> None:
        code, text = self.told(error, rpc.name, call)
        self._done(rpc.name, code, began)
        call.send(rpc.refusal(code, text))
        if rpc.end is not None:
            call.send(rpc.end())

    def answer_with(self, name: str, call: GrpcCall, handle: Callable[[], HasStatus]) -> bytes:
        """Return the bytes of what `handle` returns or raises now, for a call that was let in before."""
        rpc, began = self.rpcs[name], perf_counter()
        assert isinstance(rpc, Rpc)
        try:
            response = handle()
        except Exception as error:  # noqa: BLE001  the same border
            return self._refusal(error, rpc, call, began)
        self._done(name, response.status.code, began)
        return response.SerializeToString()

    def _refusal(self, error: Exception, rpc: Rpc[Any, Any], call: GrpcCall, began: float) -> bytes:
        code, text = self.told(error, rpc.name, call)
        self._done(rpc.name, code, began)
        response = rpc.response()
        response.status.code, response.status.message = code, text
        written: bytes = response.SerializeToString()
        return written

    def told(self, error: Exception, name: str, call: GrpcCall) -> tuple[int, str]:
        """Return the code and the text of an error; one that is not the caller's is logged."""
        self._note(error)
        if isinstance(error, GrpcRefused):
            return error.code, error.text
        if isinstance(error, Refused):
            return code_of_remoting(error.code), error.remark or GrpcCode.INTERNAL_SERVER_ERROR.name
        if isinstance(error, ProtocolError | StoreError):
            _log.warning("%s of %s failed: %s", name, call.peer, error)
            return GrpcCode.INTERNAL_SERVER_ERROR, str(error)
        _log.error("%s of %s failed", name, call.peer, exc_info=error)
        text = f"{type(error).__name__}: {error}; the broker's log has the cause"
        return GrpcCode.INTERNAL_SERVER_ERROR, text

    def _note(self, error: Exception) -> None:
        if isinstance(error, GrpcRefused | Refused) and self.on_refused is not None:
            self.on_refused()


def _read(rpc: Rpc[Any, Any] | StreamedRpc[Any], read: Callable[[bytes], Told], data: bytes) -> Told:
    try:
        return read(data)
    except DecodeError as error:
        raise GrpcFailed(GrpcStatus.INTERNAL, f"the bytes are no {rpc.request.__name__}: {error}") from error
