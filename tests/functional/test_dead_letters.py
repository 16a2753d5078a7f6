"""Dead letters are counted, read and replayed: both faces of the client against clusters in this process."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client_faces import Face
from dead_letter_stage import Undertaker, undertaker

from pyromq import (
    ClientSettings,
    ConfigError,
    ConsumeFrom,
    DeadLetterFilter,
    DeadLetters,
    Message,
    NetworkError,
    NoPermission,
    PushConsumer,
    ReceivedMessage,
    ReplayOutcome,
    ReplayResult,
    ReplayTo,
)
from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster(2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def grave(cluster: ThreadCluster) -> Iterator[Undertaker]:
    with undertaker(cluster.namesrv_address, cluster.broker_addresses) as one:
        yield one


@pytest.fixture
def letters(face: Face, cluster: ThreadCluster) -> Iterator[Any]:
    with face.DeadLetters(cluster.namesrv_address) as letters:
        yield letters


@pytest.fixture
def group() -> str:
    """A group that no other test uses."""
    return f"group-{next(_numbers)}"


@pytest.fixture
def topic(group: str) -> str:
    return f"orders-of-{group}"


def listener(group: str, topic: str, address: str, got: list[ReceivedMessage]) -> PushConsumer:
    consumer = PushConsumer(group, address, listener=got.append, consume_from=ConsumeFrom.FIRST_OFFSET)
    consumer.subscribe(topic)
    return consumer


def outcomes(results: Iterator[ReplayResult]) -> list[ReplayOutcome]:
    return [result.outcome for result in results]


@pytest.mark.row("RT-11")
def test_the_dead_letters_of_every_group_are_counted(
    letters: Any, grave: Undertaker, group: str, topic: str
) -> None:
    grave.bury(group, topic, b"one", broker="broker-a")
    grave.bury(group, topic, b"two", broker="broker-b")

    counts = {one.group: one for one in letters.counts()}

    assert counts[group].count == 2
    assert counts[group].oldest_at_ms == min(one.died_at_ms for one in letters.read(group))


@pytest.mark.row("RT-11", "RT-12")
def test_dead_letters_of_all_brokers_are_read_in_the_order_in_which_they_died(
    letters: Any, grave: Undertaker, group: str, topic: str
) -> None:
    first_ids = [
        grave.bury(group, topic, b"%d" % number, broker=f"broker-{'ab'[number % 2]}", keys=[f"k{number}"])
        for number in range(6)
    ]

    found = list(letters.read(group))

    assert sorted(one.message.body for one in found) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert [one.died_at_ms for one in found] == sorted(one.died_at_ms for one in found)
    assert sorted(one.first_id for one in found) == sorted(first_ids)
    assert {(one.group, one.topic, one.message.topic, one.tries) for one in found} == {
        (group, topic, f"%DLQ%{group}", 1)
    }


def test_only_those_that_are_meant_are_read(letters: Any, grave: Undertaker, group: str, topic: str) -> None:
    for number in range(4):
        grave.bury(
            group, topic, b"%d" % number, tags="ab"[number % 2], keys=[f"k{number}"], broker="broker-a"
        )
    times = [one.died_at_ms for one in letters.read(group)]

    def bodies(**wanted: Any) -> list[bytes]:
        return [one.message.body for one in letters.read(group, DeadLetterFilter(**wanted))]

    assert bodies(tag="a") == [b"0", b"2"]
    assert bodies(key="k3") == [b"3"]
    assert bodies(topic="another") == []
    assert bodies(limit=3) == [b"0", b"1", b"2"]
    assert bodies(since_ms=times[-1] + 1) == []
    assert bodies(until_ms=times[0]) == []
    assert bodies(since_ms=times[0], until_ms=times[-1] + 1) == [b"0", b"1", b"2", b"3"]


def test_reading_leaves_no_progress_behind(letters: Any, grave: Undertaker, group: str, topic: str) -> None:
    grave.bury(group, topic, b"one", broker="broker-a")

    assert len(list(letters.read(group))) == 1

    progress = grave.ask("broker-a", RequestCode.GET_ALL_CONSUMER_OFFSET, {}).body
    assert f"%DLQ%{group}".encode() not in progress


def test_a_group_that_never_had_a_dead_letter_has_none(letters: Any) -> None:
    assert list(letters.read("nobody")) == []
    assert list(letters.replay("nobody")) == []


def test_a_name_that_no_group_can_have_is_refused(letters: Any) -> None:
    with pytest.raises(ConfigError, match="group"):
        list(letters.read("no group"))


def test_a_replayed_message_comes_to_its_group_as_if_new_and_to_no_other(
    letters: Any, cluster: ThreadCluster, grave: Undertaker, group: str, topic: str
) -> None:
    mine: list[ReceivedMessage] = []
    theirs: list[ReceivedMessage] = []
    first_id = grave.bury(group, topic, b"dead", tags="paid", keys=["k1"], properties={"city": "Oslo"})
    address = cluster.namesrv_address
    with listener(group, topic, address, mine), listener(f"other-{group}", topic, address, theirs):
        eventually(lambda: len(mine) == len(theirs) == 1, 30)
        (letter,) = letters.read(group)

        (result,) = letters.replay(group)

        eventually(lambda: len(mine) == 2, 30)
        # Whoever reads the topic would have what comes after the replayed message.
        grave.producer.send(Message(topic, b"end"), queue=mine[0].queue)
        eventually(lambda: any(one.body == b"end" for one in theirs), 30)
    again = mine[1]
    assert [one.body for one in theirs] == [b"dead", b"end"]
    assert (again.topic, again.body, again.tags, again.keys) == (topic, b"dead", "paid", ["k1"])
    assert (again.reconsume_times, again.message_id) == (0, letter.message_id)
    assert again.properties["ORIGIN_MESSAGE_ID"] == first_id
    assert again.properties["REPLAYED_FROM"] == letter.place_id
    assert again.properties["city"] == "Oslo"
    assert result.outcome is ReplayOutcome.REPLAYED
    assert (result.destination, result.offset_message_id) == (f"%RETRY%{group}", again.offset_message_id)
    assert (result.queue.broker_name, result.queue_offset) == (again.queue.broker_name, again.queue_offset)


def test_a_message_may_be_replayed_to_its_first_topic_for_every_group(
    letters: Any, cluster: ThreadCluster, grave: Undertaker, group: str, topic: str
) -> None:
    theirs: list[ReceivedMessage] = []
    grave.bury(group, topic, b"dead", broker="broker-b")

    with listener(f"other-{group}", topic, cluster.namesrv_address, theirs):
        (result,) = letters.replay(group, to=ReplayTo.TOPIC)
        eventually(lambda: len(theirs) == 2, 30)

    assert (result.destination, result.queue.broker_name) == (topic, "broker-b")
    assert "RETRY_TOPIC" not in theirs[1].properties


def test_what_was_replayed_is_skipped_by_every_later_replay(
    letters: Any, grave: Undertaker, group: str, topic: str
) -> None:
    for number in range(3):
        grave.bury(group, topic, b"%d" % number, keys=[f"k{number}"])

    one = list(letters.replay(group, DeadLetterFilter(key="k1")))
    all_of_them = {result.letter.message.body: result for result in letters.replay(group)}

    assert [result.outcome for result in one] == [ReplayOutcome.REPLAYED]
    assert {body: result.outcome for body, result in all_of_them.items()} == {
        b"0": ReplayOutcome.REPLAYED,
        b"1": ReplayOutcome.SKIPPED,
        b"2": ReplayOutcome.REPLAYED,
    }
    assert all_of_them[b"1"].offset_message_id == one[0].offset_message_id
    assert outcomes(letters.replay(group, to=ReplayTo.TOPIC)) == [ReplayOutcome.SKIPPED] * 3
    assert outcomes(letters.rehearse(group)) == [ReplayOutcome.SKIPPED] * 3
    assert outcomes(letters.replay(group, again=True)) == [ReplayOutcome.REPLAYED] * 3


def test_a_limit_counts_what_is_replayed_and_not_what_is_skipped(
    letters: Any, grave: Undertaker, group: str, topic: str
) -> None:
    for number in range(5):
        grave.bury(group, topic, b"%d" % number, broker="broker-a")
    two = DeadLetterFilter(limit=2)

    first, second, third = (
        [
            result.letter.message.body
            for result in letters.replay(group, two)
            if result.outcome is ReplayOutcome.REPLAYED
        ]
        for _ in range(3)
    )

    assert (first, second, third) == ([b"0", b"1"], [b"2", b"3"], [b"4"])


def test_a_message_that_dies_again_is_replayed_once_for_each_death(
    letters: Any, grave: Undertaker, group: str, topic: str
) -> None:
    grave.bury(group, topic, b"x", broker="broker-a")
    (first,) = letters.replay(group)
    grave.give_up(group, "broker-a", first.offset_message_id)

    results = list(letters.replay(group))

    assert [result.outcome for result in results] == [ReplayOutcome.SKIPPED, ReplayOutcome.REPLAYED]
    assert results[0].letter.message_id == results[1].letter.message_id
    assert results[1].letter.replayed_from == [results[0].letter.place_id]
    assert outcomes(letters.replay(group)) == [ReplayOutcome.SKIPPED, ReplayOutcome.SKIPPED]


def test_a_replay_that_was_cut_off_goes_on_where_it_ended(
    face: Face, cluster: ThreadCluster, grave: Undertaker, group: str, topic: str
) -> None:
    for number in range(5):
        grave.bury(group, topic, b"%d" % number, broker="broker-a")
    with face.DeadLetters(cluster.namesrv_address) as letters:
        cut_off = letters.replay(group)
        assert [next(cut_off).outcome for _ in range(2)] == [ReplayOutcome.REPLAYED] * 2
        cut_off.close()

    with face.DeadLetters(cluster.namesrv_address) as letters:
        results = outcomes(letters.replay(group))

    assert results == [ReplayOutcome.SKIPPED] * 2 + [ReplayOutcome.REPLAYED] * 3


def test_a_broker_that_goes_in_the_middle_costs_nothing_but_another_run(tmp_path: Path) -> None:
    with running_cluster(data_dir=tmp_path) as cluster:
        address = cluster.namesrv_address
        with undertaker(address, cluster.broker_addresses) as grave:
            for number in range(6):
                grave.bury("shop", "orders", b"%d" % number)
        with DeadLetters(address) as letters:
            cut_off = letters.replay("shop")
            done = [next(cut_off).outcome for _ in range(2)]
            cluster.stop_broker("broker-a")
            failed = next(cut_off)
        cluster.start_broker("broker-a")
        with DeadLetters(address) as letters:
            eventually(lambda: [one.group for one in letters.counts()] == ["shop"], 30)
            rest = outcomes(letters.replay("shop"))

    assert done == [ReplayOutcome.REPLAYED] * 2
    assert (failed.outcome, failed.letter.message.body) == (ReplayOutcome.FAILED, b"2")
    assert isinstance(failed.error, NetworkError)
    assert rest == [ReplayOutcome.SKIPPED] * 2 + [ReplayOutcome.REPLAYED] * 4


def test_dead_letters_that_come_while_others_are_replayed_are_left_for_later(
    letters: Any, grave: Undertaker, group: str, topic: str
) -> None:
    for number in range(2):
        grave.bury(group, topic, b"%d" % number, broker="broker-a")

    seen = 0
    for result in letters.replay(group):
        seen += 1
        # What fails at once would come round and round.
        grave.give_up(group, "broker-a", result.offset_message_id)

    assert seen == 2


def test_a_large_body_is_replayed_whole(letters: Any, grave: Undertaker, group: str, topic: str) -> None:
    body = b"large " * 10_000
    grave.bury(group, topic, body)

    (result,) = letters.replay(group)

    assert result.outcome is ReplayOutcome.REPLAYED
    (letter,) = letters.read(group)
    assert letters.find_replay(letter).body == body


@pytest.mark.row("RT-12")
def test_dead_letters_without_the_permission_to_be_read_are_made_readable(
    letters: Any, grave: Undertaker, group: str, topic: str
) -> None:
    grave.bury(group, topic, b"x", broker="broker-a")
    fields = {
        "topic": f"%DLQ%{group}",
        "defaultTopic": "TBW102",
        "readQueueNums": "1",
        "writeQueueNums": "1",
        "perm": "2",
        "topicFilterType": "SINGLE_TAG",
    }
    assert grave.ask("broker-a", RequestCode.UPDATE_AND_CREATE_TOPIC, fields).code == ResponseCode.SUCCESS

    def is_refused() -> bool:
        try:
            list(letters.read(group))
        except NoPermission:
            return True
        return False

    eventually(is_refused, 30)
    letters.make_readable(group)

    assert [one.message.body for one in letters.read(group)] == [b"x"]


def test_a_group_that_may_retry_nothing_gets_its_dead_letters_all_the_same(
    letters: Any, cluster: ThreadCluster, grave: Undertaker, group: str, topic: str
) -> None:
    got: list[ReceivedMessage] = []
    grave.bury(group, topic, b"x")
    consumer = PushConsumer(
        group,
        cluster.namesrv_address,
        listener=got.append,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        max_reconsume_times=0,
    )
    consumer.subscribe(topic)
    with consumer:
        (result,) = letters.replay(group)
        eventually(lambda: len(got) == 2, 30)

    assert result.outcome is ReplayOutcome.REPLAYED


def test_groups_of_a_namespace_are_read_and_replayed_by_their_own_names(
    face: Face, cluster: ThreadCluster, grave: Undertaker, group: str, topic: str
) -> None:
    space = f"space-of-{group}"
    settings = ClientSettings(namespace=space)
    got: list[ReceivedMessage] = []
    with face.Producer("producers", cluster.namesrv_address, settings) as producer:
        sent = producer.send(Message(topic, b"x"))
    grave.give_up(f"{space}%{group}", sent.queue.broker_name, sent.offset_message_id)
    consumer = PushConsumer(
        group,
        cluster.namesrv_address,
        settings=settings,
        listener=got.append,
        consume_from=ConsumeFrom.FIRST_OFFSET,
    )
    consumer.subscribe(topic)

    with face.DeadLetters(cluster.namesrv_address, settings) as letters, consumer:
        counts = {one.group: one.count for one in letters.counts()}
        (result,) = letters.replay(group)
        eventually(lambda: len(got) == 2, 30)

    assert counts == {group: 1}
    assert (result.letter.topic, result.destination) == (topic, f"%RETRY%{group}")
    assert got[1].topic == topic
