import pytest

from pyromq.bench.bench_run import BenchTarget, share_of
from pyromq.bench.frames import Queue
from pyromq.bench.histogram import LatencyHistogram
from pyromq.bench.workload import BenchReport, LoadKind, LoadTally, Usage, Workload
from pyromq.config.settings import ClientSettings
from pyromq.errors import ConfigError

QUEUES = [Queue("a:1", "broker-a", "topic", number) for number in range(8)]
SIGNED = ClientSettings(access_key="shop", secret_key="a secret of the shop")
TARGET = BenchTarget([QUEUES], dict.fromkeys(QUEUES, 0))


def workload(kind: LoadKind, **more: object) -> Workload:
    return Workload(kind=kind, topic="topic", **more)  # type: ignore[arg-type]


def test_connections_count_and_rate_are_shared_without_rest() -> None:
    work = workload(LoadKind.PRODUCE, connections=5, under_way=3, count=101, rate=100.0, processes=2)

    shares = [share_of(work, TARGET, number) for number in range(2)]

    assert [len(share.sending) for share in shares] == [3, 2]
    assert [share.requests_max for share in shares] == [51, 50]
    assert [share.rate for share in shares] == [50.0, 50.0]


def test_each_process_knows_all_queues_that_are_sent_to() -> None:
    work = workload(LoadKind.PRODUCE, connections=4, processes=2)

    shares = [share_of(work, TARGET, number) for number in range(2)]

    assert [share.queues for share in shares] == [{"a:1": QUEUES}] * 2


@pytest.mark.parametrize("connections", [1, 3, 8, 20])
def test_a_reading_that_does_not_repeat_has_each_queue_once(connections: int) -> None:
    work = workload(LoadKind.CONSUME, connections=connections, processes=1)

    share = share_of(work, TARGET, 0)

    assert sorted(queue for queues in share.reading for queue in queues) == QUEUES


def test_followers_of_all_processes_have_each_queue_once() -> None:
    work = workload(LoadKind.ROUNDTRIP, processes=3, rate=10.0)

    shares = [share_of(work, TARGET, number) for number in range(3)]

    assert sorted(queue for share in shares for queues in share.reading for queue in queues) == QUEUES


@pytest.mark.parametrize(("readers", "processes"), [(0, 1), (1, 3), (5, 2), (64, 1)])
def test_readers_share_the_queues_and_none_has_a_queue_of_another(readers: int, processes: int) -> None:
    work = workload(LoadKind.ROUNDTRIP, rate=10.0, readers=readers, processes=processes, connections=3)

    reading = [queues for number in range(processes) for queues in share_of(work, TARGET, number).reading]

    assert sorted(queue for queues in reading for queue in queues) == QUEUES
    assert len(reading) == min(max(readers, processes), len(QUEUES))


@pytest.mark.parametrize(
    "wrong",
    [
        workload(LoadKind.PRODUCE, processes=3, connections=2),
        workload(LoadKind.PRODUCE, count=100, batch=32),
        workload(LoadKind.ROUNDTRIP, rate=None),
        workload(LoadKind.ROUNDTRIP, rate=1.0, size=4),
        workload(LoadKind.DELAY, rate=None),
        workload(LoadKind.CONSUME, client=SIGNED),
        workload(LoadKind.PRODUCE, client=SIGNED, batch=8),
        workload(LoadKind.PRODUCE, client=SIGNED, is_binary=True),
        workload(LoadKind.PRODUCE, client=SIGNED, idle=3),
    ],
)
def test_a_workload_that_contradicts_itself_is_refused(wrong: Workload) -> None:
    with pytest.raises(ConfigError):
        wrong.check()


def test_a_report_says_when_the_generator_may_have_been_the_limit() -> None:
    tally = LoadTally(messages=1_000, wall_s=2.0, cpu_s=1.9, requests=LatencyHistogram())
    one = BenchReport(workload=workload(LoadKind.PRODUCE), tally=tally, server=Usage(cpu_s=0.5, rss_bytes=1))
    two = BenchReport(workload=workload(LoadKind.PRODUCE, processes=2), tally=tally)

    assert one.is_generator_busy
    assert not two.is_generator_busy
    assert one.per_cpu_second == 2_000
    assert one.rate == 500
