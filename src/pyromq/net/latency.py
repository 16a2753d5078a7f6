"""Latency of requests: RocketMQ 5.x's `rocketmq_rpc_latency`, in milliseconds.

Routes are timed one request at a time, which costs little beside the way through Python. Requests that the
kernel answers are timed by the turn: one observation for all plain sends, or pulls, that came together.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, Final

from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import Refused
from pyromq.net.link import Link
from pyromq.net.metrics import Histogram
from pyromq.net.routes import Answer, Handled, Request, RequestTable, Route
from pyromq.net.turn import Shortcut

#: RocketMQ's own bounds begin with a whole millisecond, where most of ours are over.
BOUNDS_MS: Final = (0.1, 0.3, 1, 3, 5, 7, 10, 30, 100, 300, 1000, 2000, 3000)
REMOTING: Final = "remoting"


class RequestTimes:
    """Times requests into one histogram; nothing is timed before something is given to it."""

    def __init__(self) -> None:
        self.histogram = Histogram(
            "rocketmq_rpc_latency",
            "Milliseconds from a request to its answer; one observation for requests that came together.",
            ("protocol_type", "request_code", "response_code", "is_long_polling"),
            BOUNDS_MS,
        )

    def time_routes(self, table: RequestTable) -> None:
        """Time all requests of a table from now on."""
        for code, route in table.by_code.items():
            table.by_code[code] = self._timed(route)

    def around(self, shortcut: Shortcut | None, request_code: int) -> Shortcut | None:
        """Return a shortcut that is timed when it handled something."""
        if shortcut is None:
            return None
        labels = _labels(request_code, int(ResponseCode.SUCCESS), is_held=False)

        def timed(links: list[Link]) -> bool:
            began = perf_counter()
            is_handled = shortcut(links)
            if is_handled:
                self.histogram.observe((perf_counter() - began) * 1000, labels)
            return is_handled

        return timed

    def held(self, request_code: int) -> Callable[[int], None]:
        """Return what is told for how many milliseconds requests were held that are answered together."""
        labels = _labels(request_code, int(ResponseCode.SUCCESS), is_held=True)

        def observe(held_ms: int) -> None:
            self.histogram.observe(held_ms, labels)

        return observe

    def _timed(self, route: Route[Any]) -> Route[Any]:
        inner, code, holds = route.handle, int(route.code), route.holds

        def handle(request: Request[Any]) -> Handled:
            began = perf_counter()
            try:
                handled = inner(request)
            except Refused as error:
                self._observe(code, error.code, began)
                raise
            if handled is None or isinstance(handled, Answer):
                self._observe(code, 0 if handled is None else handled.code, began)
                return handled
            if isinstance(handled, asyncio.Future):
                handled.add_done_callback(partial(self._done, code, began, is_held=holds))
                return handled
            return self._awaited(handled, code, began, is_held=holds)

        return replace(route, handle=handle)

    async def _awaited(
        self, handled: Awaitable[Answer | None], code: int, began: float, *, is_held: bool
    ) -> Answer | None:
        try:
            answer = await handled
        except Refused as error:
            self._observe(code, error.code, began)
            raise
        self._observe(code, 0 if answer is None else answer.code, began, is_held=is_held)
        return answer

    def _done(
        self, code: int, began: float, answered: "asyncio.Future[Answer | None]", *, is_held: bool
    ) -> None:
        if answered.cancelled():
            return
        error = answered.exception()
        if error is not None:
            response = error.code if isinstance(error, Refused) else ResponseCode.SYSTEM_ERROR
        else:
            answer = answered.result()
            response = 0 if answer is None else answer.code
        self._observe(code, response, began, is_held=is_held)

    def _observe(self, code: int, response: int, began: float, *, is_held: bool = False) -> None:
        self.histogram.observe((perf_counter() - began) * 1000, _labels(code, response, is_held=is_held))


def _labels(code: int, response: int, *, is_held: bool) -> tuple[str, ...]:
    return REMOTING, _name(RequestCode, code), _name(ResponseCode, response), str(is_held).lower()


def _name(codes: type[RequestCode] | type[ResponseCode], code: int) -> str:
    try:
        return codes(code).name.lower()
    except ValueError:
        return str(int(code))
