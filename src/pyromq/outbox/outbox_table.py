"""The outbox's table: messages that were decided on and are not sent yet.

    id             the order in which they were added
    message_id     what the message is called at every try, so that a repeat can be told
    message_group  messages of one group are sent one after the other, in order
    attributes     the message's tags, keys, properties …, as JSON
    due_ms         when it is tried next; attempts, last_error: what came of it so far
    lease_token    who sends it now, until lease_until_ms, where rows cannot be locked (SQLite)
    sent_ms        when it was sent, if such rows are kept

Whoever sends must be alone with a row. PostgreSQL and MySQL lock it for as long as the transaction lasts, and
others pass it over (SKIP LOCKED): a relay that dies lets go at once. SQLite has no such locks; there a row is
written down as taken, for a time.
"""

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pyromq.model import Message
from pyromq.sql import Dialect, RowValues, Statements, checked_table
from pyromq.wire.properties import UNIQ_KEY

DEFAULT_TABLE: Final = "pyromq_outbox"

_ID = {
    Dialect.SQLITE: "INTEGER PRIMARY KEY AUTOINCREMENT",
    Dialect.POSTGRESQL: "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    Dialect.MYSQL: "BIGINT AUTO_INCREMENT PRIMARY KEY",
}
_BYTES = {Dialect.SQLITE: "BLOB", Dialect.POSTGRESQL: "BYTEA", Dialect.MYSQL: "LONGBLOB"}
_TEXT = {Dialect.SQLITE: "TEXT", Dialect.POSTGRESQL: "TEXT", Dialect.MYSQL: "LONGTEXT"}
#: Characters of an error that are kept; a remark of a broker is a line or two.
_ERROR_CHARACTERS_MAX = 1_000
_OWN_COLUMNS = frozenset({"topic", "body"})


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message that is not sent yet, and why."""

    id: int
    message_id: str
    topic: str
    group: str | None
    created_ms: int
    due_ms: int
    attempts: int
    last_error: str | None


@dataclass(frozen=True, slots=True)
class Claimed:
    """A row that is ours to send. `lease` is its token, or None where the row is locked."""

    id: int
    message_id: str
    topic: str
    group: str | None
    attributes: str
    body: bytes
    created_ms: int
    attempts: int
    lease: str | None

    def message(self) -> Message:
        """Return the message as it was added, with its id; raise ValueError when the row does not read."""
        attributes = json.loads(self.attributes)
        try:
            message = Message(self.topic, self.body, **attributes)
        except TypeError as error:
            raise ValueError(f"row {self.id} was written by another version: {error}") from error
        message.properties = {**message.properties, UNIQ_KEY: self.message_id}
        return message


def attributes_of(message: Message) -> str:
    """Return what a message is beside topic and body, as JSON; times become numbers.

    What it has not is left out, so that a relay of an older version reads the rows that do not need a newer.
    """
    fields = {field.name: getattr(message, field.name) for field in dataclasses.fields(message)}
    if isinstance(message.delay, timedelta):
        fields["delay"] = message.delay.total_seconds()
    if isinstance(message.deliver_at, datetime):
        fields["deliver_at"] = round(message.deliver_at.timestamp() * 1_000)
    has = {name: value for name, value in fields.items() if value is not None and name not in _OWN_COLUMNS}
    return json.dumps(has)


class OutboxTable:
    """The statements, in one database's words."""

    def __init__(self, name: str, dialect: Dialect) -> None:
        self.name = checked_table(name)
        self.dialect = dialect

    def ddl(self) -> Iterator[str]:
        """Yield the statements that make the table, if it is not there."""
        key = "VARCHAR(255)"
        columns = [
            f"id {_ID[self.dialect]}",
            "message_id VARCHAR(64) NOT NULL UNIQUE",
            f"topic {key} NOT NULL",
            f"message_group {key}",
            f"attributes {_TEXT[self.dialect]} NOT NULL",
            f"body {_BYTES[self.dialect]} NOT NULL",
            "created_ms BIGINT NOT NULL",
            "due_ms BIGINT NOT NULL",
            "attempts INTEGER DEFAULT 0 NOT NULL",
            f"last_error {_TEXT[self.dialect]}",
            "lease_token VARCHAR(32)",
            "lease_until_ms BIGINT",
            "sent_ms BIGINT",
        ]
        index = self.name.replace(".", "_")
        if self.dialect is Dialect.MYSQL:
            columns += [
                f"KEY {index}_due (sent_ms, due_ms)",
                f"KEY {index}_group (message_group, sent_ms, id)",
            ]
        made = f"CREATE TABLE IF NOT EXISTS {self.name} (\n  " + ",\n  ".join(columns) + "\n)"
        yield made + self.dialect.table_options
        if self.dialect is not Dialect.MYSQL:
            for name, on in (("due", "due_ms"), ("group", "message_group, id")):
                yield (
                    f"CREATE INDEX IF NOT EXISTS {index}_{name} ON {self.name} ({on}) WHERE sent_ms IS NULL"
                )

    def insert(
        self, on: Statements, message: Message, *, message_id: str, group: str | None, now_ms: int
    ) -> None:
        """Write a message down, in the transaction that the connection is in."""
        on.execute(
            f"INSERT INTO {self.name} "
            "(message_id, topic, message_group, attributes, body, created_ms, due_ms) VALUES "
            "(:message_id, :topic, :message_group, :attributes, :body, :created_ms, :due_ms)",
            message_id=message_id,
            topic=message.topic,
            message_group=group,
            attributes=attributes_of(message),
            body=bytes(message.body),
            created_ms=now_ms,
            due_ms=now_ms,
        )

    def claim(self, on: Statements, *, now_ms: int, count: int, token: str, until_ms: int) -> list[Claimed]:
        """Take up to `count` rows that are due, of each group only its first; nobody else gets them.

        Where rows are locked, that lasts as long as the transaction; else the caller commits at once, and it
        lasts until `until_ms`.
        """
        columns = "id, message_id, topic, message_group, attributes, body, created_ms, attempts"
        due = (
            f"FROM {self.name} o WHERE o.sent_ms IS NULL AND o.due_ms <= :now AND (o.message_group IS NULL "
            f"OR NOT EXISTS (SELECT 1 FROM {self.name} e WHERE e.message_group = o.message_group "
            "AND e.id < o.id AND e.sent_ms IS NULL))"
        )
        if self.dialect.can_skip_locked:
            # Under MySQL's own level, gaps between rows would be locked too, and nobody could add a message;
            # under PostgreSQL's higher ones, a row that changed meanwhile would be an error.
            on.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            found = on.rows(
                f"SELECT {columns} {due} ORDER BY id LIMIT :count FOR UPDATE SKIP LOCKED",
                now=now_ms,
                count=count,
            )
            return [_claimed(row, None) for row in found]
        on.execute(
            f"UPDATE {self.name} SET lease_token = :token, lease_until_ms = :until WHERE id IN "
            f"(SELECT o.id {due} AND (o.lease_until_ms IS NULL OR o.lease_until_ms <= :now_too) "
            "ORDER BY o.id LIMIT :count)",
            token=token,
            until=until_ms,
            now=now_ms,
            now_too=now_ms,
            count=count,
        )
        found = on.rows(
            f"SELECT {columns} FROM {self.name} WHERE lease_token = :token ORDER BY id", token=token
        )
        return [_claimed(row, token) for row in found]

    def delete_sent(self, on: Statements, row: Claimed) -> None:
        """Remove a row that was sent."""
        on.execute(f"DELETE FROM {self.name} WHERE {_OURS}", **_ours(row))

    def mark_sent(self, on: Statements, row: Claimed, *, now_ms: int) -> None:
        """Keep a row that was sent, and say when."""
        on.execute(
            f"UPDATE {self.name} SET sent_ms = :now, attempts = attempts + 1, last_error = NULL, "
            f"lease_token = NULL, lease_until_ms = NULL WHERE {_OURS}",
            now=now_ms,
            **_ours(row),
        )

    def mark_failed(self, on: Statements, row: Claimed, *, due_ms: int, error: str) -> None:
        """Let a row be tried again at a time, and say why it was not sent."""
        on.execute(
            f"UPDATE {self.name} SET due_ms = :due, attempts = attempts + 1, last_error = :error, "
            f"lease_token = NULL, lease_until_ms = NULL WHERE {_OURS}",
            due=due_ms,
            error=error[:_ERROR_CHARACTERS_MAX],
            **_ours(row),
        )

    def put_back(self, on: Statements, row: Claimed, *, due_ms: int) -> None:
        """Give a row back that was not tried."""
        on.execute(
            f"UPDATE {self.name} SET due_ms = :due, lease_token = NULL, lease_until_ms = NULL WHERE {_OURS}",
            due=due_ms,
            **_ours(row),
        )

    def waiting(self, on: Statements, *, created_before_ms: int) -> list[WaitingMessage]:
        """Return what was added before a time and is not sent, the oldest first."""
        found = on.rows(
            "SELECT id, message_id, topic, message_group, created_ms, due_ms, attempts, last_error "
            f"FROM {self.name} WHERE sent_ms IS NULL AND created_ms <= :before ORDER BY id",
            before=created_before_ms,
        )
        return [
            WaitingMessage(
                id=row["id"],
                message_id=row["message_id"],
                topic=row["topic"],
                group=row["message_group"],
                created_ms=row["created_ms"],
                due_ms=row["due_ms"],
                attempts=row["attempts"],
                last_error=row["last_error"],
            )
            for row in found
        ]

    def forget_sent(self, on: Statements, *, sent_before_ms: int) -> int:
        """Remove rows that were sent before a time, and return how many."""
        return on.execute(
            f"DELETE FROM {self.name} WHERE sent_ms IS NOT NULL AND sent_ms <= :before", before=sent_before_ms
        )


#: A lease that ran out may be another's by now; a locked row has none.
_OURS = "id = :id AND (lease_token IS NULL OR lease_token = :lease)"


def _ours(row: Claimed) -> dict[str, str | int]:
    return {"id": row.id, "lease": row.lease or ""}


def _claimed(row: RowValues, lease: str | None) -> Claimed:
    return Claimed(
        id=row["id"],
        message_id=row["message_id"],
        topic=row["topic"],
        group=row["message_group"],
        attributes=row["attributes"],
        body=bytes(row["body"]),
        created_ms=row["created_ms"],
        attempts=row["attempts"],
        lease=lease,
    )
