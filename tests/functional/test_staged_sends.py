"""Staged sends over sockets: nothing is seen before it is published, and then all of it, once."""

import pickle
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from staged_batches import TOPIC, ids_of, make_topic, readable, stage_part, units

from pyromq import Admin, PullConsumer, TopicNotFound
from pyromq.client.sync.staged import StagedSends
from pyromq.codes import ResponseCode
from pyromq.errors import (
    IllegalOperation,
    MessageIllegal,
    NetworkError,
    NoPermission,
    NoRoute,
    PyroError,
    Refused,
)
from pyromq.model import Message, MessageQueue
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import eventually

HOUR_MS = 3_600_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ThreadCluster]:
    with running_cluster(data_dir=tmp_path) as cluster:
        make_topic(cluster.namesrv_address)
        yield cluster


@pytest.fixture
def sends(cluster: ThreadCluster) -> Iterator[StagedSends]:
    with StagedSends(cluster.namesrv_address) as sends:
        yield sends


def once(ids: list[str]) -> "Counter[str]":
    return Counter(dict.fromkeys(ids, 1))


def test_nobody_sees_what_is_staged_and_everybody_what_is_published(
    cluster: ThreadCluster, sends: StagedSends
) -> None:
    parts = [stage_part(sends, batch=0, part=part)[0] for part in range(2)]

    assert readable(cluster.namesrv_address) == Counter()
    sends.publish(parts)

    assert readable(cluster.namesrv_address) == once(ids_of(0))


def test_a_batch_is_published_once_however_often_it_is_asked_for(
    cluster: ThreadCluster, sends: StagedSends
) -> None:
    parts = [stage_part(sends, batch=0, part=part)[0] for part in range(2)]

    for _ in range(3):
        sends.publish(parts)

    assert readable(cluster.namesrv_address) == once(ids_of(0))


def test_who_writes_a_published_batch_again_stages_nothing_and_publishes_nothing(
    cluster: ThreadCluster, sends: StagedSends
) -> None:
    sends.publish([stage_part(sends, batch=4, part=0)[0]])

    for batch in (4, 3):
        writer = sends.writer(query="q", batch=batch, part=0)
        assert writer.queues(TOPIC) == []
        assert not writer.is_needed
        writer.stage(MessageQueue(TOPIC, "broker-a", 0), units(["again"]), 1)
        sends.publish([writer.finish()])

    assert readable(cluster.namesrv_address) == once(ids_of(4, 1))


def test_only_the_attempt_that_is_named_counts(cluster: ThreadCluster, sends: StagedSends) -> None:
    stage_part(sends, batch=0, part=0, chunks=7)
    winner, ids = stage_part(sends, batch=0, part=0, chunks=2)

    sends.publish([winner])

    assert readable(cluster.namesrv_address) == once(ids)


def test_messages_of_a_queue_come_in_the_order_of_parts_and_chunks(
    cluster: ThreadCluster, sends: StagedSends
) -> None:
    parts = []
    for part in (2, 0, 1):
        writer = sends.writer(query="q", batch=0, part=part)
        for chunk in range(3):
            writer.stage(writer.queues(TOPIC)[0], units([f"{part}-{chunk}-a", f"{part}-{chunk}-b"]), 2)
        parts.append(writer.finish())

    sends.publish(parts)

    with PullConsumer("readers", cluster.namesrv_address) as consumer:
        pulled = consumer.pull(MessageQueue(TOPIC, "broker-a", 0), 0)
    expected = [f"{part}-{chunk}-{row}" for part in range(3) for chunk in range(3) for row in "ab"]
    assert [message.message_id for message in pulled.messages] == expected


def test_an_abort_lets_attempts_go_for_ever(cluster: ThreadCluster, sends: StagedSends) -> None:
    part, _ = stage_part(sends, batch=0, part=0)

    sends.abort([part])
    sends.abort([part])

    with pytest.raises(IllegalOperation, match="was aborted"):
        sends.publish([part])
    again, ids = stage_part(sends, batch=0, part=0)
    sends.publish([again])
    assert readable(cluster.namesrv_address) == once(ids)


