"""Handle the messages of one order one after the other, in the order in which they were sent.

python examples/push_orderly.py [HOST:PORT of the name server]
"""

import asyncio
import os
import sys

from pyromq import ConsumeFrom, Message, ReceivedMessage, select_by_hash
from pyromq.aio import Producer, PushConsumer


async def main(name_server: str) -> None:
    """Send three steps of four orders, each order to its own queue, and handle them by a coroutine."""
    seen: dict[str, list[str]] = {"o1": [], "o2": [], "o3": [], "o4": []}
    is_done = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        order, step = message.body.decode().split()
        seen[order].append(step)
        if sum(map(len, seen.values())) == 12:
            is_done.set()

    async with Producer("shop", name_server) as producer:
        for step in ("created", "paid", "shipped"):
            for order in seen:
                step_of = Message("shipping-steps", f"{order} {step}".encode())
                await producer.send(step_of, selector=select_by_hash(order))
    consumer = PushConsumer(
        "shipping", name_server, listener=handle, order="orderly", consume_from=ConsumeFrom.FIRST_OFFSET
    )
    consumer.subscribe("shipping-steps")
    async with consumer:
        await asyncio.wait_for(is_done.wait(), 60)
    print(*(f"{order} {' '.join(steps)}" for order, steps in sorted(seen.items())), sep="\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")))
