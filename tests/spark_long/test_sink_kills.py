"""Tasks, drivers and brokers that die at any step of a batch: each row is in the topic once.

Run by `make test-spark-long`. Each test starts drivers as processes of their own, and a name server
and a broker that can be killed.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forked_command import start_pyromq
from harness.ports import free_broker_port
from sink_stage import bodies, ids, messages_in
from spark_stage import make_topic

from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]

TOPIC, LINES = "target", 50
STEPS = ("before write", "in write", "after write", "before commit", "after commit")
SUPPORT = Path(__file__).parents[1] / "support"
DRIVER = Path(__file__).with_name("sink_driver.py")
PATIENCE_S = 90.0


class Servers:
    """A name server, and a broker that is started again as soon as somebody kills it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_broker_port()
        self._starts = 0
        namesrv, self.name_server = self._start("namesrv", ["namesrv", "--port", "0"], "namesrv")
        self._namesrv = namesrv
        self._is_closing = False
        self._start_broker()
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    @property
    def deaths(self) -> int:
        """How often the broker was killed."""
        return self._broker_starts - 1

    def kill_broker(self) -> None:
        """End it as a power cut of the process would."""
        self._broker.kill()

    def close(self) -> None:
        """End both."""
        self._is_closing = True
        self._broker.kill()
        self._keeper.join(PATIENCE_S)
        self._namesrv.kill()

    _broker_starts = 0

    def _start_broker(self) -> None:
        arguments = ["broker", "--port", str(self._port), "--namesrv", self.name_server]
        self._broker, _ = self._start("broker", arguments, "broker")
        self._broker_starts += 1
        (self._folder / "kill").write_text(str(self._broker.pid))

    def _start(self, name: str, arguments: list[str], what: str) -> tuple[Any, str]:
        self._starts += 1
        ready = self._folder / f"{name}-{self._starts}.ready"
        data = ["--data", str(self._folder / name), "--ready-file", str(ready)]
        process = start_pyromq([*arguments, *data], self._folder / f"{name}.log")
        eventually(lambda: ready.exists() and ready.stat().st_size, PATIENCE_S, what=f"{name} is up")
        return process, json.loads(ready.read_text()).get(what, "")

    def _keep(self) -> None:
        while True:
            self._broker.join()
            if self._is_closing:
                return
            self._start_broker()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    running = Servers(tmp_path)
    make_topic(running.name_server, TOPIC, 4)
    yield running
    running.close()


class Query:
    """A query over some files, that can be run again and again."""

    def __init__(self, folder: Path, name_server: str, *, batches: int) -> None:
        self._folder = folder
        self._name_server = name_server
        self.source = folder / "source"
        self.source.mkdir()
        for file in range(batches):
            (self.source / f"{file}.txt").write_text("".join(f"{file}-{line}\n" for line in range(LINES)))
        self.rows = sorted(f"{file}-{line}" for file in range(batches) for line in range(LINES))

    def run(self, *faults: tuple[str, str, int], master: str = "local[2]", dies: bool = False) -> int:
        """Run a driver with these faults; return its exit code."""
        asked = {
            "master": master,
            "dies": dies,
            "source": str(self.source),
            "checkpoint": str(self._folder / "checkpoint"),
            "options": {
                "nameServer": self._name_server,
                "topic": TOPIC,
                "faults": json.dumps(faults),
                "faultsFolder": str(self._folder),
            },
        }
        command = [sys.executable, str(DRIVER), json.dumps(asked)]
        environment = os.environ | {"PYTHONPATH": str(SUPPORT)}
        with (self._folder / "driver.log").open("ab") as log:
            driver = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True
            )
            try:
                return driver.wait(600)
            finally:
                # Workers of a driver that was killed.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(driver.pid, signal.SIGKILL)

    def check(self) -> None:
        """All rows are there, each once."""
        found = messages_in(self._name_server, TOPIC)
        assert bodies(found) == self.rows
        assert len(set(ids(found))) == len(self.rows)


def test_tasks_whose_first_attempts_fail(servers: Servers, tmp_path: Path) -> None:
    query = Query(tmp_path, servers.name_server, batches=3)

    code = query.run(("raise", "in write", 0), ("raise", "after write", 1), master="local[2,3]")

    assert code == 0
    query.check()


def test_drivers_that_are_killed_before_and_after_they_publish(servers: Servers, tmp_path: Path) -> None:
    query = Query(tmp_path, servers.name_server, batches=4)

    for fault in (("kill", "before commit", 1), ("kill", "after commit", 2)):
        assert query.run(fault, dies=True) == -signal.SIGKILL
    code = query.run()

    assert code == 0
    query.check()


def test_a_broker_that_is_killed_at_each_step(servers: Servers, tmp_path: Path) -> None:
    query = Query(tmp_path, servers.name_server, batches=len(STEPS) + 1)

    code = query.run(*(("kill", step, batch) for batch, step in enumerate(STEPS)))

    assert code == 0
    assert servers.deaths == len(STEPS)
    query.check()


def test_a_broker_that_is_killed_at_any_moment(servers: Servers, tmp_path: Path) -> None:
    query = Query(tmp_path, servers.name_server, batches=20)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    is_over, chance = threading.Event(), random.Random(seed)

    def kill_now_and_then() -> None:
        # Not while Spark starts.
        eventually(lambda: (tmp_path / "checkpoint" / "commits").exists(), PATIENCE_S)
        while not is_over.wait(chance.uniform(0.2, 3.0)):
            servers.kill_broker()

    killer = threading.Thread(target=kill_now_and_then, daemon=True)
    killer.start()
    code = query.run()
    is_over.set()
    killer.join(PATIENCE_S)

    assert code == 0
    assert servers.deaths > 0
    query.check()
