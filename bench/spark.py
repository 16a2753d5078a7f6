"""A topic as a table beside what Spark itself takes, and beside Spark's own Kafka connector.

    .venv/bin/python bench/spark.py           # about 6 minutes; writes bench/results/spark.json and the page
    .venv/bin/python bench/spark.py --quick   # fewer rows and rounds; only printed

One Spark, two cores, one run: each case is taken in turn, round after round, and a figure is the median of
its rounds. Reads go to Spark's `noop` sink; writes come from a table that Spark has in memory. «Pre-built» is
a Python data source that yields Arrow batches, or tuples, made beforehand, and a writer that drops its
batches: nothing in Python can be faster. Kafka's broker and the connector come from Maven; of the connector
the newest that is published, with what is for delegation tokens left out.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import pyspark
from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/interop"))  # which know what comes from Maven

from beside import spark_rows  # noqa: E402
from beside.kafka import connector_classpath, create_in_kafka, start_kafka  # noqa: E402
from beside.quiet import touch_memory  # noqa: E402
from beside.results import machine, where  # noqa: E402
from beside.spark_cases import CORES, KAFKA_ROWS, QUEUES, ROWS, TOPIC, Case, Stage, cases_of, drain  # noqa: E402

from pyromq.testing.waiting import eventually  # noqa: E402
from pyspark_rocketmq.session import SparkPlace, spark_session  # noqa: E402

RESULT = ROOT / "bench" / "results" / "spark.json"
PAGE = ROOT / "docs" / "performance.md"
MARKS = ("<!-- spark: begin -->\n", "<!-- spark: end -->\n")
#: Above it the machine has other work than this.
LOAD_MAX = 1.0
#: What a round leaves in the page cache for each row, ours and Kafka's together.
ROUND_BYTES = 1_700


@contextmanager
def running(folder: Path, rows: int) -> Iterator[Stage]:
    """Start everything, write the rows that are read, and end it."""
    with ExitStack() as closing:
        ready = folder / "ready.json"
        with (folder / "pyromq.out").open("wb") as out:
            ports = ["--namesrv-port", "0", "--broker-port", "0", "--ready-file", str(ready)]
            command = [sys.executable, "-m", "pyromq", "up", "--data", str(folder / "pyromq"), *ports]
            process = subprocess.Popen(command, stdout=out, stderr=out)
        closing.callback(process.wait)
        closing.callback(process.terminate)
        kafka = start_kafka(folder, closing)
        eventually(ready.exists, 60, what="pyromq is up")
        name_server = json.loads(ready.read_text())["namesrv"]
        settings = {
            "spark.driver.extraClassPath": connector_classpath(),
            "spark.driver.memory": "3g",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
        place = SparkPlace(master=f"local[{CORES}]", settings=settings)
        # Workers read what is pre-built by a module of this folder.
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "bench"), os.environ.get("PYTHONPATH", "")])
        spark = closing.enter_context(spark_session("pyromq-bench", place))
        spark_rows.register(spark)
        yield _filled(spark, name_server, kafka, folder, rows)


def _filled(spark: SparkSession, name_server: str, kafka: str, folder: Path, rows: int) -> Stage:
    spark.range(0, rows, 1, CORES).createOrReplaceTempView("numbers")
    table = spark.sql(f"SELECT {ROWS} FROM numbers").cache()
    table.createOrReplaceTempView("written")
    kafka_table = spark.sql(f"SELECT {KAFKA_ROWS} FROM written").cache()
    for one in (table, kafka_table):
        drain(one)
    stage = Stage(spark, name_server, kafka, folder, rows, table, kafka_table)
    for topic in (TOPIC, "exactly", "least"):
        stage.create_ours(topic)
    create_in_kafka(spark, kafka, [TOPIC, "written"], QUEUES)
    stage.write_ours(TOPIC, "exactly-once")
    stage.write_kafka(TOPIC)
    for name, found in (("PyroMQ", stage.ours()), ("Kafka", stage.from_kafka())):
        if (count := found.count()) != rows:
            raise SystemExit(f"{name}'s topic has {count} rows, not {rows}")
    stage.save_batch()
    return stage


def measure(stage: Stage, rounds: int) -> dict[str, list[float]]:
    """Return the seconds that each case took in each round, after one that is not counted."""
    took: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        for case in cases_of(stage):
            # What others have written is written by the time that this one writes.
            os.sync()
            begin = time.monotonic()
            case.run()
            seconds = time.monotonic() - begin
            print(f"round {number}: {case.key:14s} {stage.rows / seconds:12,.0f} rows/s", flush=True)
            if number:
                took.setdefault(case.key, []).append(seconds)
    return took


def lines_of(cases: list[Case], took: dict[str, list[float]], rows: int) -> list[dict[str, object]]:
    """Return a line for each case: its rows per second, and what it reached of its goals."""
    speeds = {key: rows / median(seconds) for key, seconds in took.items()}
    titles = {case.key: case.title for case in cases}
    return [
        {
            "case": case.key,
            "title": case.title,
            "rows_per_second": round(speeds[case.key]),
            "rounds": [round(rows / seconds) for seconds in took[case.key]],
            "goals": [
                {
                    "of": titles[goal.of],
                    "goal": goal.part,
                    "reached": round(speeds[case.key] / speeds[goal.of], 3),
                    "is_met": speeds[case.key] >= goal.part * speeds[goal.of],
                }
                for goal in case.goals
            ],
        }
        for case in cases
    ]


def table_of(lines: list[dict[str, Any]]) -> str:
    """Return the lines as a Markdown table."""
    rows = [
        ["case", "rows/s", "beside", "reached", "goal", ""],
        ["---", "---:", "---", "---:", "---:", "---"],
    ]
    for line in lines:
        head = [line["title"], f"{line['rows_per_second']:,}"]
        if not line["goals"]:
            rows.append([*head, "", "", "", ""])
        for goal in line["goals"]:
            beside = goal["of"].partition(": ")[2]
            verdict = "met" if goal["is_met"] else "**missed**"
            rows.append([*head, beside, f"{goal['reached']:.0%}", f"≥ {goal['goal']:.0%}", verdict])
            head = ["", ""]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def write_page(note: str) -> None:
    """Put the table between its marks in the documentation."""
    before, _, rest = PAGE.read_text().partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    PAGE.write_text(f"{before}{MARKS[0]}{note}{MARKS[1]}{after}")


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="200,000 rows, two rounds; only printed")
    parser.add_argument("--rows", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=None)
    options = parser.parse_args()
    rows = options.rows or (200_000 if options.quick else 1_000_000)
    rounds = options.rounds or (2 if options.quick else 5)
    load = os.getloadavg()[0]
    if not options.quick:
        touch_memory(rows * (rounds + 2) * ROUND_BYTES)
    with tempfile.TemporaryDirectory(prefix="pyromq-spark-") as folder, running(Path(folder), rows) as stage:
        took = measure(stage, rounds)
        lines = lines_of(cases_of(stage), took, rows)
    seen, at = machine(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    is_loaded = load > LOAD_MAX
    said = (
        f" The machine had other work: load {load:.1f} before the start; trust ratios only."
        if is_loaded
        else ""
    )
    note = f"{where(seen, at)} {rows:,} rows, median of {rounds} rounds.{said}\n\n{table_of(lines)}"
    print(note)
    if not options.quick:
        record = {
            "at": at,
            "machine": seen,
            "rows": rows,
            "load_at_start": load,
            "is_loaded": is_loaded,
            "spark": {"version": pyspark.__version__, "cores": CORES},
            "lines": lines,
        }
        RESULT.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        write_page(note)


if __name__ == "__main__":
    main()