def test_an_abort_does_not_undo_a_published_batch(cluster: ThreadCluster, sends: StagedSends) -> None:
    part, ids = stage_part(sends, batch=0, part=0)
    sends.publish([part])

    sends.abort([part])

    assert readable(cluster.namesrv_address) == once(ids)


def test_a_batch_without_messages_is_published_too(cluster: ThreadCluster, sends: StagedSends) -> None:
    part = sends.writer(query="q", batch=0, part=0).finish()

    sends.publish([part])

    assert not sends.writer(query="q", batch=0, part=0).queues(TOPIC)
    assert readable(cluster.namesrv_address) == Counter()


def test_a_topic_is_created_by_its_first_chunk_as_by_its_first_message(
    cluster: ThreadCluster, sends: StagedSends
) -> None:
    writer = sends.writer(query="q", batch=0, part=0)
    writer.stage(writer.queues("fresh")[0], units(["a"]), 1)
    sends.publish([writer.finish()])

    eventually(lambda: readable(cluster.namesrv_address, "fresh") == once(["a"]))


def test_queries_do_not_know_each_other(cluster: ThreadCluster, sends: StagedSends) -> None:
    one, one_ids = stage_part(sends, batch=0, part=0, query="one")
    other, other_ids = stage_part(sends, batch=0, part=0, query="other")

    sends.publish([one])
    sends.publish([other])

    assert readable(cluster.namesrv_address) == once(one_ids + other_ids)


def test_chunks_that_are_not_there_are_named_and_nothing_is_published(
    cluster: ThreadCluster, sends: StagedSends
) -> None:
    part, ids = stage_part(sends, batch=0, part=0)
    lied = pickle.loads(pickle.dumps(part))
    lied.chunks["broker-a"] += 1

    with pytest.raises(IllegalOperation, match=r"does not have 5 chunks of attempt .* at part 0 \(but 4\)"):
        sends.publish([lied])

    assert readable(cluster.namesrv_address) == Counter()
    sends.publish([part])
    assert readable(cluster.namesrv_address) == once(ids)


def test_a_message_that_waits_for_its_time_waits_after_it_was_published(tmp_path: Path) -> None:
    clock = ManualClock()
    with running_cluster(data_dir=tmp_path, clock=clock) as cluster:
        make_topic(cluster.namesrv_address)
        with StagedSends(cluster.namesrv_address) as sends:
            writer = sends.writer(query="q", batch=0, part=0)
            writer.stage(writer.queues(TOPIC)[0], units(["late"], more="\x02DELAY\x011"), 1)
            writer.stage(writer.queues(TOPIC)[0], units(["timed"], more="\x02TIMER_DELAY_MS\x01900"), 1)
            writer.stage(writer.queues(TOPIC)[0], units(["now"]), 1)

            sends.publish([writer.finish()])

        assert readable(cluster.namesrv_address) == once(["now"])
        clock.advance(1_000)
        eventually(lambda: readable(cluster.namesrv_address) == once(["now", "late", "timed"]))


def test_text_that_is_not_ascii_is_published_as_it_was_staged(
    cluster: ThreadCluster, sends: StagedSends
) -> None:
    writer = sends.writer(query="q", batch=0, part=0)
    writer.stage(writer.queues(TOPIC)[0], units(["größe"], more="\x02TAGS\x01süß"), 1)
    sends.publish([writer.finish()])

    with PullConsumer("readers", cluster.namesrv_address) as consumer:
        (message,) = consumer.pull(MessageQueue(TOPIC, "broker-a", 0), 0, tags="süß").messages
    assert (message.body.decode(), message.tags) == ("größe", "süß")


