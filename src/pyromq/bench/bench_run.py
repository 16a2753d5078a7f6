"""A whole run: find the topic's queues, share the work out among processes, start them together, add up."""

import gc
import multiprocessing
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any, Final

from pyromq.bench.exchanges import allow_files, open_idle, positions_of
from pyromq.bench.frames import Queue
from pyromq.bench.process import usage_of
from pyromq.bench.worker import Worker
from pyromq.bench.workload import BenchReport, LoadKind, Share, Usage, Workload
from pyromq.client.sync.admin import Admin
from pyromq.codes import Perm
from pyromq.errors import NetworkError, NoRoute, PyroError, TopicNotFound
from pyromq.model import MessageQueue
from pyromq.wire.bodies.route_bodies import TopicRoute

#: Groups that idle connections are in, and descriptors that a process needs besides its connections.
_IDLE_GROUPS: Final = 100
_SPARE_FILES: Final = 100
ROUTE_TIMEOUT_S: Final = 45.0
#: Nanoseconds from the last process's "ready" to the first request.
_LEAD_NS: Final = 50_000_000
_NS: Final = 1_000_000_000
_MASTER: Final = 0


@dataclass(frozen=True, slots=True)
class BenchTarget:
    """The topic's queues, those of one broker together, and where reading begins."""

    brokers: list[list[Queue]]
    starts: dict[Queue, int]
    positions: dict[str, list[int]] = field(default_factory=dict)
    """For each broker's address, of messages that are sent back."""


def run(workload: Workload, *, name_server: str | None, server_pid: int | None = None) -> BenchReport:
    """Carry a workload out and return what it shows; the topic is created if it is not there."""
    workload.check()
    if server_pid is not None:
        usage_of(server_pid)
    return run_on(find_target(workload, name_server), workload, server_pid=server_pid)


def run_on(target: BenchTarget, workload: Workload, *, server_pid: int | None = None) -> BenchReport:
    """Carry a workload out on queues that are known."""
    allow_files(workload.connections + workload.readers + workload.idle + _SPARE_FILES)
    if workload.kind is LoadKind.SEND_BACK and not target.positions:
        target = replace(
            target, positions={queues[0].address: positions_of(queues) for queues in target.brokers}
        )
    shares = [share_of(workload, target, number) for number in range(workload.processes)]
    return _run_together(workload, shares, partial(_idle, workload, target, server_pid), server_pid)


@contextmanager
def _idle(workload: Workload, target: BenchTarget, server_pid: int | None) -> Iterator[float | None]:
    """Have idle connections to the first broker for a while; yield what the server needs for each."""
    if not workload.idle:
        yield None
        return
    before = None if server_pid is None else usage_of(server_pid).private_bytes
    connections = open_idle(
        target.brokers[0][0].address, workload.idle, topics=[workload.topic], groups=_IDLE_GROUPS
    )
    try:
        after = None if server_pid is None else usage_of(server_pid).private_bytes
        yield None if before is None or after is None else (after - before) / workload.idle
    finally:
        for connection in connections:
            connection.close()


def find_target(workload: Workload, name_server: str | None) -> BenchTarget:
    """Return the topic's queues and the offsets at which they are read from."""
    with Admin(name_server, workload.client) as admin:
        queues = queues_of(workload.topic, _route(admin, workload), workload.kind)
        starts: dict[Queue, int] = {}
        if workload.kind is LoadKind.CONSUME or workload.kind.is_followed:
            offset_of = admin.min_offset if workload.kind is LoadKind.CONSUME else admin.max_offset
            for queue in queues:
                starts[queue] = offset_of(MessageQueue(queue.topic, queue.broker_name, queue.queue_id))
    return target_of(queues, starts)


def target_of(queues: Iterable[Queue], starts: dict[Queue, int]) -> BenchTarget:
    """Put the queues of one broker together."""
    brokers: dict[str, list[Queue]] = defaultdict(list)
    for queue in queues:
        brokers[queue.address].append(queue)
    return BenchTarget(list(brokers.values()), starts)


def _route(admin: Admin, workload: Workload) -> TopicRoute:
    try:
        return admin.route(workload.topic)
    except TopicNotFound:
        if workload.kind in (LoadKind.CONSUME, LoadKind.SEND_BACK):
            raise
    admin.create_topic(workload.topic, workload.queues)
    deadline = time.monotonic() + ROUTE_TIMEOUT_S
    while True:
        # The broker tells the name server in its own time.
        try:
            return admin.route(workload.topic)
        except TopicNotFound:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def queues_of(topic: str, route: TopicRoute, kind: LoadKind) -> list[Queue]:
    """Return the queues of a topic that one may do this on."""
    addresses = {broker.broker_name: broker.broker_addrs.get(_MASTER) for broker in route.broker_datas}
    wanted = Perm.READ if kind is LoadKind.CONSUME else Perm.WRITE
    queues = [
        Queue(address, part.broker_name, topic, queue_id)
        for part in route.queue_datas
        if part.perm & wanted and (address := addresses.get(part.broker_name))
        for queue_id in range(part.read_queue_nums if kind is LoadKind.CONSUME else part.write_queue_nums)
    ]
    if not queues:
        raise NoRoute(f"no master has a queue of the topic that one may {kind} on")
    return queues


