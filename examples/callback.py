"""Send on another thread, and hear of the result by a callback.

python examples/callback.py [HOST:PORT of the name server]
"""

import os
import sys

from pyromq import Message, Producer, SendResult


def tell(result: SendResult | None, error: BaseException | None) -> None:
    """Say what became of one message."""
    print(f"failed: {error}" if result is None else f"stored at {result.queue_offset} of {result.queue}")


def main(name_server: str) -> None:
    """Send ten messages; leaving the block waits for those that are under way."""
    with Producer("log-service", name_server) as producer:
        for number in range(10):
            producer.send_async(Message("logs", f"line {number}".encode()), tell)


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
