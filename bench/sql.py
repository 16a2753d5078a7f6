"""How many messages a second one core filters by SQL92: the expression alone, and with the stored record.

    .venv/bin/python bench/sql.py                 # writes bench/results/sql.json
    .venv/bin/python bench/sql.py --json FILE

Each figure is the fastest and the middle one of many runs of 1024 messages, by processor time: evaluations
per second and core.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from pyromq.broker.delivery.sql_filters import record_test
from pyromq.clock import SystemClock
from pyromq.config.settings import StoreSettings
from pyromq.filter.sql_filter import compile_sql
from pyromq.store.store import Draft, MessageStore
from pyromq.wire import properties as names
from pyromq.wire.record import encode_host

RESULT = Path(__file__).resolve().parent / "results" / "sql.json"
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


def report(name: str, filter_all: Callable[[], object], count: int = CHUNK) -> dict[str, float]:
    """Print how many messages a second an action has filtered in its fastest and its middle run."""
    took = []
    for _ in range(COUNT // CHUNK):
        begin = time.process_time()
        filter_all()
        took.append((time.process_time() - begin) / count)
    best, middle = 1 / min(took), 1 / median(took)
    print(f"{name:80s} {best:12,.0f} evaluations per second and core   median {middle:12,.0f}")
    return {"best_per_second": round(best), "median_per_second": round(middle)}


def pull_all(store: MessageStore, expression: str) -> dict[str, float]:
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
    return {
        "per_second": round(COUNT / took),
        "match": found / COUNT,
        "pulls": len(turns),
        "pull_ms_median": round(median(turns) * 1e3, 2),
        "pull_ms_max": round(max(turns) * 1e3, 2),
    }


def run(folder: Path) -> dict[str, object]:
    """Measure expressions, then a store's queue."""
    found: dict[str, object] = {}
    messages = [properties(number) for number in range(CHUNK)]
    for expression in EXPRESSIONS:
        matches = compile_sql(expression).matches
        found[expression] = report(expression, lambda test=matches: [test(each) for each in messages])  # type: ignore[misc]
    store = MessageStore(StoreSettings(store_path_root_dir=str(folder)), clock=SystemClock())
    store.open()
    for number in range(COUNT):
        text = names.encode(properties(number))
        store.put(Draft("BenchmarkTest", 0, b"x" * 1024, text, 0, 0, 1_700_000_000_000, HOST, HOST))
    found["pulls of stored messages, amount > 98"] = pull_all(store, "amount > 98")
    store.close()
    return found


def main() -> None:
    """Measure, and write it down."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, default=RESULT, help="where to write the figures")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="pyromq-sql-") as folder:
        found = run(Path(folder))
    # By processor time; but caches are shared with whatever else runs.
    record = {"at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "load_at_start": load, "found": found}
    options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
