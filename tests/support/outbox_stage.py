"""A producer that keeps what it is given, a database of SQLite, and an outbox in it."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from pyromq import Message, MessageQueue, SendResult, SendStatus
from pyromq.client.producer.queue_choice import Selector
from pyromq.outbox import Outbox, Relay, RelaySettings
from pyromq.testing.manual_clock import ManualClock

QUEUES = [MessageQueue("orders", "broker-a", queue_id) for queue_id in range(4)]


class SendsToMemory:
    """Takes messages as a producer does; topics in `failing` raise what stands there."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.queues: list[int | None] = []
        self.tries = 0
        self.failing: dict[str, Exception] = {}
        self.before_send: Callable[[Message], None] = lambda _message: None

    def send(
        self, message: Message, *, selector: Selector | None = None, timeout_ms: int | None = None
    ) -> SendResult:
        self.tries += 1
        self.before_send(message)
        if message.topic in self.failing:
            raise self.failing[message.topic]
        queue = QUEUES[0] if selector is None else selector(QUEUES, message)
        self.messages.append(message)
        self.queues.append(None if selector is None else queue.queue_id)
        return SendResult(SendStatus.SEND_OK, message.properties["UNIQ_KEY"], "", queue, len(self.messages))

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    @property
    def ids(self) -> list[str]:
        return [message.properties["UNIQ_KEY"] for message in self.messages]


class SendsToMemoryAwaitably(SendsToMemory):
    async def send(  # type: ignore[override]
        self, message: Message, *, selector: Selector | None = None, timeout_ms: int | None = None
    ) -> SendResult:
        return super().send(message, selector=selector, timeout_ms=timeout_ms)


class Shop:
    """A shop with a table of orders and an outbox, in a file of SQLite."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "shop.db"
        self.clock = ManualClock()
        self.outbox = Outbox("sqlite", clock=self.clock)
        with closing(self.connect()) as connection, connection:
            connection.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY)")
            self.outbox.create_table(connection)

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path)

    def order(self, number: int, *, topic: str = "orders", group: str | None = None) -> str:
        """Write an order and its message in one transaction; return the message's id."""
        with closing(self.connect()) as connection, connection:
            connection.execute("INSERT INTO orders VALUES (?)", (number,))
            message = Message(topic, f"order {number}".encode(), tags="new", keys=[str(number)])
            return self.outbox.add(connection, message, group=group)

    def relay(self, producer: SendsToMemory, **settings: int | bool) -> Relay:
        return Relay(self.connect, producer, RelaySettings(**settings), clock=self.clock)

    def rows(self, columns: str) -> list[tuple[object, ...]]:
        with closing(self.connect()) as connection:
            return connection.execute(f"SELECT {columns} FROM pyromq_outbox ORDER BY id").fetchall()
