"""Every example runs against a cluster and says what it should."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import Admin
from pyromq.testing.cluster import ThreadCluster, running_cluster

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "send.py": "SEND_OK",
    "send_async.py": "100 messages in 4 queues",
    "callback.py": "stored at",
    "batch.py": "SEND_OK 50 messages from offset 0 on\n50 more in 3 batches",
    "transaction.py": "SEND_OK COMMIT_MESSAGE [('42',)]",
    "request_reply.py": "20+22 = 42",
    "ordered.py": "order-2 shipped broker-a",
    "pull.py": "hello 4",
    "pull_consumer.py": "10 orders taken",
    "pull_async.py": "FOUND ['hello 0', 'hello 1']",
    "simple_consumer.py": "nobody opens for parcel 3\n5 parcels delivered",
    "push_consumer.py": "payment 3 must wait\n5 payments handled",
    "push_orderly.py": "o4 created paid shipped",
    "delayed.py": "one second later",
    "any_delay.py": "meeting waits\nthe meeting is cancelled\ntea is ready\nthe bus leaves\n",
    "dead_letters.py": "replayed to %RETRY%couriers\nonce more: skipped",
    "filter_by_tag.py": "a bill that is refunded",
    "find_message.py": "by its place a parcel to Turku",
    "service.py": "order 7 is billed: 125.00",
    "outbox.py": "RoundReport(sent=1, failed=0, put_back=0)",
    "idempotent_consumer.py": "a bill for order order-7\n2 messages",
    "celery_tasks.py": "order 3 is billed",
    "faststream_orders.py": "order 7: 125.0",
}


#: Topics that an example writes and reads at once. Made by its first message, the name server would know of
#: one a little later, and a consumer that comes sooner says so on standard error.
READ = (
    *("payments", "shipping-steps", "shop-orders", "greetings", "bills", "sales", "reminders"),
    *("appointments", "doors", "deliveries", "stream-orders", "stream-invoices", "shop-sales"),
    "shop-invoices",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster() as cluster:
        with Admin(cluster.namesrv_address) as admin:
            for topic in READ:
                admin.create_topic(topic, 4)
        yield cluster


def run(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_example_takes_the_name_servers_address_as_an_argument(cluster: ThreadCluster) -> None:
    ended = run("send.py", cluster.namesrv_address, NAMESRV_ADDR="127.0.0.1:1")

    assert ended.returncode == 0, ended.stderr
    assert SAYS["send.py"] in ended.stdout


@pytest.mark.parametrize("name", SAYS)
def test_an_example_without_an_argument_asks_where_pyromq_up_has_its_name_server(name: str) -> None:
    assert 'os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")' in (EXAMPLES / name).read_text()


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs(cluster: ThreadCluster, name: str) -> None:
    ended = run(name, NAMESRV_ADDR=cluster.namesrv_address)

    assert ended.returncode == 0, ended.stderr
    assert SAYS[name] in ended.stdout
    assert ended.stderr == ""
