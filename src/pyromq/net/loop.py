"""The event loop: uvloop where it is installed, else asyncio's own with patience for names.

A lookup of a name that no server of names answers for takes many seconds, and asyncio does it on the threads
that all blocking work shares: a few of them, and nothing else is looked up, synced or written. So here a name
is looked up once at a time, however many ask, and on a thread of its own.
"""

import asyncio
import socket
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Lookup: TypeAlias = tuple[Any, Any, int, int, int, int]

if sys.platform == "win32":
    _Base = asyncio.ProactorEventLoop
else:
    _Base = asyncio.SelectorEventLoop


class NameLoop(_Base):
    """asyncio's loop; lookups of names have threads of their own."""

    def __init__(self) -> None:
        super().__init__()
        self._lookups: dict[Lookup, asyncio.Future[Any]] = {}

    async def getaddrinfo(
        self, host: Any, port: Any, *, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> Any:
        """Look a name up, or wait for those who do already."""
        lookup = (host, port, family, type, proto, flags)
        found = self._lookups.get(lookup)
        if found is None:
            found = self._lookups[lookup] = self.create_future()
            # Its end is nobody's business if all who asked have given up.
            found.add_done_callback(lambda done: done.cancelled() or done.exception())
            threading.Thread(
                target=self._look_up, args=(lookup, found), name=f"look up {host}", daemon=True
            ).start()
        # Who gives up does not end it for the others.
        return await asyncio.shield(found)

    def _look_up(self, lookup: Lookup, found: asyncio.Future[Any]) -> None:
        try:
            end = partial(found.set_result, socket.getaddrinfo(*lookup))
        except (OSError, UnicodeError) as error:
            end = partial(found.set_exception, error)
        # The loop may be closed meanwhile.
        with suppress(RuntimeError):
            self.call_soon_threadsafe(self._looked_up, lookup, end)

    def _looked_up(self, lookup: Lookup, end: Callable[[], None]) -> None:
        del self._lookups[lookup]
        end()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop, the fastest that is installed."""
    return _loop_factory()()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a loop of its own."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def loop_name() -> str:
    """Return which loop `run` uses: `uvloop` or `asyncio`."""
    return "uvloop" if _loop_factory() is not NameLoop else "asyncio"


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return NameLoop
    return uvloop.new_event_loop
