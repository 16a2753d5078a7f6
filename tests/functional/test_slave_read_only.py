"""What a slave answers: everything that is read, and for what is written, who does it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kinds_stage import HOUR_MS, Peer, settle
from slave_stage import SLAVE_ID, Pair, running_pair

from pyromq.broker.replication.following import Following
from pyromq.codes import RequestCode, ResponseCode
from pyromq.model import MessageQueue
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.wire.bodies.lock_bodies import LockBatch, encode_lock_batch
from pyromq.wire.bodies.route_bodies import TopicRoute, decode_route
from pyromq.wire.command import Command
from pyromq.wire.java_json import loads
from pyromq.wire.message_id import parse_offset_message_id
from pyromq.wire.record import decode_record

HALF = {"TRAN_MSG": "true", "PGROUP": "payers"}


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with running_pair(tmp_path) as pair:
        yield pair


async def filled(pair: Pair, count: int = 3) -> Command:
    """Send messages to the master, wait for the slave, and return the last answer."""
    master = pair.master.connect()
    sent = [await master.send("orders", b"%d" % number, properties={"KEYS": "k"}) for number in range(count)]
    await pair.caught_up()
    return sent[-1]


# Writing


async def test_a_slave_takes_no_message(pair: Pair) -> None:
    await filled(pair)
    before = pair.slave.broker.max_position

    answer = await pair.slave.connect().send("orders", b"lost?")

    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "slave" in (answer.remark or "")
    assert "master" in (answer.remark or "")
    assert pair.slave.broker.max_position == before


@pytest.mark.row("HA-06")
@pytest.mark.parametrize(
    ("code", "said"),
    [
        (RequestCode.SEND_MESSAGE, ResponseCode.SERVICE_NOT_AVAILABLE),
        (RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR),
        (RequestCode.END_TRANSACTION, ResponseCode.SLAVE_NOT_AVAILABLE),
        (RequestCode.UPDATE_AND_CREATE_TOPIC, ResponseCode.SYSTEM_ERROR),
        (RequestCode.RECALL_MESSAGE, ResponseCode.SERVICE_NOT_AVAILABLE),
    ],
)
async def test_what_is_written_is_refused_with_the_code_of_rocketmq_s_slave(
    pair: Pair, code: RequestCode, said: int
) -> None:
    await filled(pair)

    answer = await pair.slave.connect().request(code, _fields_of(code))

    assert answer.code == said
    assert "slave" in (answer.remark or "")


def _fields_of(code: RequestCode) -> dict[str, object]:
    return {
        RequestCode.SEND_MESSAGE: {
            "producerGroup": "g",
            "topic": "orders",
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": 4,
            "queueId": 0,
            "sysFlag": 0,
            "bornTimestamp": 0,
            "flag": 0,
        },
        RequestCode.CONSUMER_SEND_MSG_BACK: {"offset": 0, "group": "readers", "delayLevel": 0},
        RequestCode.END_TRANSACTION: {
            "producerGroup": "payers",
            "tranStateTableOffset": 0,
            "commitLogOffset": 0,
            "commitOrRollback": 8,
            "msgId": "ID",
        },
        RequestCode.UPDATE_AND_CREATE_TOPIC: {
            "topic": "new",
            "defaultTopic": "TBW102",
            "readQueueNums": 1,
            "writeQueueNums": 1,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
        },
        RequestCode.RECALL_MESSAGE: {"topic": "orders", "recallHandle": "x", "producerGroup": "g"},
    }[code]


async def test_a_slave_does_nothing_of_its_own_with_messages_that_wait(pair: Pair) -> None:
    master = pair.master.connect()
    await filled(pair)
    await master.send("orders", properties={"DELAY": "5"})
    await master.send("orders", properties={"TIMER_DELAY_MS": "60000"})
    await master.send("orders", b"half", sys_flag=4, properties=HALF)
    await pair.caught_up()
    await pair.stop(pair.master)
    before = pair.slave.broker.max_position

    # All of it is due, and overdue.
    clock = ManualClock(pair.slave.clock.now_ms() + HOUR_MS)
    await pair.restart_slave(clock)
    client = pair.slave.connect()
    await client.heartbeat(producer="payers", consumer="readers")
    clock.advance(HOUR_MS)
    await settle()

    assert client.asked_for(RequestCode.CHECK_TRANSACTION_STATE) == []
    assert pair.slave.broker.max_position == before
    assert len(await client.stored("orders")) == 3


# Reading


@pytest.mark.row("HA-01", "HA-06")
async def test_a_slave_is_read_from_as_its_master_is(pair: Pair) -> None:
    await filled(pair)
    master, slave = pair.master.connect(), pair.slave.connect()

    for_master, for_slave = await master.pull("orders"), await slave.pull("orders")

    assert for_slave.body == for_master.body
    assert for_slave.ext == for_master.ext


async def test_a_topic_that_is_new_is_read_at_the_slave_although_the_master_dies_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyromq.broker.replication.following.PERIOD_S", 3_600.0)
    async with running_pair(tmp_path) as pair:
        await filled(pair)
        copies = pair.copier.copies

        for topic in ("new", "newer"):
            await pair.master.connect().send(topic, b"one")
            await pair.slave.connect().await_stored(topic)

        assert pair.copier.copies > copies


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": 0}),
        (RequestCode.GET_MIN_OFFSET, {"topic": "orders", "queueId": 0}),
        (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"topic": "orders", "queueId": 0, "timestamp": 1}),
        (RequestCode.GET_EARLIEST_MSG_STORETIME, {"topic": "orders", "queueId": 0}),
        (
            RequestCode.QUERY_MESSAGE,
            {"topic": "orders", "key": "k", "maxNum": 9, "beginTimestamp": 0, "endTimestamp": 1 << 50},
        ),
        (RequestCode.GET_TOPIC_STATS_INFO, {"topic": "orders"}),
    ],
)
async def test_questions_are_answered_alike(pair: Pair, code: int, fields: dict[str, object]) -> None:
    await filled(pair)

    theirs = await pair.master.connect().request(code, fields)
    ours = await pair.slave.connect().request(code, fields)

    assert (ours.code, ours.ext, ours.body) == (theirs.code, theirs.ext, theirs.body)


async def test_a_message_is_found_by_its_id(pair: Pair) -> None:
    sent = await filled(pair)
    position = parse_offset_message_id((sent.ext or {})["msgId"]).position

    answer = await pair.slave.connect().request(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": position})

    assert decode_record(answer.body).body == b"2"


async def test_a_held_pull_is_answered_when_the_message_is_copied(pair: Pair) -> None:
    await filled(pair, 1)
    slave = pair.slave.connect()
    held = await pair.slave.hold(slave.pull("orders", offset=1, hold_ms=20_000))
    await pair.master.connect().send("orders", b"copied")

    answer = await held

    assert answer.code == ResponseCode.SUCCESS
    assert decode_record(answer.body).body == b"copied"


async def test_a_group_that_is_ahead_of_a_slave_is_not_moved_back(pair: Pair) -> None:
    await filled(pair, 1)

    answer = await pair.slave.connect().pull("orders", offset=9)

    ext = answer.ext or {}
    assert answer.code == ResponseCode.PULL_NOT_FOUND
    assert (ext["nextBeginOffset"], ext["suggestWhichBrokerId"]) == ("9", "0")


async def test_queues_are_locked_at_a_slave_too(pair: Pair) -> None:
    await filled(pair)
    queue = MessageQueue("orders", "broker-a", 0)
    body = encode_lock_batch(LockBatch(consumer_group="readers", client_id="me", queues=[queue]))

    answer = await pair.slave.connect().request(RequestCode.LOCK_BATCH_MQ, body=body)

    assert [one["queueId"] for one in loads(answer.body)["lockOKMQSet"]] == [0]


# Which broker to read from


async def suggestion(client: Peer, offset: int = 0) -> int:
    return int(((await client.pull("orders", offset=offset)).ext or {})["suggestWhichBrokerId"])


@pytest.mark.row("HA-07", "CO-06")
async def test_a_master_is_busy_for_readers_that_are_behind_by_more_than_forty_percent_of_its_memory(
    tmp_path: Path,
) -> None:
    async with running_pair(tmp_path, slave_read_enable=True) as pair:
        master = pair.master.connect()
        for _ in range(10):
            await master.send("orders")
        # A machine with so little memory that these ten messages are forty percent of it.
        pair.master.broker.store._memory_bytes = pair.master.broker.max_position * 100 // 40
        assert await suggestion(master) == 0

        for _ in range(10):
            await master.send("orders")

        assert await suggestion(master) == SLAVE_ID
        assert await suggestion(master, offset=11) == 0
        await pair.caught_up()
        assert len(await pair.slave.connect().stored("orders")) == 20


@pytest.mark.row("HA-07", "CO-06")
async def test_a_busy_master_sends_readers_of_old_messages_to_its_slave(tmp_path: Path) -> None:
    # Nothing is young: the log's end is where the memory ends.
    settings = {"slave_read_enable": True, "access_message_in_memory_max_ratio": 0}
    async with running_pair(tmp_path, **settings) as pair:
        master = pair.master.connect()
        for _ in range(40):
            await master.send("orders")

        assert await suggestion(master) == SLAVE_ID
        assert await suggestion(master, offset=40) == 0


@pytest.mark.row("HA-07", "CO-06")
async def test_unless_slaves_may_be_read_nobody_is_sent_there(tmp_path: Path) -> None:
    async with running_pair(tmp_path, access_message_in_memory_max_ratio=0) as pair:
        master = pair.master.connect()
        for _ in range(40):
            await master.send("orders")

        assert await suggestion(master) == 0


# The name server


async def route(pair: Pair, topic: str = "orders") -> TopicRoute | None:
    asked = pair.slave.connect()
    answer = await asked._links.request(
        pair.namesrv_address, Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": topic}), 5.0
    )
    return decode_route(answer.body) if answer.code == ResponseCode.SUCCESS else None


@pytest.mark.row("HA-12")
async def test_a_slave_finds_its_master_by_the_answer_to_its_registration(pair: Pair) -> None:
    """Nothing but the name servers' address is set; the master's HA port is its own plus one."""
    replicating = pair.slave.broker.replicating
    assert isinstance(replicating, Following)
    assert not pair.slave.broker.settings.store.ha_master_address

    await filled(pair)
    await pair.caught_up()

    leader = replicating.find_leader()
    assert leader is not None
    assert leader.address == pair.master.address
    host, _, port = pair.master.address.rpartition(":")
    assert leader.ha_address == pair.master.broker.ha_address == f"{host}:{int(port) + 1}"
    assert len(await pair.slave.connect().stored("orders")) == 3


@pytest.mark.row("HA-01", "NS-11")
async def test_the_route_names_both_brokers_and_the_master_s_queues(pair: Pair) -> None:
    await filled(pair)

    found = await aeventually(lambda: route(pair))

    assert found is not None
    (broker,) = found.broker_datas
    assert broker.broker_addrs == {0: pair.master.address, SLAVE_ID: pair.slave.address}


@pytest.mark.row("HA-07")
async def test_when_the_master_is_gone_the_route_still_names_the_slave(pair: Pair) -> None:
    await filled(pair)
    await aeventually(lambda: route(pair))

    await pair.stop(pair.master)

    found = await route(pair)
    assert found is not None
    assert [broker.broker_addrs for broker in found.broker_datas] == [{SLAVE_ID: pair.slave.address}]
    assert len(await pair.slave.connect().stored("orders")) == 3
