"""The methods of a relay: rounds on one connection, again and again, until it is stopped."""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from datetime import timedelta
from functools import partial
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar

from pyromq.client.operations.declaration import Operation
from pyromq.client.producer.queue_choice import Selector, select_by_hash
from pyromq.client.steps import Plan, compute
from pyromq.clock import Clock, SystemClock
from pyromq.model import Message
from pyromq.outbox import rounds
from pyromq.outbox.outbox_table import DEFAULT_TABLE, Claimed, WaitingMessage
from pyromq.outbox.rounds import Alarm, Connect, RelayRound, RelaySettings, RoundReport
from pyromq.sql import Connection

_log = logging.getLogger("pyromq.outbox")

T = TypeVar("T")
P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Sends(Protocol[R_co]):
    """The one method of a producer that a relay needs."""

    def send(
        self, message: Message, *, selector: Selector | None = None, timeout_ms: int | None = None
    ) -> R_co:
        """Send a message and return where it went."""
        ...


class Ask(Protocol):
    """Calls the database on the thread that its connection belongs to."""

    def __call__(self, call: Callable[[], T]) -> Plan[T]:
        """Return a plan that makes the call and returns its result."""
        ...


def log_alarm(waiting: WaitingMessage) -> None:
    """Say in the log that a message cannot be sent; the alarm unless another is given."""
    _log.error(
        "message %s to topic %s could not be sent %d times, and is tried again: %s",
        waiting.message_id,
        waiting.topic,
        waiting.attempts,
        waiting.last_error,
    )


class RelayOperations(Generic[R_co]):
    """A relay without the waiting: a face calls the database, pauses and sends in its own way."""

    _new_event: type[threading.Event | asyncio.Event]

    def __init__(
        self,
        connect: Connect,
        producer: Sends[R_co],
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
        self._woken = self._new_event()

    @Operation
    def run(self) -> Plan[None]:
        """Send what is due, again and again, until `stop`. A database that is away is asked again later."""
        forget = self._clock.on_move(self._waker())
        try:
            while not self._is_stopped:
                try:
                    yield from self._on_connection(self._rounds)
                except Exception:  # noqa: BLE001  whatever a driver raises, the next connection may do
                    _log.exception("the outbox's round failed; it is tried again on a new connection")
                    yield from self._pause(self.settings.back_off_ms)
        finally:
            forget()

    @Operation
    def run_once(self) -> Plan[RoundReport]:
        """Send what is due now, at most `batch_rows`, and return a report."""
        return self._on_connection(self._round)

    def stop(self) -> None:
        """Let `run` return after the sends in flight; rows that were taken and not sent are given back."""
        self._is_stopped = True
        self._woken.set()

    def wake(self) -> None:
        """Let `run` look now and not at its next poll; for whoever just committed a message."""
        self._woken.set()

    @Operation
    def stuck(self, older_than: timedelta = timedelta(minutes=1)) -> Plan[list[WaitingMessage]]:
        """Return the messages that wait for longer than that, oldest first, each with its last error."""
        return compute(partial(self._looked, rounds.stuck, created_before_ms=self._before_ms(older_than)))

    @Operation
    def forget_sent(self, older_than: timedelta = timedelta(days=7)) -> Plan[int]:
        """Remove messages that were sent longer ago than that and kept, and return how many."""
        return compute(partial(self._looked, rounds.forget_sent, sent_before_ms=self._before_ms(older_than)))

    def _waker(self) -> Callable[[], None]:
        """Return a function that wakes `run`, and that any thread may call."""
        raise NotImplementedError

    def _database(self) -> AbstractContextManager[Ask]:
        """Return a way to call the database, for one connection."""
        raise NotImplementedError

    def _pause(self, ms: int) -> Plan[None]:
        """Wait until the time is over or `wake` is called."""
        raise NotImplementedError

    def _deliver(self, ask: Ask, work: RelayRound, rows: Sequence[Claimed]) -> Plan[None]:
        """Send rows, and write down the outcome of each."""
        raise NotImplementedError

    def _on_connection(self, use: Callable[[Ask, Connection], Plan[T]]) -> Plan[T]:
        with self._database() as ask:
            connection = yield from ask(self._connect)
            try:
                return (yield from use(ask, connection))
            finally:
                yield from ask(connection.close)

    def _rounds(self, ask: Ask, connection: Connection) -> Plan[None]:
        while not self._is_stopped:
            report = yield from self._round(ask, connection)
            if not report.sent:
                yield from self._pause(self.settings.poll_ms)

    def _round(self, ask: Ask, connection: Connection) -> Plan[RoundReport]:
        work = RelayRound(connection, self._table, self.settings, self._clock, self._alarm)
        try:
            rows = yield from ask(work.take)
            yield from self._deliver(ask, work, rows)
            return (yield from ask(work.end))
        except BaseException:
            yield from ask(connection.rollback)
            raise

    def _send(self, row: Claimed) -> R_co:
        """Give a row to the producer; raise ValueError when the row is not readable."""
        selector = None if row.group is None else select_by_hash(row.group)
        message = row.message()
        return self._producer.send(message, selector=selector, timeout_ms=self.settings.send_timeout_ms)

    def _looked(
        self, look: Callable[Concatenate[Connection, str, P], T], *arguments: P.args, **words: P.kwargs
    ) -> T:
        with closing(self._connect()) as connection:
            return look(connection, self._table, *arguments, **words)

    def _before_ms(self, age: timedelta) -> int:
        return self._clock.now_ms() - age // timedelta(milliseconds=1)
