"""Write an order and its message in one transaction; a relay sends the message afterwards.

python examples/outbox.py [HOST:PORT of the name server]
"""

import os
import sqlite3
import sys
import tempfile
from functools import partial
from pathlib import Path

from pyromq import Message, Producer
from pyromq.outbox import Outbox, Relay


def main(name_server: str, database: Path) -> None:
    """Place two orders, of which one is undone, and relay what is left."""
    connect = partial(sqlite3.connect, database)
    shop = connect()
    outbox = Outbox(shop)
    with shop:
        shop.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY)")
        outbox.create_table(shop)
    for number in (1, 2):
        shop.execute("INSERT INTO orders VALUES (?)", (number,))
        outbox.add(shop, Message("orders", f"order {number}".encode(), keys=[str(number)]))
        if number == 1:
            shop.commit()
        else:
            shop.rollback()
    shop.close()
    with Producer("shop", name_server) as producer:
        print(Relay(connect, producer).run_once())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        name_server = sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
        main(name_server, Path(folder) / "shop.db")
