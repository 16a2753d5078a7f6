"""Ask a question by a message, and wait for the answer.

python examples/request_reply.py [HOST:PORT of the name server]
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from pyromq import Admin, ConsumeFrom, Message, Producer, PullConsumer, reply_to


def answer(name_server: str) -> None:
    """Answer one question: a service somewhere else."""
    with (
        PullConsumer("calculator", name_server, start_from=ConsumeFrom.FIRST_OFFSET) as consumer,
        Producer("calculator", name_server) as producer,
    ):
        consumer.subscribe("sums")
        question = next(iter(consumer))
        total = sum(int(number) for number in question.body.split(b"+"))
        producer.send(reply_to(question, str(total).encode()))


def main(name_server: str) -> None:
    """Ask for a sum; without an answer in ten seconds this raises RequestTimeout."""
    with Admin(name_server) as admin:
        admin.create_topic("sums", queue_count=1)
    with ThreadPoolExecutor() as elsewhere, Producer("curious", name_server) as producer:
        service = elsewhere.submit(answer, name_server)
        reply = producer.request(Message("sums", b"20+22"), timeout_ms=10_000)
        print("20+22 =", reply.body.decode())
        service.result()


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
