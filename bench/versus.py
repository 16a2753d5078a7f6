"""PyroMQ beside Apache's brokers on this machine: same settings, same generator, taken in turn.

    .venv/bin/python bench/versus.py                    # at most 20 minutes; writes results, charts, the page
    .venv/bin/python bench/versus.py --quick            # at most 4 minutes; one round, writes results only
    .venv/bin/python bench/versus.py --only 64x1 batch  # some cases; writes nothing but what it prints
    .venv/bin/python bench/versus.py --with-5           # the newest 5.x beside both, too: half as long again

Apache's servers are 4.9.7's on 4.9.8's libraries (decision 0008), and the newest 5.x when it is asked for,
fetched by Maven. The cases of one setup (plain, access control, TLS, a slave …) share brokers; while one
broker is measured the others are stopped, so that they take no time from it. Each case is run on one broker
after the other, round after round; a figure is the median of the rounds. Before each run a quiet moment is
waited for, though not long, and the disk gets what is unwritten. What other processes used meanwhile is
written down with each run; rounds in which it was more than a third of a core are left out when at least two
others remain; if not, the line is marked with †.

The echo server (`bench/echo`) is measured in the same run: the system calls of a broker, and nothing else.

The first touch of a page of memory is slow on a virtual machine, for whoever happens to touch it: so as much
memory as a run will fill is touched first, and the system forgets what is no longer read.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/interop"))  # which know how to fetch and start Apache's servers

from beside.cases import BESIDE, BESIDE_5, CASES, KEYS  # noqa: E402
from beside.figures import aligned, refusals_of, table_of, verdict_of  # noqa: E402
from beside.measuring import (  # noqa: E402
    FULL,
    QUICK,
    Found,
    Pace,
    measure_python_client,
    measure_setups,
    measure_starts,
    measure_topics,
)
from beside.page import put_between  # noqa: E402
from beside.quiet import touch_memory  # noqa: E402
from beside.results import Row, machine, rows_of, where  # noqa: E402
from beside.servers import JVM, SHARED, Stage  # noqa: E402
from harness.toolchains import Unavailable  # noqa: E402

from pyromq.errors import PyroError  # noqa: E402

RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "performance.md"
MARKS = ("<!-- versus: begin -->\n", "<!-- versus: end -->\n")


def measure(pace: Pace, wanted: set[str], kinds: Sequence[str], *, verifies: bool = False) -> Found:
    """Start the servers, measure what is wanted, and end them; `verifies`: look through our stores then."""
    found = Found()
    cases = [case for case in CASES if case.key in wanted]
    with tempfile.TemporaryDirectory(prefix="versus-") as folder, ExitStack() as closing:
        stage = Stage(Path(folder), closing, verifies=verifies)
        touch_memory(pace.touched_bytes)
        if "start" in wanted:
            found.starts_s = measure_starts(stage, pace, kinds)
        if "clients" in wanted:
            found.clients = measure_python_client(Path(folder), stage, pace)
        if "topics" in wanted:
            found.crowd = measure_topics(stage, pace)
        measure_setups(stage, found, cases, kinds, pace, has_memory="memory" in wanted)
    return found


def write_results(found: Found, rows: list[Row], pace: Pace, name: str) -> str:
    """Write everything for programs, and the table for people, which is returned."""
    RESULTS.mkdir(exist_ok=True)
    seen = machine()
    at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    record = {
        "at": at,
        "machine": seen,
        "settings": {**SHARED, "jvm": JVM, "pace": asdict(pace)},
        "rows": [row.as_record() for row in rows],
        "starts_s": found.starts_s,
        "memory_mib": found.memory,
        "topics": found.crowd,
        "clients": found.clients,
        "failures": found.failures,
        "runs": found.runs,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    said = "".join(f"\n{text}.\n" for text in (verdict_of(rows), refusals_of(rows)) if text)
    note = f"{where(seen, at)}\n\n{table_of(rows)}{said}"
    (RESULTS / f"{name}.md").write_text(note)
    return note


def write_page(note: str, pictures: list[Path]) -> None:
    """Put the table and the pictures between their marks in the documentation."""
    shown = "".join(f"\n![{path.stem}](../bench/results/{path.name})\n" for path in pictures)
    put_between(PAGE, MARKS, note + shown)


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description="PyroMQ beside Apache's brokers on this machine.")
    parser.add_argument("--quick", action="store_true", help="one short round, at most 4 minutes")
    parser.add_argument("--only", nargs="+", choices=KEYS, metavar="CASE", help=f"some of: {', '.join(KEYS)}")
    parser.add_argument("--rounds", type=int, help="how often each case is run")
    parser.add_argument("--with-5", action="store_true", help="Apache's newest 5.x too")
    parser.add_argument("--keep-page", action="store_true", help="leave docs/performance.md as it is")
    parser.add_argument(
        "--verify",
        action="store_true",
        help="look through our stores when their load has ended; takes longer",
    )
    options = parser.parse_args()
    pace = QUICK if options.quick else FULL
    if options.rounds:
        pace = Pace(**{**vars(pace), "rounds": options.rounds})
    began_at = time.monotonic()
    try:
        kinds = BESIDE_5 if options.with_5 else BESIDE
        found = measure(pace, set(options.only or KEYS), kinds, verifies=options.verify)
    except (Unavailable, PyroError) as error:
        raise SystemExit(f"versus: {error}") from error
    rows = rows_of(found)
    print(f"\n{aligned(rows)}\n\n{refusals_of(rows)}\n{verdict_of(rows)}")
    for failure in found.failures:
        print(f"not measured: {failure}")
    print(f"took {time.monotonic() - began_at:.0f} s")
    if options.only:
        return
    note = write_results(found, rows, pace, "versus-quick" if options.quick else "versus")
    if not options.quick and not options.keep_page:
        from beside.charts import draw_all

        write_page(note, draw_all(rows, RESULTS))
    if found.failures:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
