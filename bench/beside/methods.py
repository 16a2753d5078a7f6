"""The ways in which a case is measured on one broker: what is run, and what its figures are made of."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from beside.figures import ECHO
from beside.quiet import busy_s, given_back_mib, own_s, spare_memory, wait_for_quiet
from beside.servers import Broker, end_of, forget_old_files, target_on, wait_until_copied, wait_until_whole
from pyromq.bench.bench_run import BenchTarget, run_on
from pyromq.bench.frames import GROUP
from pyromq.bench.process import usage_of
from pyromq.bench.workload import LoadKind, Workload
from pyromq.errors import ProtocolError

Run = dict[str, Any]
SHARE_OF_MAXIMUM = 0.7
DELIVERED_TIMEOUT_S = 90.0
#: Seldom, because it is the broker that is asked.
LOOK_S = 0.5
CALM_TIMEOUT_S = 20.0
CALM_SHARE = 0.1


@dataclass(frozen=True)
class Beat:
    """How long one run takes, and how much of it."""

    warm_up_s: float
    measured_s: float
    quiet_wait_s: float
    delayed: int
    """Messages of a case that waits until all are delivered."""


Method = Callable[[Broker, Workload, Beat], Run]


def timed(broker: Broker, workload: Workload, beat: Beat) -> Run:
    """Run a workload for a while."""
    return one_run(broker, _during(workload, beat), quiet_wait_s=beat.quiet_wait_s)


def until_copied(broker: Broker, workload: Workload, beat: Beat) -> Run:
    """Send for a while, and wait until the slave has everything: time and processors count until then.

    An asynchronous master answers before its slave has the messages. What the slave still lacks when the
    sending ends is work that was only put off, and a synchronous master has it done by then. So both are
    given the time until all is copied, and the processor time of master and slave counts.
    """
    target = target_on(broker, workload)
    lasting = replace(workload, warm_up_s=0.0, duration_s=beat.warm_up_s + beat.measured_s)
    record = one_run(broker, lasting, quiet_wait_s=beat.quiet_wait_s, target=target)
    count, cpu_s = record["messages_in_all"], record["pair_cpu_s"]
    record["acknowledged_rate"] = record["rate"]
    record["rate"] = round(count / (record["seconds"] + record["late_s"]), 1)
    record["messages_per_server_cpu_s"] = round(count / cpu_s, 1)
    return record


def each_makes_one(broker: Broker, workload: Workload, beat: Beat) -> Run:
    """Run a workload for a while, and see that each of its messages is in its topic."""
    before = end_of(broker, workload.topic)
    record = timed(broker, workload, beat)
    seen = end_of(broker, workload.topic) - before
    if broker.kind != ECHO and seen != record["messages_in_all"]:
        raise ProtocolError(f"{record['messages_in_all']} acknowledged messages made {seen} in the topic")
    return record


def until_delivered(broker: Broker, workload: Workload, beat: Beat) -> Run:
    """Send so many messages, and wait until all are delivered: processor time is counted until then."""
    topic, queues = workload.topic, workload.queues
    if workload.kind is LoadKind.SEND_BACK:
        topic, queues = f"%RETRY%{GROUP}", 1
    wait_for_quiet(beat.quiet_wait_s)
    before = end_of(broker, topic, queues)
    cpu_s, began_at = usage_of(broker.pid).cpu_s, time.monotonic()
    record = one_run(broker, replace(workload, count=beat.delayed))
    wanted = before + record["messages_in_all"]
    deadline = time.monotonic() + DELIVERED_TIMEOUT_S
    while end_of(broker, topic, queues) < wanted:
        if time.monotonic() > deadline:
            raise ProtocolError(f"{topic}: {end_of(broker, topic, queues)} of {wanted} were delivered")
        time.sleep(LOOK_S)
    cpu_s = usage_of(broker.pid).cpu_s - cpu_s
    record["delivered_s"] = round(time.monotonic() - began_at, 2)
    record["messages_per_server_cpu_s"] = round(record["messages_in_all"] / cpu_s, 1)
    return record


def below_maximum(broker: Broker, workload: Workload, beat: Beat) -> Run:
    """Find out how much a broker takes, and run 70 % of that."""
    maximum = one_run(broker, _during(replace(workload, under_way=16), beat), quiet_wait_s=beat.quiet_wait_s)
    record = one_run(broker, _during(replace(workload, rate=SHARE_OF_MAXIMUM * maximum["rate"]), beat))
    record["maximum"] = maximum["rate"]
    return record


def _during(workload: Workload, beat: Beat) -> Workload:
    return replace(workload, warm_up_s=beat.warm_up_s, duration_s=beat.measured_s)


def one_run(
    broker: Broker, workload: Workload, *, quiet_wait_s: float = 0.0, target: BenchTarget | None = None
) -> Run:
    """Run a workload on a broker; tell what the rest of the machine did meanwhile."""
    target = target or target_on(broker, workload)
    wait_until_whole(broker)
    if quiet_wait_s:
        wait_for_quiet(quiet_wait_s)
    pids = [broker.pid] if broker.slave is None else [broker.pid, broker.slave.pid]
    spare_memory.let_go()
    given_back = given_back_mib()
    busy, ours, theirs = busy_s(), own_s(), [usage_of(pid).cpu_s for pid in pids]
    began_at = time.monotonic()
    report = run_on(target, workload, server_pid=broker.pid)
    record = report.as_record()
    if broker.slave is not None:
        record["late_s"] = wait_until_copied(broker, workload.topic)
    wall_s = time.monotonic() - began_at
    used = [usage_of(pid).cpu_s - before for pid, before in zip(pids, theirs, strict=True)]
    others = (busy_s() - busy) - sum(used) - (own_s() - ours)
    record["others_cores"] = round(max(others, 0.0) / wall_s, 2)
    record["given_back_mib"] = given_back_mib() - given_back
    if broker.slave is not None:
        record["slave_us"] = round(1e6 * used[1] / max(record["messages_in_all"], 1), 2)
        record["pair_cpu_s"] = round(sum(used), 4)
    if report.idle_bytes is not None:
        record["idle_kib"] = round(report.idle_bytes / 1024, 2)
    for name, table in (("", record["latency_us"]), ("delivery_", record["delivery_us"])):
        record.update({f"{name}{key}": value for key, value in (table or {}).items()})
    if workload.idle:
        _wait_until_calm(broker)
    forget_old_files(broker)
    spare_memory.keep()
    return record


def _wait_until_calm(broker: Broker) -> None:
    """Wait until a broker has nothing left to do: thousands of clients that leave are work for a while."""
    deadline = time.monotonic() + CALM_TIMEOUT_S
    while time.monotonic() < deadline:
        before = usage_of(broker.pid).cpu_s
        time.sleep(LOOK_S)
        if usage_of(broker.pid).cpu_s - before < CALM_SHARE * LOOK_S:
            return
