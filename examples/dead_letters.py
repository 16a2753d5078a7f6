"""Give a message up, find it among the dead letters, and replay it to its group.

python examples/dead_letters.py [HOST:PORT of the name server]
"""

import os
import sys
import threading

from pyromq import ConsumeFrom, DeadLetters, Delivery, Message, Producer, PushConsumer, ReceivedMessage


def main(name_server: str) -> None:
    """Fail with a parcel until the consumer is mended."""
    is_mended = False
    is_delivered = threading.Event()

    def deliver(message: ReceivedMessage, delivery: Delivery) -> bool:
        delivery.delay_level = -1  # no retries: to the dead letters at once
        if is_mended:
            is_delivered.set()
        return is_mended

    with Producer("shop", name_server) as producer:
        producer.send(Message("doors", b"a parcel for no. 7", keys=["no-7"]))
    consumer = PushConsumer("couriers", name_server, listener=deliver, consume_from=ConsumeFrom.FIRST_OFFSET)
    consumer.subscribe("doors")
    with consumer, DeadLetters(name_server) as letters:
        while not (dead := list(letters.read("couriers"))):
            is_delivered.wait(0.1)
        print("given up:", dead[0].message.body.decode(), "from topic", dead[0].topic)
        is_mended = True
        for result in letters.replay("couriers", rate=10):
            print(result.outcome, "to", result.destination)
        is_delivered.wait(60)
        print("once more:", *(result.outcome for result in letters.replay("couriers")))


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
