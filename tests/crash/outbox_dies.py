"""A shop that dies at a given moment: `outbox_dies.py DATABASE NAME_SERVER MOMENT`.

DATABASE is a file of SQLite or an address of PostgreSQL. It orders three times, and then relays. It prints
the ids of the messages whose orders are committed.
"""

import os
import signal
import sqlite3
import sys
from typing import Any

import psycopg

from pyromq import Message, Producer, SendResult
from pyromq.outbox import Outbox, Relay, RelaySettings
from pyromq.sql import statements


def die() -> None:
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


class DyingProducer(Producer):
    """Dies before or after its second send."""

    def __init__(self, name_server: str, moment: str) -> None:
        super().__init__("shop", name_server)
        self.sends, self.moment = 0, moment

    def send(self, message: Message, **options: Any) -> SendResult:
        self.sends += 1
        if self.sends == 2 and self.moment == "before the send":
            die()
        result = super().send(message, **options)
        if self.sends == 2 and self.moment == "between send and mark":
            die()
        return result


def main(database: str, name_server: str, moment: str) -> None:
    def connect() -> Any:
        is_address = database.startswith("postgresql:")
        return psycopg.connect(database) if is_address else sqlite3.connect(database)

    connection = connect()
    outbox = Outbox(connection)
    for number in range(3):
        statements(connection).execute("INSERT INTO orders VALUES (:number)", number=number)
        message_id = outbox.add(connection, Message("orders", b"order %d" % number, keys=[str(number)]))
        if number == 2 and moment == "before the commit":
            die()
        connection.commit()
        print(message_id)
    if moment == "between commit and send":
        die()
    with DyingProducer(name_server, moment) as producer:
        Relay(connect, producer, RelaySettings(lease_ms=4_000)).run_once()
    raise AssertionError("it was to die")


if __name__ == "__main__":
    main(*sys.argv[1:])
