"""Send a message that arrives later: level 1 is one second, level 2 five, and so on to level 18, two hours.

python examples/delayed.py [HOST:PORT of the name server]
"""

import os
import sys

from pyromq import ConsumeFrom, Message, Producer, PullConsumer


def main(name_server: str) -> None:
    """Send a reminder for one second from now, and wait for it."""
    with Producer("calendar", name_server) as producer:
        producer.send(Message("reminders", b"at once"))
        producer.send(Message("reminders", b"one second later", delay_level=1))
    with PullConsumer("reader", name_server, start_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        for message in consumer.messages("reminders", idle_ms=5_000):
            print(
                message.body.decode(), f"({message.stored_at_ms - message.born_at_ms} ms after it was sent)"
            )
            if message.body == b"one second later":
                break


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
