"""`kill -9` of real brokers, and of whoever writes, at every step of a staged batch: each message comes once.

Two brokers share the batches; broker-a is the home. Whoever loses a broker goes on when it is back; whoever
dies is followed by another, who knows nothing but the number of the batch.
"""

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from random import Random, SystemRandom
from typing import TypeVar

import pytest
from forked_command import start_pyromq
from harness.ports import free_broker_port
from staged_batches import ids_of, make_topic, readable, stage_part, units

from pyromq.client.plans import staged_plans
from pyromq.client.steps import Call, Plan
from pyromq.client.sync.staged import StagedPart, StagedSends
from pyromq.errors import PyroError
from pyromq.testing.waiting import eventually

pytestmark = pytest.mark.timeout(180)

T = TypeVar("T")
#: As long as the machine may be busy with other things.
PATIENCE_S = 60.0
BROKERS = ("broker-a", "broker-b")
#: How far the home is, prepare at the other, publish at both, complete.
PUBLISH_CALLS = 5


class Died(Exception):
    """What ends a writer."""


class Servers:
    """A name server and brokers, each on a port and data of its own, that can be killed and started again."""

    def __init__(self, folder: Path, brokers: Sequence[str]) -> None:
        self._folder = folder
        self._ports = {name: free_broker_port() for name in brokers}
        self._processes: dict[str, ForkServerProcess] = {}
        self.name_server = self._start("namesrv", ["namesrv", "--port", "0"])["namesrv"]
        self.start(*brokers)

    def start(self, *brokers: str) -> None:
        for name in brokers:
            port = ["--port", str(self._ports[name]), "--set", f"brokerName={name}"]
            self._start(name, ["broker", *port, "--namesrv", self.name_server])

    def kill(self, *brokers: str) -> None:
        for name in brokers:
            process = self._processes.pop(name)
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            process.join(PATIENCE_S)

    def kill_and_start(self, *brokers: str) -> None:
        self.kill(*brokers)
        self.start(*brokers)

    def close(self) -> None:
        self.kill(*self._processes)

    def _start(self, name: str, arguments: list[str]) -> dict[str, str]:
        ready, log = self._folder / f"{name}.ready", self._folder / f"{name}.log"
        ready.unlink(missing_ok=True)
        files = ["--data", str(self._folder / name), "--ready-file", str(ready)]
        self._processes[name] = process = start_pyromq([*arguments, *files], log)

        def hello() -> dict[str, str] | None:
            assert process.is_alive(), log.read_text()
            return json.loads(ready.read_text()) if ready.exists() and ready.stat().st_size else None

        return eventually(hello, PATIENCE_S, what=f"{name} is ready")


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    servers = Servers(tmp_path, BROKERS)
    try:
        make_topic(servers.name_server)
        yield servers
    finally:
        servers.close()


def once(ids: list[str]) -> "Counter[str]":
    return Counter(dict.fromkeys(ids, 1))


def interrupted(plan: Plan[T], calls: int, happens: Callable[[], None]) -> Plan[T]:
    """Carry out a plan in which something happens when so many calls are answered, before it goes on."""
    step = next(plan)
    while True:
        try:
            brought = yield step
        except PyroError as error:
            try:
                step = plan.throw(error)
            except StopIteration as end:
                return end.value
            continue
        if isinstance(step, Call):
            calls -= 1
            if calls == 0:
                happens()
        try:
            step = plan.send(brought)
        except StopIteration as end:
            return end.value


def publish(sends: StagedSends, parts: list[StagedPart], calls: int, happens: Callable[[], None]) -> None:
    plan = staged_plans.publish(sends.brokers, parts, round(PATIENCE_S * 1000))
    sends.runner.run(interrupted(plan, calls, happens))


def test_brokers_are_killed_behind_each_step_of_a_publish(servers: Servers) -> None:
    with StagedSends(servers.name_server) as sends:
        for batch in range(PUBLISH_CALLS):
            parts = [stage_part(sends, batch, part)[0] for part in range(2)]

            publish(sends, parts, batch + 1, lambda: servers.kill_and_start(*BROKERS))

    expected = [one for batch in range(PUBLISH_CALLS) for one in ids_of(batch)]
    assert readable(servers.name_server) == once(expected)


def test_the_writer_and_a_broker_die_behind_each_step_of_a_publish(servers: Servers) -> None:
    def die() -> None:
        servers.kill("broker-b")
        raise Died

    for batch in range(PUBLISH_CALLS):
        with StagedSends(servers.name_server) as sends:
            parts = [stage_part(sends, batch, part)[0] for part in range(2)]
            with pytest.raises(Died):
                publish(sends, parts, batch + 1, die)
        seen = readable(servers.name_server)
        assert all(times == 1 for times in seen.values())
        servers.start("broker-b")
        with StagedSends(servers.name_server) as sends:
            parts = [stage_part(sends, batch, part)[0] for part in range(2)]
            sends.publish(parts)
            # What Spark does when it does not know that the commit went well.
            sends.abort(parts)

    expected = [one for batch in range(PUBLISH_CALLS) for one in ids_of(batch)]
    assert readable(servers.name_server) == once(expected)


def test_a_broker_is_killed_between_the_chunks_of_a_part(servers: Servers) -> None:
    with StagedSends(servers.name_server) as sends:
        writer = sends.writer(query="q", batch=0, part=0, timeout_ms=round(PATIENCE_S * 1000))
        queues = writer.queues("orders")
        for number, victim in enumerate(("broker-a", "broker-b", "broker-b", "broker-a")):
            writer.stage(queues[number], units([f"{number}"]), 1)
            servers.kill_and_start(victim)

        sends.publish([writer.finish()], timeout_ms=round(PATIENCE_S * 1000))

    assert readable(servers.name_server) == once(["0", "1", "2", "3"])


def test_a_broker_is_killed_while_it_publishes(servers: Servers) -> None:
    seed = SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chance = Random(seed)
    with StagedSends(servers.name_server) as sends:
        for batch in range(2):
            part, _ = stage_part(sends, batch, 0, chunks=20, each=500)
            killer = threading.Timer(chance.random() * 0.05, servers.kill_and_start, BROKERS)
            killer.start()
            sends.publish([part], timeout_ms=round(PATIENCE_S * 1000))
            killer.join()

    expected = [one for batch in range(2) for one in ids_of(batch, 1, chunks=20, each=500)]
    assert readable(servers.name_server) == once(expected)
