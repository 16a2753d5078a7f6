"""Read one queue at a time, from an offset of your own choice, in a coroutine.

python examples/pull_async.py [HOST:PORT of the name server]
"""

import asyncio
import os
import sys

from pyromq import Message
from pyromq.aio import Admin, Producer, PullConsumer


async def main(name_server: str) -> None:
    """Send to one queue, and read that queue from its beginning; nothing is committed."""
    async with Admin(name_server) as admin:
        await admin.create_topic("replayed", 4)
    async with Producer("greeter", name_server) as producer:
        queue = (await producer.queues("replayed"))[0]
        for number in range(5):
            await producer.send(Message("replayed", f"hello {number}".encode()), queue=queue)
    async with PullConsumer("replayer", name_server) as consumer:
        offset = await consumer.min_offset(queue)
        while offset < await consumer.max_offset(queue):
            result = await consumer.pull(queue, offset, count=2)
            offset = result.next_offset
            print(result.status, [message.body.decode() for message in result.messages])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")))
