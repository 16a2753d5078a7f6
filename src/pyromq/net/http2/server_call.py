"""One call on a link of a server: its handler, its deadline, its end. The border where its errors end too."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from pyromq.kernel import IS_COMPILED
from pyromq.net.http2.grpc_calls import GrpcCall, GrpcFailed, GrpcMethod, GrpcMethods, GrpcStatus
from pyromq.net.http2.plain_call import DEADLINE_S_MAX
from pyromq.net.http2.session_terms import timeout_s

if TYPE_CHECKING or not IS_COMPILED:
    from pyromq.net.http2.plain_call import PlainCall, take_all
else:
    from pyromq._kernel.http2.plain_calls import PlainCall, take_all

__all__ = ["ServerCall", "take_all"]

_log = logging.getLogger("pyromq.net")


class ServerCall(PlainCall):
    """A call that was made to us: `GrpcCall` for its handler, and told by its link what arrives."""

    __slots__ = ()

    # What handlers call ----------------------------------------------------------------------------------

    def send(self, message: bytes) -> None:
        """Send one message when this turn ends; dropped if the call is over."""
        if not self.is_over:
            self._link.send_message(self.stream_id, message)

    def send_framed(self, messages: bytes) -> None:
        """Send messages that have gRPC's prefixes already; see `send`."""
        if not self.is_over:
            self._link.send_framed(self.stream_id, messages)

    async def room(self) -> None:
        """Wait until the client has taken enough of what was sent before, or the call is over."""
        while not self.is_over and not self._link.has_room_for(self.stream_id):
            await self._link.next_room(self)

    def finish(self, status: int = 0, text: str = "") -> None:
        """End the call after what was sent; one that is over stays as it is."""
        if not self.is_over:
            self._link.finish_call(self.stream_id, int(status), text)
            self.end()

    # What the link calls ---------------------------------------------------------------------------------

    def begin(self, methods: GrpcMethods) -> None:
        """Find the handler, or say why there is none."""
        header = self.metadata.get
        encoding = header("grpc-encoding")
        if encoding is not None and encoding != "identity":
            self.finish(
                GrpcStatus.UNIMPLEMENTED,
                f"messages compressed by {encoding} are not taken; send them as they are",
            )
            return
        timeout = header("grpc-timeout")
        if timeout is not None and not self._take_timeout(timeout):
            return
        self._handler = handler = methods.get(self.method)
        if handler is None:
            self.finish(GrpcStatus.UNIMPLEMENTED, f"there is no method {self.method} here")
        elif handler.bidi is not None:
            self._guarded(lambda: self._begin_stream(handler))

    def message(self, data: bytes) -> None:
        """Take a message that arrived."""
        stream = self._stream
        if stream is not None:
            self._guarded(lambda: stream.message(data))
        elif self._request is None:
            self._request = data
        else:
            self.finish(GrpcStatus.INTERNAL, f"{self.method} takes one message, and there were more")

    def half_closed(self) -> None:
        """Note that the client sends no more: now there is a whole request."""
        stream, handler, request = self._stream, self._handler, self._request
        if stream is not None:
            self._guarded(stream.half_closed)
        elif handler is None or request is None:
            self.finish(GrpcStatus.INTERNAL, f"{self.method} takes one message, and there was none")
        elif self.deadline is not None and self._link.now() >= self.deadline:
            self._expire()
        else:
            self._request = None
            if handler.unary is not None:
                self._answer(handler.unary, request)
            else:
                assert handler.server_stream is not None
                self._stream_answers(handler.server_stream, request)

    # Inside ----------------------------------------------------------------------------------------------

    def _do_by_steps(self, methods: GrpcMethods, request: bytes) -> None:
        """Do a call of which all has arrived as if it came bit by bit."""
        self.begin(methods)
        if not self.is_over:
            self.message(request)
        if not self.is_over:
            self.half_closed()

    def _end_others(self) -> None:
        """Tell whatever belongs to the call that it is over."""
        if self._timer is not None:
            self._timer.cancel()
        task = self._task
        if task is not None:
            self._task = None
            if task is not _current_task():
                task.cancel()
        on_over, stream = self.on_over, self._stream
        self.on_over = self._stream = None
        # The call is over: what is raised now has nobody to go to but the log.
        if on_over is not None:
            self._guarded(on_over)
        if stream is not None:
            self._guarded(stream.over)

    def _take_timeout(self, text: str) -> bool:
        seconds = timeout_s(text)
        if seconds is None:
            self.finish(
                GrpcStatus.INTERNAL, f"grpc-timeout is {text[:20]!r}; it is a number of 8 digits and a unit"
            )
            return False
        if seconds <= DEADLINE_S_MAX:
            self.deadline = self.opened_at + seconds
        return True

    def _begin_stream(self, handler: GrpcMethod) -> None:
        assert handler.bidi is not None
        self._stream = handler.bidi(self)
        if self.is_over:
            # Finished before anybody knew the stream.
            stream, self._stream = self._stream, None
            stream.over()
        else:
            self._keep_deadline()

    def _answer(
        self, unary: Callable[[GrpcCall, bytes], bytes | Awaitable[bytes] | None], request: bytes
    ) -> None:
        try:
            answer = unary(self, request)
        except Exception as error:  # noqa: BLE001  the border: whatever a handler raises ends its call
            self._fail(error)
            return
        if answer is not None:
            self.answer(answer)

    def _stream_answers(
        self, server_stream: Callable[[GrpcCall, bytes], Awaitable[None] | None], request: bytes
    ) -> None:
        try:
            answers = server_stream(self, request)
        except Exception as error:  # noqa: BLE001  the border: whatever a handler raises ends its call
            self._fail(error)
            return
        if answers is None:
            self.finish()
        else:
            self._own(answers)

    def _own(self, awaitable: Awaitable[Any]) -> None:
        """Await what a handler returned, until the call is over."""
        task = asyncio.ensure_future(awaitable)
        if self.is_over:
            task.cancel()
            return
        self._task = task
        self._keep_deadline()
        self._link.under_way.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._link.under_way.discard(task)
        self._task = None
        if task.cancelled():
            self.finish(GrpcStatus.UNAVAILABLE, "the server stops; ask another one, or again in a moment")
            return
        error = task.exception()
        if error is None:
            answer = task.result()
            if isinstance(answer, bytes):
                self.answer(answer)
            else:
                self.finish()
        elif isinstance(error, Exception):
            self._fail(error)
        else:
            raise error

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  the border: whatever a handler raises ends its call
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if isinstance(error, GrpcFailed):
            self.finish(error.status, error.text)
            return
        _log.error("%s of %s failed", self.method, self.peer, exc_info=error)
        self.finish(
            GrpcStatus.INTERNAL, f"{type(error).__name__}: {error}; the log of the server has the cause"
        )

    def _keep_deadline(self) -> None:
        if self.deadline is not None:
            left_s = max(self.deadline - self._link.now(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(left_s, self._expire)

    def _expire(self) -> None:
        self.finish(
            GrpcStatus.DEADLINE_EXCEEDED, f"{self.method} was not answered before the deadline of its call"
        )


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        # No loop runs any more.
        return None
