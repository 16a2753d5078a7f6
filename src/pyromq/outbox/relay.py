"""The blocking relay: sends what is in the outbox, on a thread of yours."""

import logging
import threading
from contextlib import closing
from datetime import timedelta
from functools import partial
from typing import Protocol

from pyromq.client.queue_choice import Selector, select_by_hash
from pyromq.clock import Clock, SystemClock
from pyromq.errors import MessageIllegal, PyroError
from pyromq.model import Message, SendResult
from pyromq.outbox import rounds
from pyromq.outbox.rounds import Alarm, Connect, RelaySettings, Round, RoundReport
from pyromq.outbox.table import DEFAULT_TABLE, Claimed, WaitingMessage
from pyromq.sql import Connection

_log = logging.getLogger("pyromq.outbox")


class Sends(Protocol):
    """What a relay needs of a producer."""

    def send(
        self, message: Message, *, selector: Selector | None = None, timeout_ms: int | None = None
    ) -> SendResult:
        """Send a message and return where it went."""
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


class Relay:
    """Sends the outbox's messages, each until it is sent. Any number of relays may run, anywhere.

        relay = Relay(lambda: psycopg.connect(…), producer)
        threading.Thread(target=relay.run).start()
        …
        relay.stop()

    A message is sent at least once: a relay that dies after a send and before its commit sends it again,
    under the same id. A message that fails waits longer each time, and never keeps others waiting, unless
    they are behind it in its group.
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
        self._woken = threading.Event()

    def run(self) -> None:
        """Send what is due, again and again, until `stop`. A database that is away is asked again later."""
        forget = self._clock.on_move(self._woken.set)
        try:
            while not self._is_stopped:
                try:
                    self._run_on_one_connection()
                except Exception:  # noqa: BLE001  whatever a driver raises, the next connection may do
                    _log.exception("the outbox's round failed; it is tried again on a new connection")
                    self._pause(self.settings.back_off_ms)
        finally:
            forget()

    def run_once(self) -> RoundReport:
        """Send what is due now, at most `batch_rows`, and return what came of it."""
        with closing(self._connect()) as connection:
            return self._round(connection)

    def stop(self) -> None:
        """Let `run` return after the send under way; what it took and did not send, it gives back."""
        self._is_stopped = True
        self._woken.set()

    def wake(self) -> None:
        """Let `run` look now and not at its next poll; for whoever just committed a message."""
        self._woken.set()

    def stuck(self, older_than: timedelta = timedelta(minutes=1)) -> list[WaitingMessage]:
        """Return the messages that wait for longer than that, oldest first, each with its last error."""
        before_ms = self._clock.now_ms() - older_than // timedelta(milliseconds=1)
        with closing(self._connect()) as connection:
            return rounds.stuck(connection, self._table, created_before_ms=before_ms)

    def forget_sent(self, older_than: timedelta = timedelta(days=7)) -> int:
        """Remove messages that were sent longer ago than that and kept, and return how many."""
        before_ms = self._clock.now_ms() - older_than // timedelta(milliseconds=1)
        with closing(self._connect()) as connection:
            return rounds.forget_sent(connection, self._table, sent_before_ms=before_ms)

    def _run_on_one_connection(self) -> None:
        with closing(self._connect()) as connection:
            while not self._is_stopped:
                report = self._round(connection)
                if not report.sent:
                    self._pause(self.settings.poll_ms)

    def _pause(self, ms: int) -> None:
        if not self._is_stopped:
            self._woken.wait(ms / 1_000)
            self._woken.clear()

    def _round(self, connection: Connection) -> RoundReport:
        work = Round(connection, self._table, self.settings, self._clock, self._alarm)
        try:
            # A topic that cannot be reached would cost a time-out for each of its messages.
            away_until_ms: dict[str, int] = {}
            for row in work.take():
                if self._is_stopped or not work.is_ours(row):
                    work.put_back(row, self._clock.now_ms())
                elif row.topic in away_until_ms:
                    work.put_back(row, away_until_ms[row.topic])
                else:
                    self._send(work, row, away_until_ms)
            return work.end()
        except BaseException:
            connection.rollback()
            raise

    def _send(self, work: Round, row: Claimed, away_until_ms: dict[str, int]) -> None:
        selector = None if row.group is None else select_by_hash(row.group)
        try:
            message = row.message()
            self._producer.send(message, selector=selector, timeout_ms=self.settings.send_timeout_ms)
        except (MessageIllegal, ValueError) as error:
            work.failed(row, error)
        except PyroError as error:
            away_until_ms[row.topic] = work.failed(row, error)
        else:
            work.sent(row)
