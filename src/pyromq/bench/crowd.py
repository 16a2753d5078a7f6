"""Many clients and topics at once: what idle ones cost, and what sends to all of them cost.

First the broker as it is: sends to one topic. Then connections that belong to consumer groups and do nothing,
and topics whose queues hold one message each; what the server's process has grown by is theirs. Then sends to
all queues in turn and to those of one topic, taken by turns.
"""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from pyromq.bench.bench_run import BenchTarget, find_target, run_on, target_of
from pyromq.bench.exchanges import TIMEOUT_S, allow_files, creation, exchange, open_idle
from pyromq.bench.frames import Queue
from pyromq.bench.process import usage_of
from pyromq.bench.workload import BenchReport, LoadKind, Workload
from pyromq.codes import RequestCode
from pyromq.errors import ConfigError
from pyromq.net.address import split_address
from pyromq.wire.bodies.topic_bodies import decode_topic_table
from pyromq.wire.command import Command

_TOGETHER: Final = 32
#: Descriptors that a process needs besides its connections.
_SPARE_FILES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """The numbers of clients, topics and messages of a run."""

    topic: str = "many"
    connections: int = 1_000
    topics: int = 1_000
    queues: int = 8
    groups: int = 100
    rounds: int = 3

    def names(self) -> list[str]:
        """Return the topics' names."""
        return [f"{self.topic}-{number}" for number in range(self.topics)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdReport:
    """The result of a run."""

    crowd: Crowd
    alone: BenchReport
    """Sends to one topic before the others came."""
    to_one: list[BenchReport]
    to_all: list[BenchReport]
    connection_bytes: float | None
    queue_bytes: float | None
    server_bytes: int | None

    @property
    def ratio(self) -> float:
        """The rate of sends to all topics, of that to one topic."""
        return _rate(self.to_all) / (_rate(self.to_one) or 1.0)

    def as_record(self) -> dict[str, Any]:
        """Return it for programs."""
        crowd = self.crowd
        return {
            "kind": "many",
            "connections": crowd.connections,
            "topics": crowd.topics,
            "queues": crowd.queues,
            "groups": crowd.groups,
            "rate_alone": round(self.alone.rate, 1),
            "rate_to_one": round(_rate(self.to_one), 1),
            "rate_to_all": round(_rate(self.to_all), 1),
            "ratio": round(self.ratio, 3),
            "bytes_per_connection": self.connection_bytes and round(self.connection_bytes),
            "bytes_per_queue": self.queue_bytes and round(self.queue_bytes),
            "server_bytes": self.server_bytes,
            "runs": [report.as_record() for report in (self.alone, *self.to_one, *self.to_all)],
        }


def _rate(reports: Sequence[BenchReport]) -> float:
    return median(report.rate for report in reports)


def run_many(
    crowd: Crowd,
    workload: Workload,
    *,
    name_server: str | None,
    server_pid: int | None = None,
    say: Callable[[str], None],
) -> CrowdReport:
    """Bring the crowd in, measure, and tell each step to `say`."""
    allow_files(crowd.connections + workload.connections + _SPARE_FILES)
    target = find_target(workload, name_server)
    address = target.brokers[0][0].address
    if len(target.brokers) > 1:
        raise ConfigError(f"the topic {workload.topic} is on several brokers; many looks at one of them")
    say("sends to one topic")
    alone = run_on(target, workload, server_pid=server_pid)
    say(f"{crowd.connections:,} connections in {crowd.groups:,} groups")
    before = _private_bytes(server_pid)
    idle = open_idle(address, crowd.connections, topics=crowd.names(), groups=crowd.groups)
    try:
        connected = _private_bytes(server_pid)
        say(f"{crowd.topics:,} topics with {crowd.queues} queues each")
        create_topics(address, crowd)
        everywhere = all_queues(target, crowd)
        _fill_once(everywhere, workload)
        filled = _private_bytes(server_pid)
        to_one, to_all = [], []
        for number in range(crowd.rounds):
            say(f"sends to one and to all topics, round {number + 1} of {crowd.rounds}")
            to_one.append(run_on(target, workload, server_pid=server_pid))
            to_all.append(run_on(everywhere, workload, server_pid=server_pid))
    finally:
        for connection in idle:
            connection.close()
    return CrowdReport(
        crowd=crowd,
        alone=alone,
        to_one=to_one,
        to_all=to_all,
        connection_bytes=_each(before, connected, crowd.connections),
        queue_bytes=_each(connected, filled, crowd.topics * crowd.queues),
        server_bytes=filled,
    )


def all_queues(target: BenchTarget, crowd: Crowd) -> BenchTarget:
    """Return the queues of all topics, first those with number 0, then those with number 1 …"""
    first = target.brokers[0][0]
    return target_of(
        (
            Queue(first.address, first.broker_name, topic, number)
            for number in range(crowd.queues)
            for topic in crowd.names()
        ),
        {},
    )


def _fill_once(target: BenchTarget, workload: Workload) -> None:
    count = len(target.brokers[0])
    once = Workload(
        kind=LoadKind.PRODUCE,
        topic=workload.topic,
        connections=workload.connections,
        under_way=workload.under_way,
        size=workload.size,
        count=count,
    )
    run_on(target, once)


def _private_bytes(server_pid: int | None) -> int | None:
    return None if server_pid is None else usage_of(server_pid).private_bytes


def _each(before: int | None, after: int | None, count: int) -> float | None:
    return None if before is None or after is None or not count else (after - before) / count


def create_topics(address: str, crowd: Crowd) -> None:
    """Create the topics that the broker does not have yet."""
    with socket.create_connection(split_address(address), TIMEOUT_S) as connection:
        [known] = exchange(connection, [Command(RequestCode.GET_ALL_TOPIC_CONFIG)])
        table = decode_topic_table(known.body).topic_config_table
        missing = [
            name for name in crowd.names() if name not in table or table[name].write_queue_nums < crowd.queues
        ]
        for at in range(0, len(missing), _TOGETHER):
            exchange(connection, [creation(name, crowd.queues) for name in missing[at : at + _TOGETHER]])
