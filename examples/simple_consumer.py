"""Receive messages when you want them, and acknowledge each by itself.

python examples/simple_consumer.py [HOST:PORT of the name server]
"""

import os
import sys

from pyromq import ConsumeFrom, Message, Producer, SimpleConsumer


def main(name_server: str) -> None:
    """Send five parcels; the third fails at first, and comes again before the others would have."""
    with Producer("shop", name_server) as producer:
        for number in range(5):
            producer.send(Message("deliveries", f"parcel {number}".encode()))
    consumer = SimpleConsumer("couriers-by-bike", name_server, consume_from=ConsumeFrom.FIRST_OFFSET)
    consumer.subscribe("deliveries")
    delivered = 0
    with consumer:
        while delivered < 5:
            # Nobody else gets these for a minute; what is not acknowledged by then comes again.
            for message in consumer.receive(8, invisible_duration_ms=60_000, wait_ms=5_000):
                if message.body == b"parcel 3" and message.reconsume_times == 0:
                    print("nobody opens for parcel 3")
                    consumer.change_invisible_duration(message, 1_000)
                    continue
                delivered += 1
                consumer.ack(message)
    print(f"{delivered} parcels delivered")


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
