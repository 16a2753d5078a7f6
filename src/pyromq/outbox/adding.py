"""Adding a message in the transaction of the business write."""

import dataclasses
import os
from typing import Final

from pyromq.client.identity import new_identity
from pyromq.client.producer.outgoing import prepare
from pyromq.clock import Clock, SystemClock
from pyromq.config.settings import ClientSettings
from pyromq.model import Message
from pyromq.outbox.outbox_table import DEFAULT_TABLE, OutboxTable
from pyromq.sql import dialect_named, statements
from pyromq.wire.message_id import UniqueIds
from pyromq.wire.properties import UNIQ_KEY

_NEVER_BYTES: Final = 2**31 - 1


class Outbox:
    """A table of messages, written in the transaction of the change they report. A `Relay` sends them later.

        outbox = Outbox(connection)                     # or Outbox("postgresql")
        outbox.create_table(connection)

        with connection:                                # one transaction
            connection.execute("INSERT INTO orders …")
            outbox.add(connection, Message("orders", b"…", keys=["42"]))

    An outbox keeps no connection: the one that it is given here only tells which database is used. `settings`
    are those of the producer that will send: messages are checked by them. Safe to use from many threads.
    """

    def __init__(
        self,
        database: object,
        table: str = DEFAULT_TABLE,
        *,
        settings: ClientSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.dialect = dialect_named(database) if isinstance(database, str) else statements(database).dialect
        self._table = OutboxTable(table, self.dialect)
        # A message is only looked at here; compressing it is for the one who sends it.
        self._settings = dataclasses.replace(
            settings or ClientSettings(), compress_msg_body_over_howmuch=_NEVER_BYTES
        )
        self._clock = clock or SystemClock()
        self._ids: tuple[int, UniqueIds] | None = None

    def ddl(self) -> list[str]:
        """Return the statements that make the table and its indexes, for a migration."""
        return list(self._table.ddl())

    def create_table(self, connection: object) -> None:
        """Make the table unless it is there. The caller commits."""
        on = statements(connection, self.dialect)
        for statement in self._table.ddl():
            on.execute(statement)

    def add(self, connection: object, message: Message, *, group: str | None = None) -> str:
        """Write a message down in the connection's transaction, and return the id that it will be sent under.

        It is sent if that transaction is committed, and only then. Messages of one `group` go to one queue in
        the order of adding, and one that cannot be sent holds up those behind it. Raises MessageIllegal when
        no broker would take the message: now, when the transaction can still be undone.
        """
        now_ms = self._clock.now_ms()
        message_id = message.properties.get(UNIQ_KEY) or self._next_id(now_ms)
        prepare(message, message_id, self._settings)
        self._table.insert(
            statements(connection, self.dialect),
            message,
            message_id=message_id,
            group=group,
            now_ms=now_ms,
        )
        return message_id

    def _next_id(self, now_ms: int) -> str:
        # A child of fork would give the ids that its parent gives.
        pid = os.getpid()
        if self._ids is None or self._ids[0] != pid:
            self._ids = (pid, new_identity(self._settings).unique_ids)
        return self._ids[1].next(now_ms)
