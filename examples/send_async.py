"""Send many messages at once from a coroutine.

python examples/send_async.py [HOST:PORT of the name server]
"""

import asyncio
import os
import sys

from pyromq import Message
from pyromq.aio import Producer


async def main(name_server: str) -> None:
    """Send 100 messages without waiting for one before the next."""
    async with Producer("metrics-service", name_server) as producer:
        messages = [Message("metrics", f"value {number}".encode()) for number in range(100)]
        results = await asyncio.gather(*(producer.send(message) for message in messages))
    queues = {result.queue.queue_id for result in results}
    print(f"{len(results)} messages in {len(queues)} queues")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")))
