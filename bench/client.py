"""Our Python client beside the official Java client and the C++ wheel, on one broker, in one run.

    .venv/bin/python bench/client.py                 # 3 rounds, about 4 minutes
    .venv/bin/python bench/client.py --quick         # 1 round
    .venv/bin/python bench/client.py --json FILE     # the figures for programs, too

The broker is ours. Clients take turns, one at a time, each in a process of its own that measures itself after
a warm-up: messages a second, and messages for each second of processor time that the client's process used
(all of its threads). A figure is the median of the rounds. *sync*: one thread sends one message after the
other. *threads*: 64 threads do so. *async*: 256 sends are under way. *push*: a push consumer empties a topic;
its listener counts.

The goals are for each second of processor time, beside the Java client: asynchronous sends and sends on 64
threads at least as many, pushed messages one and a half times as many.
"""

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/interop"))  # which know how to fetch the other clients

from beside.client_runs import CPP, JAVA, OURS, OURS_ASYNC, ClientFigure, ClientPace, measure_clients  # noqa: E402
from beside.results import machine  # noqa: E402
from beside.servers import Stage  # noqa: E402

WORKS = ("sync", "threads", "async", "push")


def table(figures: list[ClientFigure]) -> list[str]:
    """Return the figures as lines, with each client's part of Java's and of C++'s."""
    by_name = {(figure.work, figure.client): figure for figure in figures}

    def part(figure: ClientFigure, other: str) -> str:
        base = by_name.get((figure.work, other))
        return "" if base is None else f"{figure.per_cpu_second / base.per_cpu_second:.2f}"

    rows = [["work", "client", "messages/s", "per CPU-second", "of Java's", "of C++'s"]]
    rows += [
        [
            figure.work,
            figure.client,
            f"{figure.per_second:,.0f}",
            f"{figure.per_cpu_second:,.0f}",
            part(figure, JAVA),
            part(figure, CPP),
        ]
        for figure in figures
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if at < 2 else cell.rjust(width) for at, (cell, width) in enumerate(pairs)
        )
        for pairs in ([*zip(row, widths, strict=True)] for row in rows)
    ]
    return [line.rstrip() for line in lines]


#: Work, our client that the goal is for, and what it is to reach of Java's messages a CPU-second.
GOALS = (("async", OURS_ASYNC, 1.0), ("threads", OURS, 1.0), ("push", OURS, 1.5), ("push", OURS_ASYNC, 1.5))


def verdicts(figures: list[ClientFigure]) -> list[str]:
    """Return which of the goals are met."""
    by_name = {(figure.work, figure.client): figure for figure in figures}
    said = []
    for work, client, goal in GOALS:
        ours, java = by_name.get((work, client)), by_name.get((work, JAVA))
        if ours is not None and java is not None:
            part = ours.per_cpu_second / java.per_cpu_second
            said.append(
                f"{work}, {client}: {part:.2f} of Java's per CPU-second, goal {goal:.1f}: "
                f"{'met' if part >= goal else 'NOT met'}"
            )
    return said


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--size", type=int, default=128, help="bytes of a body")
    parser.add_argument("--only", nargs="*", default=WORKS, help="kinds of work")
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    options = parser.parse_args()
    pace = ClientPace(1, 2.0, 3.0, 100_000) if options.quick else ClientPace(3, 3.0, 5.0, 200_000)
    with tempfile.TemporaryDirectory(prefix="client-bench-") as name, ExitStack() as closing:
        figures = measure_clients(
            Path(name),
            Stage(Path(name), closing),
            pace,
            works=options.only,
            clients=(OURS, OURS_ASYNC, JAVA, CPP),
            size=options.size,
        )
    print("\n".join(["", *table(figures), "", *verdicts(figures)]))
    if options.json:
        record = {"machine": machine(), "size": options.size, "figures": [asdict(one) for one in figures]}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
