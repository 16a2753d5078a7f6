"""Keep the steps of one order in order: all of them go to one queue, chosen by the order's number.

python examples/ordered.py [HOST:PORT of the name server]
"""

import os
import sys

from pyromq import Message, Producer, select_by_hash

STEPS = ("created", "paid", "shipped")


def main(name_server: str) -> None:
    """Send the steps of two orders; Java clients choose the same queue for the same text."""
    with Producer("orders-service", name_server) as producer:
        for order in ("order-1", "order-2"):
            for step in STEPS:
                message = Message("order-steps", f"{order} {step}".encode(), keys=[order])
                result = producer.send(message, selector=select_by_hash(order))
                print(order, step, result.queue.broker_name, result.queue.queue_id)


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
