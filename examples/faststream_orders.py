"""A handler of FastStream that turns orders into invoices.

python examples/faststream_orders.py [HOST:PORT of the name server]
"""

import asyncio
import logging
import os
import sys

from pyromq import ConsumeFrom
from pyromq.faststream import RocketBroker

FIRST = ConsumeFrom.FIRST_OFFSET


async def main(name_server: str) -> None:
    """Publish an order, and wait for its invoice."""
    broker = RocketBroker(name_server, group="stream-shop", log_level=logging.ERROR)
    billed = asyncio.Event()

    @broker.subscriber("stream-orders", consume_from=FIRST)
    @broker.publisher("stream-invoices")
    async def charge(order: dict[str, float]) -> dict[str, float]:
        return {"id": order["id"], "amount": order["amount"] * 1.25}

    @broker.subscriber("stream-invoices", consume_from=FIRST)
    async def show(invoice: dict[str, float]) -> None:
        print(f"order {invoice['id']:.0f}: {invoice['amount']}")
        billed.set()

    async with broker:
        await broker.publish({"id": 7, "amount": 100}, "stream-orders")
        await broker.start()
        await asyncio.wait_for(billed.wait(), 30)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")))
