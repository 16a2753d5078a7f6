"""Write to a database and send a message: both, or neither.

python examples/transaction.py [HOST:PORT of the name server]
"""

import os
import sqlite3
import sys

from pyromq import Message, ReceivedMessage, TransactionProducer, TransactionState

database = sqlite3.connect(":memory:", check_same_thread=False)


def place(message: Message, number: object) -> TransactionState:
    """Write the order while nobody sees its message; if this raises, the broker asks later."""
    with database:
        database.execute("insert into orders values (?, ?)", (number, message.message_id))
    return TransactionState.COMMIT


def is_placed(message: ReceivedMessage) -> TransactionState:
    """Say what became of a message whose end the broker did not hear."""
    found = database.execute("select 1 from orders where message_id = ?", (message.message_id,)).fetchone()
    return TransactionState.COMMIT if found else TransactionState.ROLLBACK


def main(name_server: str) -> None:
    """Place an order."""
    database.execute("create table orders (number text primary key, message_id text)")
    with TransactionProducer("shop", name_server, execute=place, check=is_placed) as producer:
        result = producer.send_in_transaction(Message("placed-orders", b"order 42"), "42")
    print(result.status, result.state, database.execute("select number from orders").fetchall())
    database.close()


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
