"""Send a message and wait until it is stored.

python examples/send.py [HOST:PORT of the name server]
"""

import os
import sys

from pyromq import Message, Producer


def main(name_server: str) -> None:
    """Send three orders, each with a tag to filter by and a key to find it by."""
    with Producer("orders-service", name_server) as producer:
        for number in range(3):
            message = Message("orders", f"order {number}".encode(), tags="paid", keys=[f"order-{number}"])
            result = producer.send(message)
            print(result.status, result.message_id, result.queue, result.queue_offset)


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