def test_a_published_message_is_found_by_its_id(cluster: ThreadCluster, sends: StagedSends) -> None:
    part, ids = stage_part(sends, batch=0, part=0)
    sends.publish([part])

    with Admin(cluster.namesrv_address) as admin:
        assert admin.find_message(TOPIC, ids[5]).body == ids[5].encode()


@pytest.mark.parametrize("topic", ["rmq_sys_staged", "rmq_sys_staged_op"])
def test_consumers_and_producers_cannot_use_the_topics_of_staged_sends(
    cluster: ThreadCluster, sends: StagedSends, topic: str
) -> None:
    from pyromq import Producer

    stage_part(sends, batch=0, part=0)

    with PullConsumer("readers", cluster.namesrv_address) as consumer:
        with pytest.raises((TopicNotFound, NoRoute)):
            consumer.queues(topic)
        with pytest.raises((TopicNotFound, NoRoute)):
            consumer.pull(MessageQueue(topic, "broker-a", 0), 0)
    with Producer("writers", cluster.namesrv_address) as producer, pytest.raises((NoPermission, Refused)):
        producer.send(Message(topic, b"x"), queue=MessageQueue(topic, "broker-a", 0))
    with Admin(cluster.namesrv_address) as admin, pytest.raises(Refused):
        admin.create_topic(topic)
    with pytest.raises(Refused):
        sends.writer(query="q", batch=1, part=0).stage(MessageQueue(topic, "broker-a", 0), units(["x"]), 1)


@pytest.mark.parametrize(
    "messages",
    [
        b"",
        b"nonsense",
        units(["a"])[:-1],
        units(["a"]) + b"\0",
        bytes(64),
        units(["x"], more="\x02TRAN_MSG\x01true"),
    ],
)
def test_a_chunk_of_nonsense_is_refused_when_it_comes(
    cluster: ThreadCluster, sends: StagedSends, messages: bytes
) -> None:
    writer = sends.writer(query="q", batch=0, part=0)
    queue = writer.queues(TOPIC)[0]

    with pytest.raises(MessageIllegal):
        writer.stage(queue, messages, 1)

    writer.stage(queue, units(["good"]), 1)
    sends.publish([writer.finish()])
    assert readable(cluster.namesrv_address) == once(["good"])


def test_a_chunk_with_more_messages_than_a_turn_may_take_is_refused(sends: StagedSends) -> None:
    writer = sends.writer(query="q", batch=0, part=0)

    with pytest.raises(MessageIllegal, match="1 to 65536 messages"):
        writer.stage(writer.queues(TOPIC)[0], units(["x"]) * 65_537, 65_537)


def test_staged_chunks_have_a_limit(tmp_path: Path) -> None:
    with running_cluster(data_dir=tmp_path, staged_chunks_max=2) as cluster:
        make_topic(cluster.namesrv_address)
        with StagedSends(cluster.namesrv_address) as sends:
            writer = sends.writer(query="q", batch=0, part=0)
            queue = writer.queues(TOPIC)[0]
            for number in range(2):
                writer.stage(queue, units([f"{number}"]), 1)
            impatient = sends.writer(query="q", batch=0, part=0, timeout_ms=300)

            def refusal() -> Refused | None:
                with pytest.raises(PyroError) as failed:
                    impatient.stage(queue, units(["more"]), 1)
                # A broker that is slow may not have answered in time.
                return failed.value if isinstance(failed.value, Refused) else None

            refused = eventually(refusal)
            assert refused is not None
            assert "stagedChunksMax" in str(refused)
            assert refused.code == ResponseCode.SYSTEM_BUSY
            sends.publish([writer.finish()])
            assert readable(cluster.namesrv_address) == once(["0", "1"])


def test_what_nobody_publishes_expires(tmp_path: Path) -> None:
    clock = ManualClock()
    with running_cluster(data_dir=tmp_path, clock=clock) as cluster:
        make_topic(cluster.namesrv_address)
        with StagedSends(cluster.namesrv_address) as sends:
            part, _ = stage_part(sends, batch=0, part=0)

            clock.advance(HOUR_MS + 1)

            with pytest.raises(IllegalOperation, match="is not open here"):
                sends.publish([part])
            assert readable(cluster.namesrv_address) == Counter()