def share_of(workload: Workload, target: BenchTarget, process: int) -> Share:
    """Return what one process does: its connections are those whose number it has, counted in turn."""
    count = workload.count
    requests = None if count is None else count // workload.batch
    sending: list[str] = []
    reading: list[list[Queue]] = []
    for connection in range(process, workload.connections, workload.processes):
        queues = target.brokers[connection % len(target.brokers)]
        if workload.kind is LoadKind.CONSUME:
            reading.append(_part(queues, connection // len(target.brokers), workload, len(target.brokers)))
        else:
            sending.append(queues[0].address)
    if workload.kind.is_followed:
        readers = max(workload.readers, workload.processes)
        reading = [
            queues[number::readers]
            for queues in target.brokers
            for number in range(process, readers, workload.processes)
        ]
    return Share(
        workload=workload,
        process=process,
        queues={queues[0].address: queues for queues in target.brokers},
        sending=sending,
        reading=[queues for queues in reading if queues],
        starts=target.starts,
        positions=target.positions,
        rate=None if workload.rate is None else workload.rate / workload.processes / workload.batch,
        requests_max=None if requests is None else _split(requests, workload.processes, process),
    )


def _part(queues: list[Queue], number: int, workload: Workload, brokers: int) -> list[Queue]:
    """Return the queues of one of the connections to a broker; they repeat only if the run does."""
    connections = max(1, -(-workload.connections // brokers))
    mine = queues[number::connections]
    return mine or (queues[number % len(queues) :][:1] if workload.is_repeated else [])


def _split(total: int, parts: int, number: int) -> int:
    return total // parts + (number < total % parts)


# Processes -------------------------------------------------------------------------------------------------


def _run_together(
    workload: Workload,
    shares: Sequence[Share],
    idle: Callable[[], AbstractContextManager[float | None]],
    server_pid: int | None,
) -> BenchReport:
    # A fork costs no second start of the interpreter, and there is no thread here yet.
    forking = multiprocessing.get_context("fork")
    pipes: list[Connection] = []
    processes = []
    try:
        for share in shares:
            ours, theirs = forking.Pipe()
            process = forking.Process(target=_work, args=(share, theirs), daemon=True)
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        for pipe in pipes:
            _receive(pipe)
        # Only now: a process would have them too, and wait with a `select` that knows 1,024 descriptors.
        with idle() as idle_bytes:
            start_ns = time.monotonic_ns() + _LEAD_NS
            for pipe in pipes:
                pipe.send(start_ns)
            server = _watch(workload, pipes, start_ns, server_pid)
            tally = _receive(pipes[0])
            for pipe in pipes[1:]:
                tally.add(_receive(pipe))
        return BenchReport(workload=workload, tally=tally, server=server, idle_bytes=idle_bytes)
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _watch(
    workload: Workload, pipes: list[Connection], start_ns: int, server_pid: int | None
) -> Usage | None:
    """Return what the server used in the measured time; without an id to look at, None at once."""
    if server_pid is None:
        return None
    warm_up_s = 0.0 if workload.count is not None else workload.warm_up_s
    time.sleep(max(0.0, (start_ns - time.monotonic_ns()) / _NS + warm_up_s))
    before = usage_of(server_pid)
    # A process that has nothing left to do says so sooner.
    wait(pipes, timeout=None if workload.count is not None else workload.duration_s)
    after = usage_of(server_pid)
    return replace(after, cpu_s=after.cpu_s - before.cpu_s)


def _receive(pipe: Connection) -> Any:
    try:
        word = pipe.recv()
    except EOFError as error:
        raise NetworkError("a process of the generator ended without a word") from error
    if isinstance(word, str) and word:
        raise NetworkError(word)
    return word


def _work(share: Share, pipe: Connection) -> None:
    try:
        worker = Worker(share)
        worker.connect()
        # Nothing that a run makes refers to itself; a collection in the middle would be measured as latency.
        gc.freeze()
        gc.disable()
        pipe.send(None)
        pipe.send(worker.run(pipe.recv()))
        worker.close()
    except KeyboardInterrupt:
        pipe.send("interrupted")
    except (PyroError, OSError) as error:
        pipe.send(str(error) or type(error).__name__)
