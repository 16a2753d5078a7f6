"""The awaitable relay: the same as `pyromq.outbox.Relay`, with the sends of a round all at once.

The database is asked on a thread of its own, for drivers block.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from functools import partial
from typing import Protocol, TypeVar

from pyromq.client.queue_choice import Selector, select_by_hash
from pyromq.clock import Clock, SystemClock
from pyromq.errors import PyroError
from pyromq.model import Message, SendResult
from pyromq.outbox import rounds
from pyromq.outbox.relay import log_alarm
from pyromq.outbox.rounds import Alarm, Connect, RelaySettings, Round, RoundReport
from pyromq.outbox.table import DEFAULT_TABLE, Claimed, WaitingMessage
from pyromq.sql import Connection

_log = logging.getLogger("pyromq.outbox")

T = TypeVar("T")


class Sends(Protocol):
    """What a relay needs of an awaitable producer."""

    async def send(
        self, message: Message, *, selector: Selector | None = None, timeout_ms: int | None = None
    ) -> SendResult:
        """Send a message and return where it went."""
        ...


class Relay:
    """Sends the outbox's messages from a loop; see `pyromq.outbox.Relay`.

    relay = Relay(lambda: psycopg.connect(…), producer)
    task = asyncio.create_task(relay.run())
    …
    relay.stop()
    await task
    """

    def __init__(
        self,
        connect: Connect,
        producer: Sends,
        settings: RelaySettings | None = None,
        *,
        table: str = DEFAULT_TABLE,
        alarm: Alarm = log_alarm,
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings or RelaySettings()
        self._connect = partial(rounds.opened, connect)
        self._producer = producer
        self._table = table
        self._alarm = alarm
        self._clock = clock or SystemClock()
        self._is_stopped = False
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Send what is due, again and again, until `stop`. A database that is away is asked again later."""
        loop = asyncio.get_running_loop()

        def look_again() -> None:
            loop.call_soon_threadsafe(self._woken.set)

        forget = self._clock.on_move(look_again)
        try:
            while not self._is_stopped:
                try:
                    await self._run_on_one_connection()
                except Exception:  # noqa: BLE001  whatever a driver raises, the next connection may do
                    _log.exception("the outbox's round failed; it is tried again on a new connection")
                    await self._pause(self.settings.back_off_ms)
        finally:
            forget()

    async def run_once(self) -> RoundReport:
        """Send what is due now, at most `batch_rows`, and return what came of it."""
        with ThreadPoolExecutor(1, "pyromq-outbox") as thread:
            connection = await _on(thread, self._connect)
            try:
                return await self._round(thread, connection)
            finally:
                await _on(thread, connection.close)

    def stop(self) -> None:
        """Let `run` return after the round under way."""
        self._is_stopped = True
        self._woken.set()

    def wake(self) -> None:
        """Let `run` look now and not at its next poll; for whoever just committed a message."""
        self._woken.set()

    async def stuck(self, older_than: timedelta = timedelta(minutes=1)) -> list[WaitingMessage]:
        """Return the messages that wait for longer than that, oldest first, each with its last error."""
        before_ms = self._clock.now_ms() - older_than // timedelta(milliseconds=1)

        def look() -> list[WaitingMessage]:
            with closing(self._connect()) as connection:
                return rounds.stuck(connection, self._table, created_before_ms=before_ms)

        return await asyncio.to_thread(look)

    async def forget_sent(self, older_than: timedelta = timedelta(days=7)) -> int:
        """Remove messages that were sent longer ago than that and kept, and return how many."""
        before_ms = self._clock.now_ms() - older_than // timedelta(milliseconds=1)

        def forget() -> int:
            with closing(self._connect()) as connection:
                return rounds.forget_sent(connection, self._table, sent_before_ms=before_ms)

        return await asyncio.to_thread(forget)

    async def _run_on_one_connection(self) -> None:
        # One thread: a connection of sqlite3 must stay on the one that opened it.
        with ThreadPoolExecutor(1, "pyromq-outbox") as thread:
            connection = await _on(thread, self._connect)
            try:
                while not self._is_stopped:
                    report = await self._round(thread, connection)
                    if not report.sent:
                        await self._pause(self.settings.poll_ms)
            finally:
                await _on(thread, connection.close)

    async def _pause(self, ms: int) -> None:
        if self._is_stopped:
            return
        try:
            await asyncio.wait_for(self._woken.wait(), ms / 1_000)
        except TimeoutError:
            return
        self._woken.clear()

    async def _round(self, thread: ThreadPoolExecutor, connection: Connection) -> RoundReport:
        work = Round(connection, self._table, self.settings, self._clock, self._alarm)
        try:
            rows = await _on(thread, work.take)
            outcomes = await asyncio.gather(*(self._send(row) for row in rows))
            return await _on(thread, partial(_settle, work, list(zip(rows, outcomes, strict=True))))
        except BaseException:
            await _on(thread, connection.rollback)
            raise

    async def _send(self, row: Claimed) -> Exception | None:
        selector = None if row.group is None else select_by_hash(row.group)
        try:
            message = row.message()
            await self._producer.send(message, selector=selector, timeout_ms=self.settings.send_timeout_ms)
        except (PyroError, ValueError) as error:
            return error
        return None


def _settle(work: Round, outcomes: list[tuple[Claimed, Exception | None]]) -> RoundReport:
    for row, error in outcomes:
        if error is None:
            work.sent(row)
        else:
            work.failed(row, error)
    return work.end()


async def _on(thread: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(thread, call)
