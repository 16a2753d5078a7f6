"""Subscribe to a topic and take its messages one by one, at the application's own pace.

python examples/pull_consumer.py [HOST:PORT of the name server]
"""

import os
import sys

from pyromq import ConsumeFrom, Message, Producer, PullConsumer


def main(name_server: str) -> None:
    """Send ten orders and take them; a second member of the group would get half of the queues."""
    with Producer("shop", name_server) as producer:
        for number in range(10):
            producer.send(Message("shop-orders", f"order {number}".encode(), tags="paid"))
    taken = 0
    with PullConsumer("billing", name_server, start_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        consumer.subscribe("shop-orders", "paid || refunded")
        for message in consumer:
            print(message.queue.queue_id, message.queue_offset, message.body.decode())
            taken += 1
            if taken == 10:
                break
    print(f"{taken} orders taken, and the group's progress committed")


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
