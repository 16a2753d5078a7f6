"""One round of a relay: take rows, and write down the outcome of each."""

import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pyromq.clock import Clock
from pyromq.errors import ConfigError
from pyromq.outbox.outbox_table import Claimed, OutboxTable, WaitingMessage
from pyromq.sql import Connection, statements

#: Opens a connection to the database of the outbox: PEP 249's or SQLAlchemy's, not in autocommit mode.
Connect: TypeAlias = Callable[[], Connection]
#: Is told of a message that could not be sent for the n-th time.
Alarm: TypeAlias = Callable[[WaitingMessage], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """The settings of a relay.

    `batch_rows` are taken at once; a relay that dies may send these again. After a failure a message waits
    `back_off_ms`, twice as long each time up to `back_off_ms_max`, less up to a half by chance. `alarm_after`
    failures the alarm is raised. `lease_ms` is how long rows are taken for where they cannot be locked.
    """

    batch_rows: int = 50
    poll_ms: int = 500
    send_timeout_ms: int = 3_000
    back_off_ms: int = 1_000
    back_off_ms_max: int = 300_000
    alarm_after: int = 5
    lease_ms: int = 60_000
    keep_sent: bool = False

    def __post_init__(self) -> None:
        """Refuse a lease that ends before the first send of its rows."""
        if self.lease_ms <= self.send_timeout_ms:
            raise ConfigError(
                f"lease_ms={self.lease_ms} must be longer than send_timeout_ms={self.send_timeout_ms}: rows "
                "would be another relay's before their send has ended"
            )

    def pause_ms(self, failures: int, chance: float) -> int:
        """Return how long a message waits after that many failures; `chance` is from 0 to 1."""
        # The power is bounded, or a message that fails for a year would cost more each time.
        longest = min(self.back_off_ms << min(failures - 1, 30), self.back_off_ms_max)
        return round(longest * (1 - chance / 2))


@dataclass(slots=True)
class RoundReport:
    """The outcome of a round: messages sent, failed, and put back untried."""

    sent: int = 0
    failed: int = 0
    put_back: int = 0

    @property
    def taken(self) -> int:
        """The number of rows that the round took."""
        return self.sent + self.failed + self.put_back


class RelayRound:
    """One round on one connection. After `take`, each row is settled by one of the three ways, then `end`."""

    def __init__(
        self,
        connection: Connection,
        table: str,
        settings: RelaySettings,
        clock: Clock,
        alarm: Alarm,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._connection = connection
        self._on = statements(connection)
        self._table = OutboxTable(table, self._on.dialect)
        self._settings = settings
        self._clock = clock
        self._alarm = alarm
        self._chance = chance
        self._report = RoundReport()
        self._until_ms = 0

    def take(self) -> list[Claimed]:
        """Return the rows to send."""
        now_ms = self._clock.now_ms()
        self._until_ms = now_ms + self._settings.lease_ms
        rows = self._table.claim(
            self._on,
            now_ms=now_ms,
            count=self._settings.batch_rows,
            token=secrets.token_hex(16),
            until_ms=self._until_ms,
        )
        self._commit_unless_locked()
        return rows

    def is_ours(self, row: Claimed) -> bool:
        """Tell whether a row stays ours until a send that begins now has ended."""
        return row.lease is None or self._clock.now_ms() + self._settings.send_timeout_ms < self._until_ms

    def sent(self, row: Claimed) -> None:
        """Write down that a row was sent."""
        if self._settings.keep_sent:
            self._table.mark_sent(self._on, row, now_ms=self._clock.now_ms())
        else:
            self._table.delete_sent(self._on, row)
        self._report.sent += 1
        self._commit_unless_locked()

    def failed(self, row: Claimed, error: Exception) -> int:
        """Write down that a row was not sent, and return when it is tried again."""
        failures = row.attempts + 1
        due_ms = self._clock.now_ms() + self._settings.pause_ms(failures, self._chance())
        text = f"{type(error).__name__}: {error}"
        self._table.mark_failed(self._on, row, due_ms=due_ms, error=text)
        self._report.failed += 1
        self._commit_unless_locked()
        if failures == self._settings.alarm_after:
            self._alarm(
                WaitingMessage(
                    row.id, row.message_id, row.topic, row.group, row.created_ms, due_ms, failures, text
                )
            )
        return due_ms

    def put_back(self, row: Claimed, due_ms: int) -> None:
        """Give a row back untried, for a time."""
        self._table.put_back(self._on, row, due_ms=due_ms)
        self._report.put_back += 1
        self._commit_unless_locked()

    def end(self) -> RoundReport:
        """Make it last, and let go of the rows."""
        self._connection.commit()
        return self._report

    def _commit_unless_locked(self) -> None:
        # Locks end with the transaction, so there it must last for the round. Else each row is done with.
        if not self._on.dialect.can_skip_locked:
            self._connection.commit()


def stuck(connection: Connection, table: str, *, created_before_ms: int) -> list[WaitingMessage]:
    """Return the messages that were added before a time and are not sent."""
    on = statements(connection)
    found = OutboxTable(table, on.dialect).waiting(on, created_before_ms=created_before_ms)
    connection.rollback()
    return found


def forget_sent(connection: Connection, table: str, *, sent_before_ms: int) -> int:
    """Remove rows that were kept after they were sent."""
    on = statements(connection)
    removed = OutboxTable(table, on.dialect).forget_sent(on, sent_before_ms=sent_before_ms)
    connection.commit()
    return removed


def opened(connect: Connect) -> Connection:
    """Open a connection; raise ConfigError when it is in autocommit mode, where no row can be held."""
    connection = connect()
    if _commits_by_itself(connection):
        connection.close()
        raise ConfigError("a relay needs transactions: let `connect` open connections without autocommit")
    return connection


def _commits_by_itself(connection: object) -> bool:
    # psycopg and mysql.connector have a property, PyMySQL a method of that name and another to ask.
    asked = getattr(connection, "get_autocommit", None)
    if callable(asked):
        return bool(asked())
    if getattr(connection, "autocommit", False) is True:
        return True
    return getattr(connection, "isolation_level", "") is None and hasattr(connection, "executescript")
