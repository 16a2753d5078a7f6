"""Handle each order once, although it was sent twice.

python examples/idempotent_consumer.py [HOST:PORT of the name server]
"""

import os
import sys
import tempfile
from pathlib import Path

from pyromq import ConsumeFrom, Message, Producer, PullConsumer, ReceivedMessage
from pyromq.once import SqliteTokens, once


def main(name_server: str, database: Path) -> None:
    """Send an order two times, under one business key, and bill it."""
    tokens = SqliteTokens(database, scope="billing")

    @once(tokens, key=lambda message: message.keys[0])
    def bill(message: ReceivedMessage) -> None:
        print("a bill for order", message.keys[0])

    with Producer("shop", name_server) as producer:
        for _ in range(2):
            producer.send(Message("sales", b"one sauna", keys=["order-7"]))
    # The same function is a listener of a PushConsumer.
    with PullConsumer("billing", name_server, start_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        received = 0
        for message in consumer.messages("sales", idle_ms=500):
            received += 1
            bill(message)
    print(f"{received} messages")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        name_server = sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
        main(name_server, Path(folder) / "tokens.db")
