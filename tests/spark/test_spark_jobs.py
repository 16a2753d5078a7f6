"""Archive, verify, replay and mirror, by a real Spark in local mode."""

from pathlib import Path

import pytest
from dead_letter_stage import undertaker
from pyspark.sql import SparkSession
from sink_stage import messages_in
from spark_stage import make_topic

from pyromq import Message, Producer
from pyromq.model import ReceivedMessage
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyspark_rocketmq.cold.folder import ArchiveFolder
from pyspark_rocketmq.jobs.archive import ArchiveOrder, archive
from pyspark_rocketmq.jobs.job_runs import JobFailed, Watch
from pyspark_rocketmq.jobs.mirror import MIRRORED_FROM, MirrorOrder, mirror
from pyspark_rocketmq.jobs.replay import Replayed, ReplayOrder, count, replay
from pyspark_rocketmq.jobs.replay_plan import ReplayState
from pyspark_rocketmq.jobs.verify import RangeVerdict, VerifyOrder, verify
from pyspark_rocketmq.source.source_options import ClusterConnection, TopicChoice

COUNT = 60


@pytest.fixture
def orders(name_server: str, topic: str) -> str:
    """A topic with numbers in four queues."""
    send(name_server, topic)
    return topic


@pytest.fixture
def archived(spark: SparkSession, name_server: str, orders: str, tmp_path: Path) -> ArchiveFolder:
    """An archive of it."""
    folder = ArchiveFolder(str(tmp_path / "archive"))
    order = ArchiveOrder(
        ClusterConnection(name_server), TopicChoice("TOPIC", (orders,)), folder, round_messages=40
    )
    assert archive(spark, order, Watch()).row_count == COUNT
    return folder


def send(name_server: str, topic: str) -> None:
    make_topic(name_server, topic, 4)
    with Producer("spark-jobs", name_server) as producer:
        for number in range(COUNT):
            tags = "even" if number % 2 == 0 else "odd"
            producer.send(Message(topic, b"%d" % number, tags=tags, keys=[f"n{number}"]))


def by_queue(messages: list[ReceivedMessage]) -> dict[int, list[tuple[str, bytes]]]:
    """Return ids and bodies by the number of the queue, in order."""
    found: dict[int, list[tuple[str, bytes]]] = {}
    for one in sorted(messages, key=lambda one: (one.queue, one.queue_offset)):
        found.setdefault(one.queue.queue_id, []).append((one.message_id, one.body))
    return found


def test_what_is_archived_is_verified_and_read_as_one_table(
    spark: SparkSession, name_server: str, orders: str, archived: ArchiveFolder
) -> None:
    found = verify(spark, VerifyOrder(archived, ClusterConnection(name_server)), Watch())
    read = spark.read.format("rocketmq").option("subscribe", orders).option("archive", archived.uri)

    assert {one.verdict for one in found.findings} == {RangeVerdict.SAME}
    assert sorted(int(row.body) for row in read.load().collect()) == list(range(COUNT))
    assert read.option("nameServer", name_server).load().count() == COUNT


def test_a_replay_sends_what_the_condition_chooses_once_in_order_with_ids_and_properties(
    spark: SparkSession, name_server: str, topic: str, orders: str, archived: ArchiveFolder, tmp_path: Path
) -> None:
    target = f"{topic}-again"
    make_topic(name_server, target, 4)
    order = ReplayOrder(
        source={"archive": archived.uri, "subscribe": orders},
        target={"nameServer": name_server},
        where="tags = 'even' and cast(cast(body as string) as int) < 50",
        topic=target,
        queue_count=4,
        rate=10,
    )
    state = ReplayState(tmp_path / "state")

    assert count(spark, order) == Replayed(25, 0, 0, {target: 25})
    first = replay(spark, order, state, Watch())
    # As if it had been killed before the last round was noted: the brokers know that it is out.
    max((tmp_path / "state" / "done").iterdir()).unlink()
    again = replay(spark, order, state, Watch())

    assert (first.row_count, first.left) == (25, 0)
    assert again.before + again.row_count == 25
    sent = by_queue(messages_in(name_server, target))
    chosen = {
        queue: [(one, body) for one, body in messages if int(body) % 2 == 0 and int(body) < 50]
        for queue, messages in by_queue(messages_in(name_server, orders)).items()
    }
    assert sent == {queue: messages for queue, messages in chosen.items() if messages}
    one = next(one for one in messages_in(name_server, target) if one.body == b"8")
    assert (one.tags, one.keys) == ("even", ["n8"])
    assert one.properties["REPLAYED_FROM"].startswith(f"{orders}/broker-a/")


def test_dead_letters_are_replayed_to_the_topics_that_they_were_sent_to(
    spark: SparkSession, cluster: ThreadCluster, name_server: str, topic: str, tmp_path: Path
) -> None:
    make_topic(name_server, topic, 1)
    with undertaker(name_server, cluster.broker_addresses) as buries:
        for number in range(6):
            buries.bury(f"g-{topic}", topic, b"%d" % number, tags="paid", properties={"n": str(number)})
    order = ReplayOrder(
        source={"nameServer": name_server, "dlq": f"g-{topic}"},
        target={"nameServer": name_server},
        where="properties['n'] >= '4'",
    )

    assert count(spark, order).by_topic == {topic: 2}
    assert replay(spark, order, ReplayState(tmp_path), Watch()).row_count == 2

    first, again = messages_in(name_server, topic)[:6], messages_in(name_server, topic)[6:]
    assert [one.body for one in again] == [b"4", b"5"]
    assert [one.message_id for one in again] == [one.message_id for one in first[4:]]
    assert {one.tags for one in again} == {"paid"}
    assert all(one.properties["REPLAYED_FROM"].startswith(f"%DLQ%g-{topic}/broker-a/0/") for one in again)


def test_a_replay_of_something_wrong_says_so(
    spark: SparkSession, name_server: str, orders: str, archived: ArchiveFolder
) -> None:
    order = ReplayOrder(
        source={"archive": archived.uri, "subscribe": orders},
        target={"nameServer": name_server},
        where="no_such_column = 1",
    )

    with pytest.raises(JobFailed, match="no_such_column"):
        count(spark, order)
    with pytest.raises(JobFailed, match=r"subscribe: the archive .* has none of that"):
        count(spark, ReplayOrder(source={"archive": archived.uri, "subscribe": "x"}, target=order.target))


def test_clusters_that_mirror_each_other_have_each_message_once_in_its_queue(
    spark: SparkSession, name_server: str, orders: str, tmp_path: Path
) -> None:
    with running_cluster(data_dir=tmp_path / "data") as other:

        def run(source: str, target: str, checkpoint: str) -> int:
            order = MirrorOrder(
                source={"nameServer": source, "startingOffsets": "earliest"},
                target={"nameServer": target},
                topics=(orders,),
                checkpoint=str(tmp_path / checkpoint),
                is_once=True,
            )
            return mirror(spark, order, Watch()).row_count

        there = other.namesrv_address
        assert run(name_server, there, "out") == COUNT
        run(there, name_server, "back")
        run(name_server, there, "out")

        here, copies = messages_in(name_server, orders), messages_in(there, orders)
        assert by_queue(copies) == by_queue(here)
        assert len(here) == COUNT
        assert all(one.properties[MIRRORED_FROM].startswith("DefaultCluster@") for one in copies)
        assert {one.tags for one in copies} == {"even", "odd"}
