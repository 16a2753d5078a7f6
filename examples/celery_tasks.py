"""Send tasks of Celery through RocketMQ, and have a worker do them.

python examples/celery_tasks.py [HOST:PORT of the name server]
"""

import os
import sys
import threading

from celery import Celery
from celery.contrib.testing.worker import start_worker

BILLED = threading.Semaphore(0)


def main(name_server: str) -> None:
    """Run a worker in this process, and send it three bills: two now, one a second later."""
    app = Celery("shop", broker=f"pyromq://{name_server}")
    app.conf.broker_transport = "pyromq.kombu:Transport"
    app.conf.task_ignore_result = True

    @app.task(name="bill", acks_late=True)
    def bill(order: int) -> None:
        print(f"order {order} is billed", flush=True)
        BILLED.release()

    with start_worker(app, perform_ping_check=False, loglevel="CRITICAL"):
        bill.apply_async([3], countdown=1)
        for order in (1, 2):
            bill.delay(order)
        for _ in range(3):
            BILLED.acquire(timeout=30)


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
