"""Read a topic message by message; the group's progress is kept by the brokers.

python examples/pull.py [HOST:PORT of the name server]
"""

import os
import sys

from pyromq import ConsumeFrom, Message, Producer, PullConsumer


def main(name_server: str) -> None:
    """Send five messages and read them; a second run reads only what is new."""
    with Producer("greeter", name_server) as producer:
        for number in range(5):
            producer.send(Message("greetings", f"hello {number}".encode()))
    with PullConsumer("reader", name_server, start_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        for message in consumer.messages("greetings", idle_ms=500):
            print(message.queue.queue_id, message.queue_offset, message.body.decode())


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
