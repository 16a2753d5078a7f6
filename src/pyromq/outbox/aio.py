"""The awaitable relay: the same as `pyromq.outbox.Relay`, with the sends of a round all at once.

The database is called on a thread of its own, for drivers block.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from pyromq.client.drivers import LocalLoopRunner
from pyromq.client.operations.declaration import AwaitableMethods
from pyromq.client.steps import Plan, awaited
from pyromq.errors import PyroError
from pyromq.model import SendResult
from pyromq.outbox.outbox_table import Claimed
from pyromq.outbox.relay_operations import Ask, RelayOperations
from pyromq.outbox.rounds import RelayRound

T = TypeVar("T")


class Relay(RelayOperations[Awaitable[SendResult]], AwaitableMethods):
    """Sends the outbox's messages from a loop; see `pyromq.outbox.Relay`.

    relay = Relay(lambda: psycopg.connect(…), producer)
    task = asyncio.create_task(relay.run())
    …
    relay.stop()
    await task
    """

    _runner = LocalLoopRunner()
    _woken: asyncio.Event
    _new_event = asyncio.Event

    def _waker(self) -> Callable[[], None]:
        loop = asyncio.get_running_loop()

        def look_again() -> None:
            loop.call_soon_threadsafe(self._woken.set)

        return look_again

    @contextmanager
    def _database(self) -> Iterator[Ask]:
        loop = asyncio.get_running_loop()
        # One thread: a connection of sqlite3 must stay on the thread that opened it.
        with ThreadPoolExecutor(1, "pyromq-outbox") as thread:

            def ask(call: Callable[[], T]) -> Plan[T]:
                return awaited(partial(loop.run_in_executor, thread, call))

            yield ask

    def _pause(self, ms: int) -> Plan[None]:
        return awaited(partial(self._wait, ms / 1_000))

    async def _wait(self, seconds: float) -> None:
        if self._is_stopped:
            return
        try:
            await asyncio.wait_for(self._woken.wait(), seconds)
        except TimeoutError:
            return
        self._woken.clear()

    def _deliver(self, ask: Ask, work: RelayRound, rows: Sequence[Claimed]) -> Plan[None]:
        outcomes = yield from awaited(partial(self._send_together, rows))
        yield from ask(partial(_settle, work, list(zip(rows, outcomes, strict=True))))

    async def _send_together(self, rows: Sequence[Claimed]) -> list[Exception | None]:
        return await asyncio.gather(*map(self._outcome, rows))

    async def _outcome(self, row: Claimed) -> Exception | None:
        try:
            await self._send(row)
        except (PyroError, ValueError) as error:
            return error
        return None


def _settle(work: RelayRound, outcomes: list[tuple[Claimed, Exception | None]]) -> None:
    for row, error in outcomes:
        if error is None:
            work.sent(row)
        else:
            work.failed(row, error)
