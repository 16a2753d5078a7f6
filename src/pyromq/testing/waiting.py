"""Wait for a condition with a deadline, instead of sleeping and hoping.

    eventually(lambda: broker.held_pulls == 1)
    messages = await aeventually(lambda: consumer.received or None)

The condition's first true value is returned. A deadline that passes is an AssertionError that says what was
waited for and what was seen last.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")

#: Seconds that a condition has by default. Long, because it is only ever spent when a test fails.
DEADLINE_S = 30.0
_STEP_S = 0.005


def eventually(condition: Callable[[], T], timeout_s: float = DEADLINE_S, *, what: str | None = None) -> T:
    """Call `condition` until it returns something true, and return that."""
    deadline = time.monotonic() + timeout_s
    while True:
        seen = condition()
        if seen:
            return seen
        if time.monotonic() >= deadline:
            raise AssertionError(_complaint(condition, seen, timeout_s, what))
        time.sleep(_STEP_S)


@overload
async def aeventually(
    condition: Callable[[], Awaitable[T]], timeout_s: float = ..., *, what: str | None = ...
) -> T: ...
@overload
async def aeventually(condition: Callable[[], T], timeout_s: float = ..., *, what: str | None = ...) -> T: ...
async def aeventually(
    condition: Callable[[], object], timeout_s: float = DEADLINE_S, *, what: str | None = None
) -> object:
    """Do the same without blocking the loop; `condition` may be a coroutine function."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = condition()
        seen = await answer if inspect.isawaitable(answer) else answer
        if seen:
            return seen
        if time.monotonic() >= deadline:
            raise AssertionError(_complaint(condition, seen, timeout_s, what))
        await asyncio.sleep(_STEP_S)


def _complaint(condition: Callable[[], object], seen: object, timeout_s: float, what: str | None) -> str:
    name = what or getattr(condition, "__qualname__", repr(condition))
    return f"{name}: not true within {timeout_s:g} s; last seen: {seen!r}"