def test_a_long_batch_does_not_expire_while_something_comes(tmp_path: Path) -> None:
    clock = ManualClock()
    with running_cluster(data_dir=tmp_path, clock=clock) as cluster:
        make_topic(cluster.namesrv_address)
        with StagedSends(cluster.namesrv_address) as sends:
            first, first_ids = stage_part(sends, batch=0, part=0)
            clock.advance(HOUR_MS - 60_000)
            second, second_ids = stage_part(sends, batch=0, part=1)
            clock.advance(HOUR_MS - 60_000)

            sends.publish([first, second])

            assert readable(cluster.namesrv_address) == once(first_ids + second_ids)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_stop_in_order_changes_nothing(tmp_path: Path, flush: str) -> None:
    with running_cluster(data_dir=tmp_path, flush_disk_type=flush) as cluster:
        make_topic(cluster.namesrv_address)
        with StagedSends(cluster.namesrv_address) as sends:
            sends.publish([stage_part(sends, batch=0, part=0)[0]])
            first, _ = stage_part(sends, batch=1, part=0)
            cluster.stop_broker("broker-a")
            cluster.start_broker("broker-a")
            second, _ = stage_part(sends, batch=1, part=1)
            sends.publish([stage_part(sends, batch=0, part=0)[0]])
            sends.publish([first, second])
            cluster.stop_broker("broker-a")
            cluster.start_broker("broker-a")
            sends.publish([first, second])

        assert readable(cluster.namesrv_address) == once(ids_of(0, 1) + ids_of(1))


def test_two_brokers_publish_their_shares(tmp_path: Path) -> None:
    with running_cluster(2, data_dir=tmp_path) as cluster:
        make_topic(cluster.namesrv_address)
        with StagedSends(cluster.namesrv_address) as sends:
            parts = [stage_part(sends, batch=0, part=part)[0] for part in range(2)]
            assert {broker for part in parts for broker in part.chunks} == {"broker-a", "broker-b"}

            sends.publish(parts)
            sends.publish(parts)

        assert readable(cluster.namesrv_address) == once(ids_of(0))


def test_a_broker_that_is_away_while_the_batch_is_published_comes_back_to_its_share(tmp_path: Path) -> None:
    with running_cluster(2, data_dir=tmp_path) as cluster:
        make_topic(cluster.namesrv_address)
        with StagedSends(cluster.namesrv_address) as sends:
            sends.publish([stage_part(sends, batch=0, part=0)[0]])
            parts = [stage_part(sends, batch=1, part=part)[0] for part in range(2)]
            cluster.stop_broker("broker-b")

            def lacks_the_other() -> bool:
                with pytest.raises((NoRoute, NetworkError)) as failed:
                    sends.publish(parts, timeout_ms=400)
                return "broker-b" in str(failed.value)

            eventually(lacks_the_other)
            cluster.start_broker("broker-b")

            sends.publish(parts)

        assert readable(cluster.namesrv_address) == once(ids_of(0, 1) + ids_of(1))


def test_a_query_whose_home_is_away_has_no_other(tmp_path: Path) -> None:
    with running_cluster(2, data_dir=tmp_path) as cluster:
        make_topic(cluster.namesrv_address)
        with StagedSends(cluster.namesrv_address) as sends:
            sends.publish([stage_part(sends, batch=0, part=0)[0]])
        cluster.stop_broker("broker-a")

        with StagedSends(cluster.namesrv_address) as sends:
            with pytest.raises(NoRoute, match="broker-a decides for query q"):
                sends.writer(query="q", batch=1, part=0, timeout_ms=3_000).open([TOPIC])
            # Nobody knows another query yet.
            assert sends.writer(query="other", batch=0, part=0).queues(TOPIC)
