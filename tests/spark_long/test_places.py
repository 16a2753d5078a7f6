"""Pipelines and jobs, by the commands of the pages, where Spark is somewhere else.

On a standalone master with two workers (`--master`), and behind a Spark Connect server (`--remote`), both
started from the installed pyspark; brokers are in processes of their own. Run by `make test-spark-long`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from sink_stage import bodies, ids, messages_in
from spark_clusters import MEMORY_MB, Brokers, connect_server, running_brokers, standalone_master
from spark_stage import make_topic

from pyromq import Message, Producer

pytestmark = [pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]

COUNT = 120
FILE = """\
name: {topic}
source: {{nameServer: "{name_server}", subscribe: {topic}, startingOffsets: earliest}}
steps:
  numbers: SELECT CAST(CAST(body AS STRING) AS INT) AS number, keys FROM source
  answers: SELECT CAST(number * 2 AS STRING) AS body, keys FROM numbers
sinks:
  answers: {{topic: {topic}-answers}}
  table: {{from: numbers, parquet: out}}
"""


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with running_brokers(Path(tmp_path_factory.mktemp("brokers"))) as running:
        yield running


@pytest.fixture(scope="module", params=["standalone", "connect"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Where Spark runs, as the commands take it."""
    folder = Path(tmp_path_factory.mktemp("spark"))
    if request.param == "standalone":
        with standalone_master(folder) as master:
            yield ["--master", master, "--conf", f"spark.executor.memory={MEMORY_MB}m"]
    else:
        with connect_server(folder) as address:
            yield ["--remote", address]


@pytest.fixture
def topic(brokers: Brokers) -> str:
    name = f"topic-{uuid4().hex[:12]}"
    make_topic(brokers.name_server, name, 4)
    return name


def send(brokers: Brokers, topic: str, first: int, count: int) -> None:
    with Producer("places", brokers.name_server) as producer:
        for number in range(first, first + count):
            producer.send(Message(topic, b"%d" % number, keys=[f"n{number}"]))


def pyromq(data: Path, *arguments: object) -> list[dict[str, Any]]:
    """Run a command to its end; return the objects that it printed."""
    run = subprocess.run(
        [Path(sys.executable).with_name("pyromq"), *map(str, arguments), "--json"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=os.environ | {"XDG_DATA_HOME": str(data)},
    )
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_a_pipeline_reads_and_writes_each_message_once_over_two_runs(
    brokers: Brokers, place: list[str], topic: str, tmp_path: Path
) -> None:
    (tmp_path / "pipeline.yml").write_text(FILE.format(name_server=brokers.name_server, topic=topic))
    run = ["pipeline", "run", tmp_path, "--once", "--create-topics", *place]
    send(brokers, topic, 0, COUNT)
    pyromq(tmp_path, *run)
    send(brokers, topic, COUNT, 7)
    told = pyromq(tmp_path, *run)

    answers = messages_in(brokers.name_server, f"{topic}-answers")
    assert bodies(answers) == sorted(str(number * 2) for number in range(COUNT + 7))
    assert len(set(ids(answers))) == COUNT + 7
    table = pq.read_table(tmp_path / "out").column("number").to_pylist()
    assert sorted(table) == list(range(COUNT + 7))
    assert sum(line.get("rows", 0) for line in told[:-1]) == 2 * 7


def test_a_pipeline_is_checked(brokers: Brokers, place: list[str], topic: str, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text(FILE.format(name_server=brokers.name_server, topic=topic))
    make_topic(brokers.name_server, f"{topic}-answers", 1)

    pyromq(tmp_path, "pipeline", "check", tmp_path, *place)


def test_jobs_archive_verify_replay_and_mirror(
    brokers: Brokers, place: list[str], topic: str, tmp_path: Path
) -> None:
    send(brokers, topic, 0, COUNT)
    make_topic(brokers.name_server, f"{topic}-again", 2)
    archive, near = tmp_path / "archive", ["--namesrv", brokers.name_server, *place]

    archived = pyromq(tmp_path, "job", "archive", topic, "--to", archive, "--round", 50, *near)
    verified = pyromq(tmp_path, "job", "verify", archive, *near)
    chosen = ["--archive", archive, "--topic", topic, "--to", f"{topic}-again", "--where", "keys <> 'n7'"]
    for _ in range(2):
        # The second time there is nothing left to be sent.
        replayed = pyromq(tmp_path, "job", "replay", *chosen, "--state", tmp_path / "state", *near)
    with running_brokers(_made(tmp_path / "far")) as far:
        sides = ["--from", brokers.name_server, "--to", far.name_server, "--target-name", "far"]
        pyromq(
            tmp_path, "job", "mirror", topic, *sides, "--once", "--checkpoint", tmp_path / "mirror", *place
        )
        mirrored = messages_in(far.name_server, topic)

    assert archived[-1]["event"] == verified[-1]["event"] == replayed[-1]["event"] == "end"
    again = messages_in(brokers.name_server, f"{topic}-again")
    assert bodies(again) == sorted(str(number) for number in range(COUNT) if number != 7)
    assert bodies(mirrored) == sorted(str(number) for number in range(COUNT))
    assert ids(mirrored) == ids(messages_in(brokers.name_server, topic))


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
