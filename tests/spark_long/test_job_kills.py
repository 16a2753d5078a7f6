"""`pyromq job …` as a program: stopped by signals, killed, and run again; each message once."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sink_stage import messages_in
from spark_stage import make_topic

from pyromq import Message, Producer
from pyromq.testing.cluster import running_cluster
from pyromq.testing.waiting import eventually
from pyspark_rocketmq.cold.archive_manifest import ArchiveManifest
from pyspark_rocketmq.cold.folder import ArchiveFolder

COUNT = 3_000
ROUND = 200
START_S = 240.0

pytestmark = [pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_cluster(data_dir=Path(tmp_path_factory.mktemp("jobs"))) as cluster:
        make_topic(cluster.namesrv_address, "orders")
        with Producer("job-kills", cluster.namesrv_address) as producer:
            for first in range(0, COUNT, 100):
                producer.send_batch(
                    [Message("orders", b"%d" % number) for number in range(first, first + 100)]
                )
        yield cluster.namesrv_address


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_DATA_HOME": str(tmp_path / "home")}


def start(environment: dict[str, str], *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "pyromq", "job", *arguments, "--master", "local[2]", "--json"]
    return subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, start_new_session=True
    )


def run(environment: dict[str, str], *arguments: str) -> tuple[int, dict[str, object]]:
    """Run a job to its end; return its status, and what it said last."""
    process = start(environment, *arguments)
    said, _ = process.communicate(timeout=600)
    return process.returncode, json.loads(said.splitlines()[-1])


def kill(process: "subprocess.Popen[str]") -> None:
    """Kill a program with all that it started, as a machine's end does."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)


def test_an_archive_job_that_is_killed_and_one_that_is_stopped_are_gone_on_with(
    name_server: str, environment: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "archive"
    arguments = ["archive", "orders", "--to", str(folder), "-n", name_server, "--round", str(ROUND)]

    def commits() -> int:
        return len(list((folder / "_manifest").glob("*.json")))

    killed = start(environment, *arguments)
    eventually(lambda: commits() >= 2, START_S, what="some commits are made")
    kill(killed)
    after_kill = commits()
    stopped = start(environment, *arguments)
    eventually(lambda: commits() >= after_kill + 2, START_S, what="more commits are made")
    stopped.send_signal(signal.SIGTERM)
    said, _ = stopped.communicate(timeout=120)
    status, last = run(environment, *arguments)

    end = json.loads(said.splitlines()[-1])
    assert (stopped.returncode, end["is_stopped"]) == (130, True)
    assert (status, last["left"]) == (0, 0)
    files = ArchiveManifest.load(ArchiveFolder(str(folder))).files()
    assert sum(file.row_count for file in files) == COUNT
    status, verified = run(environment, "verify", str(folder), "-n", name_server)
    assert (status, verified["rows"], verified["same"]) == (0, COUNT, len(files))


def test_a_replay_that_is_killed_sends_each_message_once(
    name_server: str, environment: dict[str, str], tmp_path: Path
) -> None:
    folder, state = tmp_path / "archive", tmp_path / "state"
    make_topic(name_server, "again")
    assert run(environment, "archive", "orders", "--to", str(folder), "-n", name_server)[0] == 0
    arguments = ["replay", "--archive", str(folder), "--topic", "orders", "--to", "again", "-n", name_server]
    arguments += ["--rate", "500", "--state", str(state)]

    killed = start(environment, *arguments)
    eventually(lambda: len(list((state / "done").glob("*"))) >= 1, START_S, what="a round is out")
    kill(killed)
    status, last = run(environment, *arguments)

    assert (status, last["left"], last["total"]) == (0, 0, COUNT)
    assert sorted(int(one.body) for one in messages_in(name_server, "again")) == list(range(COUNT))
