"""Runs on one broker after the other, round after round, setup after setup."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from beside.cases import BACKLOG, BACKLOG_TOPIC, CLIENT_WORKS, Case, fill
from beside.client_runs import JAVA, OURS, OURS_ASYNC, ClientPace, measure_clients
from beside.figures import APACHE_4, ECHO, PYROMQ
from beside.methods import Beat, Run, one_run
from beside.quiet import QUIET_CORES, busy_s, own_s, say, spare_memory, wait_for_quiet
from beside.servers import Broker, Stage, awake, first_send, wait_until_whole
from beside.setups import PLAIN, SETUPS, Setup
from pyromq.bench.crowd import Crowd, run_many
from pyromq.bench.process import usage_of
from pyromq.bench.workload import LoadKind, Workload
from pyromq.errors import PyroError

Runs = dict[str, list[Run]]


@dataclass(frozen=True)
class Pace:
    """How long everything takes, and how much of it."""

    rounds: int
    beat: Beat
    echo_s: float
    """The echo server is the same in each run: it is measured once, and for so long."""
    jvm_warm_up_s: float
    starts: int
    budget_s: float
    """When this is over, no further round is begun."""
    touched_bytes: int
    memory_messages: int
    crowd: Crowd
    clients: ClientPace


FULL = Pace(
    rounds=3,
    beat=Beat(warm_up_s=0.5, measured_s=1.6, quiet_wait_s=1.0, delayed=40_000),
    echo_s=1.0,
    jvm_warm_up_s=15.0,
    starts=3,
    budget_s=800.0,
    touched_bytes=10 * 2**30,
    memory_messages=1_000_000,
    crowd=Crowd(connections=1_000, topics=10_000, queues=8, groups=100, rounds=3),
    clients=ClientPace(rounds=2, warm_s=2.0, run_s=4.0, backlog=200_000),
)
QUICK = Pace(
    rounds=1,
    beat=Beat(warm_up_s=0.2, measured_s=0.7, quiet_wait_s=0.4, delayed=5_000),
    echo_s=0.5,
    jvm_warm_up_s=2.0,
    starts=1,
    budget_s=150.0,
    touched_bytes=4 * 2**30,
    memory_messages=100_000,
    crowd=Crowd(connections=100, topics=10_000, queues=1, groups=10, rounds=1),
    clients=ClientPace(rounds=1, warm_s=0.5, run_s=1.0, backlog=50_000),
)
#: Seconds beside what a pace says, on a quiet machine of two cores: of a run (connections, topics, disk), of
#: a start of both brokers, of a client's start.
RUN_S, START_S, CLIENT_S = 0.6, 4.6, 1.5
#: Of a case besides: thousands of connections that come and go, and messages that are waited for.
LONGER_S = {"idle": 5.0, "delay": 11.0, "send-back": 3.0, "p99-70": 2.0}
#: Of the crowd of topics, and of messages that are sent to fill the memory or a backlog, on both brokers.
TOPICS_S, FILL_S = 5.0, 5.0


def reckoned_s(pace: Pace, cases: Sequence[Case], kinds: Sequence[str]) -> float:
    """Return about how many seconds a run of everything takes on a quiet machine."""
    beat, setups = pace.beat, {case.setup for case in cases}
    each_s = beat.warm_up_s + beat.measured_s + 0.3 * beat.quiet_wait_s + RUN_S
    runs_s = sum(
        len([kind for kind in case.kinds if kind in kinds]) * (each_s + LONGER_S.get(case.key, 0.0))
        for case in cases
    )
    echo_s = sum(beat.warm_up_s + pace.echo_s + RUN_S for case in cases if case.has_echo)
    brokers_s = len(setups) * (START_S + pace.jvm_warm_up_s + 1.0)
    starts_s = (pace.starts + 1) * START_S
    clients = pace.clients
    clients_s = 3 * len(CLIENT_WORKS) * clients.rounds * (clients.warm_s + clients.run_s + CLIENT_S)
    topics_s = (
        TOPICS_S + (2 * pace.crowd.rounds + 1) * each_s + pace.crowd.topics * pace.crowd.queues / 20_000
    )
    return pace.rounds * runs_s + echo_s + brokers_s + starts_s + clients_s + topics_s + 2 * FILL_S


@dataclass
class Found:
    """All that was measured: runs by case and kind."""

    runs: dict[str, Runs] = field(default_factory=dict)
    starts_s: Runs = field(default_factory=dict)
    memory: dict[str, dict[str, float]] = field(default_factory=dict)
    crowd: Run | None = None
    clients: dict[str, dict[str, float]] = field(default_factory=dict)
    """For each kind of work, messages for a CPU-second of the Java client and of ours."""
    failures: list[str] = field(default_factory=list)


def measure_starts(stage: Stage, pace: Pace, kinds: Sequence[str]) -> Runs:
    """Return how many seconds from the start of a broker to its first acknowledged send."""
    took: Runs = {kind: [] for kind in kinds}
    for _ in range(pace.starts):
        for kind in kinds:
            stage.name_server(kind)
            wait_for_quiet(pace.beat.quiet_wait_s)
            began_at, busy, ours = time.monotonic(), busy_s(), own_s()
            broker = stage.broker(kind)
            try:
                first_send(broker)
                seconds = time.monotonic() - began_at
                others = (busy_s() - busy) - usage_of(broker.pid).cpu_s - (own_s() - ours)
                cores = round(max(others, 0.0) / seconds, 2)
                took[kind].append({"seconds": round(seconds, 3), "others_cores": cores})
            finally:
                broker.stop()
            say(f"start to first acknowledged send: {kind} {seconds:.2f} s")
    return took


def _with_backlog(broker: Broker, workload: Workload) -> Workload:
    """Return a workload that reads what is stored with a topic of its own, which has just been filled.

    A log goes on for gigabytes between two rounds, further with the faster broker. What is read must be in
    memory for both, as RocketMQ reckons it too.
    """
    if workload.topic != BACKLOG_TOPIC:
        return workload
    topic = f"{BACKLOG_TOPIC}-{len(broker.topics)}"
    one_run(broker, fill(BACKLOG, 1024, topic, batch=8))
    return replace(workload, topic=topic)


class Bench:
    """The brokers of one setup, and the runs on them."""

    def __init__(
        self, stage: Stage, closing: ExitStack, setup: Setup, cases: list[Case], kinds: Sequence[str]
    ) -> None:
        """Start a broker of each kind that a case wants; `kinds` are those that the whole run has."""
        self._cases = cases
        wanted = [kind for case in cases for kind in case.all_kinds]
        self._kinds = [kind for kind in (*kinds, ECHO) if kind in wanted or (kind != ECHO and not cases)]
        self._brokers: dict[str, Broker] = {}
        for kind in self._kinds:
            broker = stage.broker(kind, setup)
            closing.callback(broker.stop)
            first_send(broker)
            wait_until_whole(broker)
            self._brokers[kind] = broker
        self.failures: list[str] = []

    def measure_memory(self, pace: Pace) -> dict[str, dict[str, float]]:
        """Return what each kind's broker needs, idle and after many messages."""
        wait_for_quiet(pace.beat.quiet_wait_s)
        found = {}
        for kind, broker in self._brokers.items():
            if kind == ECHO:
                continue
            idle = broker.private_mib
            with awake(broker, self._brokers.values()):
                record = one_run(broker, fill(pace.memory_messages, 128, "memory"))
            found[kind] = {"idle": idle, f"after {pace.memory_messages:,} messages": broker.private_mib}
            say(f"memory: {kind} {found[kind]} MiB (sent at {record['rate']:,.0f}/s)")
        return found

    def warm(self, pace: Pace) -> None:
        """Run everything so often that it is warm."""
        for kind, broker in self._brokers.items():
            mine = [case for case in self._cases if kind in case.all_kinds]
            with awake(broker, self._brokers.values()):
                self._warm(broker, mine, pace)
            say(f"warm: {kind} {broker.setup.key}")

    def _warm(self, broker: Broker, cases: list[Case], pace: Pace) -> None:
        # The JVM compiles what it has seen for a while; ours needs only its files.
        seconds = pace.jvm_warm_up_s if broker.kind not in (PYROMQ, ECHO) else 1.0
        cases = [case for case in cases if case.workload.rate is None and not case.workload.idle]
        for case in cases:
            part_s = max(seconds / len(cases), 0.3)
            try:
                workload = _with_backlog(broker, case.workload)
                one_run(broker, replace(workload, warm_up_s=0.0, duration_s=part_s, batch=1))
            except PyroError as error:
                say(f"warm: {case.key} {broker.kind}: {error}")

    def measure_cases(self, pace: Pace, ends_at: float) -> dict[str, Runs]:
        """Return the runs of each case and kind, taken in turn."""
        runs: dict[str, Runs] = {
            case.key: {kind: [] for kind in self._kinds if kind in case.all_kinds} for case in self._cases
        }
        for number in range(pace.rounds):
            if number and time.monotonic() > ends_at:
                say("the time is over: fewer rounds than planned")
                break
            for case in self._cases:
                # Whoever comes second finds the machine as the first left it: take turns in that too.
                kinds = [*runs[case.key]]
                turn = number % len(kinds)
                for kind in (*kinds[turn:], *kinds[:turn]):
                    if kind != ECHO or number == 0:
                        self._measure(case, kind, number, pace, runs[case.key][kind])
        return runs

    def _measure(self, case: Case, kind: str, number: int, pace: Pace, into: list[Run]) -> None:
        beat = replace(pace.beat, measured_s=pace.echo_s) if kind == ECHO else pace.beat
        broker = self._brokers[kind]
        try:
            with awake(broker, self._brokers.values()):
                record = case.measure(broker, _with_backlog(broker, case.workload), beat)
        except (PyroError, TimeoutError) as error:
            # The other cases are measured, and at the end it is said that this one was not.
            self.failures.append(f"{case.key} on {kind}: {error}")
            say(f"{number + 1}/{pace.rounds} {case.key:12} {kind:10} FAILED: {error}")
            return
        into.append(record)
        figures = ", ".join(
            f"{figure.write(record[figure.name])} {figure.label}"
            for figure in case.figures[:2]
            if record.get(figure.name) is not None
        )
        refused = f", refused {record['refused']}" if record["refused"] else ""
        say(
            f"{number + 1}/{pace.rounds} {case.key:12} {kind:10} {figures}{refused}"
            f" (others {record['others_cores']:.2f} cores, generator {record['generator_share']:.0%})"
        )


