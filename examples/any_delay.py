"""Send messages for any moment, look at what waits, and take one back before its time.

python examples/any_delay.py [HOST:PORT of the name server]
"""

import os
import sys
from datetime import UTC, datetime, timedelta

from pyromq import Admin, ConsumeFrom, Message, Producer, PullConsumer


def main(name_server: str) -> None:
    """Remind in half a second and in a second and a half, and cancel what was for tomorrow."""
    with Producer("calendar", name_server) as producer:
        moment = datetime.now(UTC) + timedelta(milliseconds=1_500)
        # Of one queue, messages are read in the order of their times.
        queue = producer.queues("appointments")[0]
        producer.send(Message("appointments", b"tea is ready", delay=0.5), queue=queue)
        producer.send(Message("appointments", b"the bus leaves", deliver_at=moment), queue=queue)
        meeting = producer.send(Message("appointments", b"meeting", keys="m-7", delay=timedelta(days=1)))

        with Admin(name_server) as admin:
            for waiting in admin.waiting("appointments", key="m-7"):
                print(waiting.message.body.decode(), "waits")
        if meeting.recall_handle is not None:
            producer.recall("appointments", meeting.recall_handle)
            print("the meeting is cancelled")

    with PullConsumer("reader", name_server, start_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        for message in consumer.messages("appointments", idle_ms=5_000):
            print(message.body.decode())
            if message.body == b"the bus leaves":
                break


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
