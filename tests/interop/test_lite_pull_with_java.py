"""Our pull consumer and RocketMQ's own DefaultLitePullConsumer in one group."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness.clients import CLIENTS
from harness.missing import unavailable
from harness.program import Program
from harness.servers import Cluster
from harness.toolchains import Unavailable

from pyromq import Admin, ConsumeFrom, Message, NoRoute, Producer, PullConsumer
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

QUEUES = 4
MESSAGES = 40


@pytest.fixture(params=["up", "apache-4.9"])
def servers(request: pytest.FixtureRequest, running: Callable[[str], Cluster]) -> Cluster:
    """Our servers, and Apache's."""
    return running(request.param)


@pytest.fixture
def java(servers: Cluster, tmp_path: Path) -> Iterator[Program]:
    """The driver of the 4.9.8 client."""
    try:
        program = CLIENTS["java-4.9.8"].start(tmp_path, servers.name_server)
    except Unavailable as error:
        unavailable(error)
    yield program
    program.close()


@pytest.mark.row("RB-01", "RB-02", "RB-07", "CO-03")
def test_a_java_member_and_ours_share_a_topic_without_overlap_or_gap(servers: Cluster, java: Program) -> None:
    topic, group = "lite_mixed", "lite_mixed_group"
    with Admin(servers.name_server) as admin, Producer("lite_producer", servers.name_server) as producer:
        admin.create_topic(topic, QUEUES)
        with PullConsumer(group, servers.name_server, start_from=ConsumeFrom.FIRST_OFFSET) as ours:
            ours.subscribe(topic)
            eventually(lambda: len(ours.assignment()) == QUEUES, 30)
            joined = threading.Thread(target=java.do, args=("litepull", "java", group, topic, MESSAGES // 2))
            joined.start()
            eventually(lambda: len(ours.assignment()) == QUEUES // 2, 60)
            for number in range(MESSAGES):
                queue = producer.queues(topic)[number % QUEUES]
                producer.send(Message(topic, b"%d" % number, keys=[str(number)]), queue=queue)

            found: list[tuple[int, int]] = []

            def all_came() -> bool:
                found.extend((one.queue.queue_id, one.queue_offset) for one in ours.poll(100))
                return len(found) == MESSAGES // 2 and not joined.is_alive()

            eventually(all_came, 60)
            joined.join()
            eventually(lambda: len(ours.assignment()) == QUEUES, 60)
            ours.commit()
            # What Java committed, and what we did.
            assert [ours.committed(queue) for queue in ours.queues(topic)] == [MESSAGES // QUEUES] * QUEUES
    theirs = [(event["queue"], event["offset"]) for event in java.of("consumed")]
    everything = [(queue, offset) for queue in range(QUEUES) for offset in range(MESSAGES // QUEUES)]
    assert sorted(found + theirs) == everything


@pytest.mark.row("OF-01", "OF-07")
def test_each_goes_on_where_the_other_stopped(servers: Cluster, java: Program) -> None:
    topic, group = "lite_turns", "lite_turns_group"

    def known(consumer: PullConsumer) -> bool:
        try:
            return bool(consumer.queues(topic))
        except NoRoute:
            return False

    with Admin(servers.name_server) as admin, Producer("lite_producer", servers.name_server) as producer:
        admin.create_topic(topic, 1)
        with PullConsumer(group, servers.name_server, start_from=ConsumeFrom.FIRST_OFFSET) as ours:
            eventually(lambda: known(ours))
            for number in range(6):
                producer.send(Message(topic, b"%d" % number))
            ours.subscribe(topic)
            first = [message.queue_offset for _, message in zip(range(2), ours, strict=False)]
        java.do("litepull", "java", group, topic, 4)
        theirs = [event["offset"] for event in java.of("consumed")]
        producer.send(Message(topic, b"last"))
        with PullConsumer(group, servers.name_server) as ours:
            ours.subscribe(topic)
            last = next(iter(ours)).queue_offset
    assert (first, theirs, last) == ([0, 1], [2, 3, 4, 5], 6)
