"""Have a function called with every message, tell what is done from what must come again.

python examples/push_consumer.py [HOST:PORT of the name server]
"""

import os
import sys
import threading

from pyromq import ConsumeFrom, Delivery, Message, Producer, PushConsumer, ReceivedMessage


def main(name_server: str) -> None:
    """Handle five payments; one fails at first and comes again after a second."""
    handled: set[bytes] = set()
    is_done = threading.Event()

    def handle(message: ReceivedMessage, delivery: Delivery) -> bool:
        """Return False, or raise, to get the message again later."""
        if message.body == b"payment 3" and message.reconsume_times == 0:
            print("payment 3 must wait")
            delivery.delay_level = 1  # one second; without it ten, and longer each time
            return False
        handled.add(message.body)
        if len(handled) == 5:
            is_done.set()
        return True

    with Producer("shop", name_server) as producer:
        for number in range(5):
            producer.send(Message("payments", f"payment {number}".encode(), tags="paid"))
    consumer = PushConsumer("billing", name_server, listener=handle, consume_from=ConsumeFrom.FIRST_OFFSET)
    consumer.subscribe("payments", "paid || refunded")
    with consumer:
        is_done.wait(60)
    print(f"{len(handled)} payments handled")


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