def measure_setups(
    stage: Stage, found: Found, cases: list[Case], kinds: Sequence[str], pace: Pace, *, has_memory: bool
) -> None:
    """Measure the cases of one setup after the other; at any time only the brokers of one are there."""
    ends_at = time.monotonic() + pace.budget_s
    for setup in SETUPS:
        mine = [case for case in cases if case.setup == setup]
        is_for_memory = has_memory and setup is PLAIN
        if not mine and not is_for_memory:
            continue
        with ExitStack() as closing:
            bench = Bench(stage, closing, setup, mine, kinds)
            if is_for_memory:
                found.memory = bench.measure_memory(pace)
            bench.warm(pace)
            found.runs |= bench.measure_cases(pace, ends_at)
            found.failures += bench.failures


def measure_topics(stage: Stage, pace: Pace) -> Run:
    """Return what sends to many topics come to, on a broker of ours that has nothing else to do."""
    broker = stage.broker(PYROMQ)
    try:
        first_send(broker)
        workload = Workload(
            kind=LoadKind.PRODUCE,
            topic="alone",
            connections=16,
            under_way=64,
            size=128,
            warm_up_s=pace.beat.warm_up_s,
            duration_s=pace.beat.measured_s,
        )
        spare_memory.let_go()
        report = run_many(
            pace.crowd, workload, name_server=broker.name_server, server_pid=broker.pid, say=say
        )
        record = report.as_record()
        say(
            f"{record['rate_alone']:,.0f}/s before, {record['rate_to_one']:,.0f}/s to one topic,"
            f" {record['rate_to_all']:,.0f}/s to all; {record['bytes_per_connection']:,} bytes a connection,"
            f" {record['bytes_per_queue']:,} a queue"
        )
        return record
    finally:
        broker.stop()


def measure_python_client(folder: Path, stage: Stage, pace: Pace) -> dict[str, dict[str, float]]:
    """Return messages for a CPU-second of the Java client and of ours, by kind of work."""
    figures = measure_clients(
        folder, stage, pace.clients, works=[*CLIENT_WORKS], clients=(OURS, OURS_ASYNC, JAVA)
    )
    found: dict[str, dict[str, float]] = {}
    for figure in figures:
        kind = APACHE_4 if figure.client == JAVA else PYROMQ
        of = found.setdefault(figure.work, {})
        # A push consumer has a listener on threads and one of coroutines: a user takes the faster one.
        of[kind] = max(of.get(kind, 0.0), figure.per_cpu_second)
    return found


def quiet_runs(records: list[Run]) -> list[Run]:
    """Return the runs during which others left the machine alone."""
    return [record for record in records if record["others_cores"] <= QUIET_CORES]


def chosen_runs(records: list[Run]) -> list[Run]:
    """Return the quiet runs, or all when fewer than two were quiet."""
    quiet = quiet_runs(records)
    return quiet if len(quiet) >= min(2, len(records)) else records
