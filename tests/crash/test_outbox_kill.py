"""`kill -9` of a shop with an outbox: what is committed is sent, and nothing else; repeats have their ids."""

import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgresql import PostgreSQL, running_postgresql

from pyromq import Producer, PullConsumer
from pyromq.outbox import Outbox, Relay
from pyromq.sql import statements
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import eventually

SHOP = Path(__file__).with_name("outbox_dies.py")


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgreSQL]:
    with running_postgresql() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "shop.db")
    return str(request.getfixturevalue("postgresql").database())


@pytest.fixture
def connect(database: str) -> Callable[[], Any]:
    if database.startswith("postgresql:"):
        return lambda: psycopg.connect(database)
    return lambda: sqlite3.connect(database)


@pytest.fixture
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster() as cluster:
        yield cluster


def let_the_shop_die(database: str, cluster: ThreadCluster, moment: str) -> list[str]:
    """Run the shop until it dies, and return the ids that it said were committed."""
    ended = subprocess.run(
        [sys.executable, str(SHOP), database, cluster.namesrv_address, moment],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    return ended.stdout.split()


def arrived(cluster: ThreadCluster) -> Counter[str]:
    """Return how often each message id is on the broker."""
    found: Counter[str] = Counter()
    with PullConsumer("audit", cluster.namesrv_address) as consumer:
        for queue in consumer.queues("orders"):
            offset = 0
            while offset < consumer.max_offset(queue):
                pulled = consumer.pull(queue, offset)
                found.update(message.message_id for message in pulled.messages)
                offset = pulled.next_offset
    return found


def is_let_go(connect: Callable[[], Any], database: str) -> bool:
    """Whether the database knows that the dead shop is gone: what it had locked is free then."""
    if not database.startswith("postgresql:"):
        return True
    with closing(connect()) as connection:
        others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> %s"
        return bool(connection.execute(others, (connection.info.backend_pid,)).fetchone()[0] == 0)


@pytest.mark.row("ID-01", "ID-04")
@pytest.mark.parametrize(
    ("moment", "committed", "repeated"),
    [
        ("before the commit", 2, {"sqlite": 0, "postgresql": 0}),
        ("between commit and send", 3, {"sqlite": 0, "postgresql": 0}),
        ("before the send", 3, {"sqlite": 0, "postgresql": 1}),
        ("between send and mark", 3, {"sqlite": 1, "postgresql": 2}),
    ],
)
def test_every_committed_message_arrives_and_repeats_have_the_same_id(
    database: str,
    connect: Callable[[], Any],
    cluster: ThreadCluster,
    moment: str,
    committed: int,
    repeated: dict[str, int],
) -> None:
    with closing(connect()) as connection:
        statements(connection).execute("CREATE TABLE orders (number INTEGER)")
        outbox = Outbox(connection)
        outbox.create_table(connection)
        connection.commit()
    ids = let_the_shop_die(database, cluster, moment)
    eventually(lambda: is_let_go(connect, database), what="the shop is known to be dead")

    # Another relay, at a time when a lease of the dead one is over.
    after = ManualClock()
    after.advance(4_000_000_000_000 - after.now_ms())
    with Producer("shop", cluster.namesrv_address) as producer:
        report = Relay(connect, producer, clock=after).run_once()

    assert report.failed == 0
    counts = arrived(cluster)
    assert len(ids) == committed
    assert set(counts) == set(ids)
    # SQLite marks each row after its send, PostgreSQL all rows of a round at its end.
    assert sum(counts.values()) - len(ids) == repeated[outbox.dialect]
