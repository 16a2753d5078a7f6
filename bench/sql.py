"""How many messages a second one core filters by SQL92: the expression alone, and with the stored record.

    .venv/bin/python bench/sql.py

Each figure is the fastest and the middle one of many runs of 1024 messages, by processor time.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from pyromq.broker.filters import record_test
from pyromq.clock import SystemClock
from pyromq.config.settings import StoreSettings
from pyromq.filter.sql import compile_sql
from pyromq.store.store import Draft, MessageStore
from pyromq.wire import properties as names
from pyromq.wire.record import encode_host

COUNT = 102_400
CHUNK = 1024
HOST = encode_host("127.0.0.1", 10911)
EXPRESSIONS = (
    "amount > 98",
    "amount > 98.5",
    "region = 'north'",
    "region IN ('north', 'east') AND amount BETWEEN 10 AND 20 OR note IS NOT NULL",
)


def properties(number: int) -> dict[str, str]:
    """Return what a Java client sends with a message, and two properties of the application."""
    return {
        "UNIQ_KEY": f"7F00000100010CA5D2F8{number:012X}",
        "CLUSTER": "DefaultCluster",
        "TAGS": "TagA",
        "KEYS": f"order-{number}",
        "amount": str(number % 100),
        "region": ("north", "east", "south", "west")[number % 4],
    }


def report(name: str, filter_all: Callable[[], object], count: int = CHUNK) -> None:
    """Print how many messages a second an action has filtered in its fastest and its middle run."""
    took = []
    for _ in range(COUNT // CHUNK):
        begin = time.process_time()
        filter_all()
        took.append((time.process_time() - begin) / count)
    print(f"{name:88s} {1 / min(took):12,.0f}/s   median {1 / median(took):12,.0f}/s")


def pull_all(store: MessageStore, expression: str) -> None:
    """Read a queue to its end through a filter, as pulls do, and print the cost and the longest turn."""
    matches = record_test(compile_sql(expression))
    offset, found, turns, begin = 0, 0, [], time.process_time()
    while offset < COUNT:
        turn = time.process_time()
        got = store.get("BenchmarkTest", 0, offset, count_max=32, matches=matches)
        turns.append(time.process_time() - turn)
        offset, found = got.next_offset, found + got.count
    took = time.process_time() - begin
    print(
        f"pulls of {COUNT:,} messages of 1 KiB, {found / COUNT:.1%} match: {COUNT / took:,.0f}/s in "
        f"{len(turns)} pulls; one takes {median(turns) * 1e3:.1f} ms, {max(turns) * 1e3:.1f} at most"
    )


def run(folder: Path) -> None:
    """Measure expressions, then a store's queue."""
    messages = [properties(number) for number in range(CHUNK)]
    for expression in EXPRESSIONS:
        matches = compile_sql(expression).matches
        report(expression, lambda test=matches: [test(each) for each in messages])  # type: ignore[misc]
    store = MessageStore(StoreSettings(store_path_root_dir=str(folder)), clock=SystemClock())
    store.open()
    for number in range(COUNT):
        text = names.encode(properties(number))
        store.put(Draft("BenchmarkTest", 0, b"x" * 1024, text, 0, 0, 1_700_000_000_000, HOST, HOST))
    pull_all(store, "amount > 98")
    store.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="pyromq-sql-") as folder:
        run(Path(folder))
