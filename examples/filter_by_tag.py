"""Read only the messages with one of some tags; the broker leaves out the others.

python examples/filter_by_tag.py [HOST:PORT of the name server]
"""

import os
import sys

from pyromq import ConsumeFrom, Message, Producer, PullConsumer


def main(name_server: str) -> None:
    """Send bills of three kinds and read two of them."""
    with Producer("billing", name_server) as producer:
        for kind in ("paid", "open", "refunded"):
            producer.send(Message("bills", f"a bill that is {kind}".encode(), tags=kind))
    with PullConsumer("audit", name_server, start_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        for message in consumer.messages("bills", tags="paid || refunded", idle_ms=500):
            print(message.tags, message.body.decode())


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
