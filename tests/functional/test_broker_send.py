from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.codes import RequestCode, ResponseCode, Serializer, SysFlag
from pyromq.testing.cluster import Cluster
from pyromq.testing.requests import BORN_AT_MS, batch_body, pull_fields, send_fields, send_v2_fields
from pyromq.testing.wire_client import WireClient
from pyromq.wire import properties as names
from pyromq.wire.bodies.route_bodies import decode_route
from pyromq.wire.bodies.topic_bodies import TopicConfig, decode_topic_table
from pyromq.wire.command import Command
from pyromq.wire.message_id import parse_offset_message_id
from pyromq.wire.record import Record, iter_records

SEND, SEND_V2, SEND_BATCH = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(data_dir=tmp_path) as cluster:
        yield cluster


async def records(client: WireClient, topic: str, queue_id: int = 0) -> list[Record]:
    pulled = await client.ask(RequestCode.PULL_MESSAGE, pull_fields(topic, queueId=queue_id))
    return list(iter_records(pulled.body))


async def topic_config(client: WireClient, topic: str) -> TopicConfig | None:
    answer = await client.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
    return decode_topic_table(answer.body).topic_config_table.get(topic)


def refused(answer: Command, code: ResponseCode) -> str:
    """Check that a send was refused as RocketMQ refuses it, and return the remark."""
    assert answer.code == code
    assert answer.ext == {"TRACE_ON": "true", "MSG_REGION": "DefaultRegion"}
    assert answer.remark is not None
    return answer.remark


# Messages and their ids ------------------------------------------------------------------------------------


@pytest.mark.row("MM-01")
async def test_a_message_comes_back_as_it_was_sent(client: WireClient) -> None:
    properties = {"KEYS": "k1 k2", "TAGS": "TagA", "UNIQ_KEY": "0A", "color": "red"}
    await client.ask(SEND_V2, send_v2_fields("orders", properties, flag=7, queueId=2), b"hello")

    (record,) = await records(client, "orders", queue_id=2)

    assert (record.topic, record.body, record.flag, record.queue_id) == ("orders", b"hello", 7, 2)
    assert names.decode(record.properties) == properties | {"CLUSTER": "DefaultCluster"}
    assert record.born_at_ms == BORN_AT_MS
    assert record.reconsume_times == 0


@pytest.mark.row("MM-01", "FL-06")
async def test_whether_to_wait_for_the_disk_is_not_stored(client: WireClient) -> None:
    await client.ask(SEND_V2, send_v2_fields("orders", {"WAIT": "true", "TAGS": "a"}), b"x")
    (record,) = await records(client, "orders")
    assert names.decode(record.properties) == {"TAGS": "a", "CLUSTER": "DefaultCluster"}


@pytest.mark.row("MM-02")
async def test_each_queue_counts_its_own_messages(client: WireClient) -> None:
    offsets = []
    for queue_id in (0, 1, 0, 1, 0):
        answer = await client.ask(SEND_V2, send_v2_fields("orders", queueId=queue_id), b"x")
        assert answer.ext is not None
        offsets.append((answer.ext["queueId"], answer.ext["queueOffset"]))
    assert offsets == [("0", "0"), ("1", "0"), ("0", "1"), ("1", "1"), ("0", "2")]


@pytest.mark.row("MM-04")
async def test_the_offset_id_names_the_brokers_address_and_the_place_in_its_log(
    cluster: Cluster, client: WireClient
) -> None:
    await client.ask(SEND_V2, send_v2_fields("orders"), b"first")
    answer = await client.ask(SEND_V2, send_v2_fields("orders"), b"second")
    _, second = await records(client, "orders")

    assert answer.ext is not None
    told = parse_offset_message_id(answer.ext["msgId"])

    assert (f"{told.host}:{told.port}", told.position) == (cluster.broker_addresses[0], second.position)


async def test_old_and_new_field_names_and_both_serializers_do_the_same(cluster: Cluster) -> None:
    bodies = []
    for serializer in Serializer:
        async with WireClient(cluster.broker_addresses[0], serializer=serializer) as client:
            await client.ask(SEND, send_fields("orders", {"TAGS": "a"}), b"x")
            await client.ask(SEND_V2, send_v2_fields("orders", {"TAGS": "a"}), b"x")
            bodies = await records(client, "orders")
    assert [(one.body, one.properties) for one in bodies] == [(b"x", bodies[0].properties)] * 4


async def test_a_queue_is_chosen_for_whoever_names_none(client: WireClient) -> None:
    answer = await client.ask(SEND_V2, send_v2_fields("orders", queueId=-1), b"x")
    assert answer.ext is not None
    assert 0 <= int(answer.ext["queueId"]) < 4


@pytest.mark.row("SM-03")
async def test_a_oneway_send_is_stored_and_not_answered(client: WireClient) -> None:
    client.tell(SEND_V2, send_v2_fields("orders"), b"quiet")
    await client.ask(SEND_V2, send_v2_fields("orders"), b"loud")

    assert [record.body for record in await records(client, "orders")] == [b"quiet", b"loud"]
    # The telling request had the opaque number 1.
    assert 1 not in client.raw_headers


# Topics that come into being -------------------------------------------------------------------------------


@pytest.mark.row("AD-10", "PR-06", "PR-10", "SC-03")
async def test_the_first_send_creates_its_topic_with_the_queues_it_asks_for(client: WireClient) -> None:
    assert (await client.ask(SEND_V2, send_v2_fields("orders"), b"x")).code == ResponseCode.SUCCESS
    config = await topic_config(client, "orders")
    assert config == TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4, perm=6)


@pytest.mark.row("PR-10")
async def test_a_created_topic_has_at_most_the_queues_of_its_default_topic(client: WireClient) -> None:
    await client.ask(SEND_V2, send_v2_fields("orders", defaultTopicQueueNums=100), b"x")
    config = await topic_config(client, "orders")
    assert config is not None
    assert config.write_queue_nums == 8


@pytest.mark.row("PR-10", "PR-12")
async def test_the_name_server_learns_of_a_created_topic_on_the_broker_that_has_it_only(
    tmp_path: Path,
) -> None:
    async with (
        Cluster(brokers=2, data_dir=tmp_path) as cluster,
        WireClient(cluster.broker_addresses[1]) as broker_b,
        WireClient(cluster.namesrv_address) as name_server,
    ):
        await broker_b.ask(SEND_V2, send_v2_fields("orders"), b"x")

        route = await name_server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
        while route.code != ResponseCode.SUCCESS:
            route = await name_server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})

        assert [queues.broker_name for queues in decode_route(route.body).queue_datas] == ["broker-b"]


@pytest.mark.row("PR-11", "SC-04")
async def test_without_automatic_creation_a_send_to_an_unknown_topic_is_refused(tmp_path: Path) -> None:
    async with (
        Cluster(data_dir=tmp_path, auto_create_topic_enable=False) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        answer = await client.ask(SEND_V2, send_v2_fields("orders"), b"x")

    assert refused(answer, ResponseCode.TOPIC_NOT_EXIST) == (
        "topic[orders] not exist, apply first please!"
        "\nSee http://rocketmq.apache.org/docs/faq/ for further details."
    )


@pytest.mark.row("SC-03")
async def test_a_retry_topic_is_created_with_one_queue_even_then(tmp_path: Path) -> None:
    async with (
        Cluster(data_dir=tmp_path, auto_create_topic_enable=False) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        answer = await client.ask(SEND_V2, send_v2_fields("%RETRY%readers"), b"x")
        assert answer.code == ResponseCode.SUCCESS
        config = await topic_config(client, "%RETRY%readers")
    assert config == TopicConfig(topic_name="%RETRY%readers", read_queue_nums=1, write_queue_nums=1, perm=6)


# Refusals --------------------------------------------------------------------------------------------------


@pytest.mark.row("SC-01")
async def test_a_broker_that_may_not_be_written_refuses_ordered_topics(tmp_path: Path) -> None:
    async with (
        Cluster(data_dir=tmp_path, broker_permission=4) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
        WireClient(cluster.namesrv_address) as name_server,
    ):
        await client.ask(SEND_V2, send_v2_fields("orders"), b"x")
        await name_server.ask(
            RequestCode.PUT_KV_CONFIG,
            {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders", "value": "broker-a:4"},
        )
        # Whether a topic is ordered is in the name server's answer to a registration.
        await create_topic(client, "another")

        answer = await client.ask(SEND_V2, send_v2_fields("orders"), b"x")

    assert refused(answer, ResponseCode.NO_PERMISSION) == "the broker[127.0.0.1] sending message is forbidden"


async def create_topic(client: WireClient, topic: str, **changes: object) -> Command:
    fields: dict[str, object] = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": 4,
        "writeQueueNums": 4,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }
    return await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields | changes)


@pytest.mark.row("SC-02")
@pytest.mark.parametrize(
    "topic",
    [
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    ],
)
async def test_only_the_broker_writes_to_its_own_topics(client: WireClient, topic: str) -> None:
    answer = await client.ask(SEND_V2, send_v2_fields(topic), b"x")
    remark = refused(answer, ResponseCode.NO_PERMISSION)
    assert remark == f"Sending message to topic[{topic}] is forbidden."


@pytest.mark.row("SC-05")
async def test_a_queue_that_the_topic_does_not_have_is_refused(client: WireClient) -> None:
    await create_topic(client, "orders", readQueueNums=2, writeQueueNums=3)
    assert (await client.ask(SEND_V2, send_v2_fields("orders", queueId=2), b"x")).code == ResponseCode.SUCCESS

    answer = await client.ask(SEND_V2, send_v2_fields("orders", queueId=3), b"x")

    assert refused(answer, ResponseCode.SYSTEM_ERROR).startswith(
        "request queueId[3] is illegal, TopicConfig ["
    )


@pytest.mark.row("SC-06")
async def test_a_message_that_was_retried_often_enough_goes_to_the_dead_letters(client: WireClient) -> None:
    fields = send_v2_fields("%RETRY%readers", reconsumeTimes=3, maxReconsumeTimes=3)

    answer = await client.ask(SEND_V2, fields, b"poison")

    assert answer.code == ResponseCode.SUCCESS
    assert [record.body for record in await records(client, "%DLQ%readers")] == [b"poison"]
    assert await records(client, "%RETRY%readers") == []


@pytest.mark.row("SC-06")
async def test_a_message_that_may_be_retried_stays_in_the_retry_topic(client: WireClient) -> None:
    await client.ask(SEND_V2, send_v2_fields("%RETRY%readers", reconsumeTimes=15), b"again")
    assert [record.body for record in await records(client, "%RETRY%readers")] == [b"again"]


@pytest.mark.row("SC-06")
async def test_the_groups_own_limit_holds_where_the_producer_sets_none(client: WireClient) -> None:
    await client.ask(SEND_V2, send_v2_fields("%RETRY%readers", reconsumeTimes=16), b"poison")
    assert [record.body for record in await records(client, "%DLQ%readers")] == [b"poison"]


@pytest.mark.row("SC-09")
async def test_a_topic_with_strange_characters_is_refused(client: WireClient) -> None:
    answer = await client.ask(SEND_V2, send_v2_fields("a b"), b"x")
    assert refused(answer, ResponseCode.SYSTEM_ERROR) == (
        "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    )


@pytest.mark.row("SC-09")
async def test_a_blank_topic_is_refused(client: WireClient) -> None:
    answer = await client.ask(SEND_V2, send_v2_fields(" "), b"x")
    assert refused(answer, ResponseCode.SYSTEM_ERROR) == "The specified topic is blank."


@pytest.mark.row("SC-09")
async def test_a_topics_name_may_have_127_characters_and_no_more(client: WireClient) -> None:
    assert (await client.ask(SEND_V2, send_v2_fields("t" * 127), b"x")).code == ResponseCode.SUCCESS
    answer = await client.ask(SEND_V2, send_v2_fields("t" * 128), b"x")
    remark = refused(answer, ResponseCode.SYSTEM_ERROR)
    assert remark == "The specified topic is longer than topic max length."


@pytest.mark.row("SC-09", "MM-06")
async def test_a_body_over_the_limit_is_refused(tmp_path: Path) -> None:
    async with (
        Cluster(data_dir=tmp_path, max_message_size=4096) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        assert (await client.ask(SEND_V2, send_v2_fields("orders"), b"x")).code == ResponseCode.SUCCESS
        answer = await client.ask(SEND_V2, send_v2_fields("orders"), b"x" * 5000)

    assert refused(answer, ResponseCode.MESSAGE_ILLEGAL) == (
        "the message is illegal, maybe msg body or properties length not matched. "
        "msg body length limit 4096B, msg properties length limit 32KB."
    )


@pytest.mark.row("SC-09")
async def test_properties_over_the_limit_are_refused(client: WireClient) -> None:
    answer = await client.ask(SEND_V2, send_v2_fields("orders", {"long": "x" * 32_767}), b"x")
    assert refused(answer, ResponseCode.MESSAGE_ILLEGAL).startswith("the message is illegal")


async def test_a_missing_field_is_named(client: WireClient) -> None:
    fields = send_v2_fields("orders")
    del fields["e"]
    answer = await client.ask(SEND_V2, fields, b"x")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark is not None
    assert "`e`" in answer.remark


async def test_sends_before_the_appointed_time_are_refused(tmp_path: Path) -> None:
    async with (
        Cluster(data_dir=tmp_path, start_accept_send_request_time_stamp=4_102_444_800_000) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        answer = await client.ask(SEND_V2, send_v2_fields("orders"), b"x")
    assert refused(answer, ResponseCode.SYSTEM_ERROR).startswith("broker unable to service, until ")


# Batches ---------------------------------------------------------------------------------------------------


@pytest.mark.row("BA-01", "BA-03")
async def test_each_message_of_a_batch_is_stored_on_its_own(client: WireClient) -> None:
    body = batch_body([b"one", b"two", b"three"], {"TAGS": "a"})

    await client.ask(SEND_BATCH, send_v2_fields("orders", {"WAIT": "true"}, batch=True, queueId=1), body)

    stored = await records(client, "orders", queue_id=1)
    assert [(one.body, one.queue_offset) for one in stored] == [(b"one", 0), (b"two", 1), (b"three", 2)]
    assert {names.decode(one.properties)["TAGS"] for one in stored} == {"a"}
    assert {names.decode(one.properties)["CLUSTER"] for one in stored} == {"DefaultCluster"}


@pytest.mark.row("BA-07")
async def test_a_batch_is_answered_with_the_ids_of_its_messages(client: WireClient) -> None:
    body = batch_body([b"one", b"two", b"three"])

    answer = await client.ask(SEND_BATCH, send_v2_fields("orders", batch=True), body)

    assert answer.ext is not None
    positions = [parse_offset_message_id(text).position for text in answer.ext["msgId"].split(",")]
    assert positions == [record.position for record in await records(client, "orders")]
    assert answer.ext["queueOffset"] == "0"


@pytest.mark.row("BA-02")
async def test_the_longest_properties_of_a_batched_message_fit(client: WireClient) -> None:
    # The broker adds CLUSTER to them, so 32,767 bytes in all are the limit.
    added = len("\x02CLUSTER\x01DefaultCluster")
    value = "x" * (32_767 - added - len("p\x01"))
    body = batch_body([b"x"], {"p": value})
    answer = await client.ask(SEND_BATCH, send_v2_fields("orders", batch=True), body)
    assert answer.code == ResponseCode.SUCCESS

    too_long = batch_body([b"x"], {"p": value + "x"})
    answer = await client.ask(SEND_BATCH, send_v2_fields("orders", batch=True), too_long)
    refused(answer, ResponseCode.MESSAGE_ILLEGAL)


@pytest.mark.row("BA-03")
@pytest.mark.parametrize(
    ("properties", "sys_flag"),
    [({"DELAY": "3"}, 0), ({}, int(SysFlag.TRANSACTION_PREPARED))],
    ids=["delayed", "transaction"],
)
async def test_a_batch_can_be_neither_delayed_nor_a_transaction(
    client: WireClient, properties: dict[str, str], sys_flag: int
) -> None:
    fields = send_v2_fields("orders", properties, batch=True, sysFlag=sys_flag)
    answer = await client.ask(SEND_BATCH, fields, batch_body([b"x"]))
    refused(answer, ResponseCode.MESSAGE_ILLEGAL)


@pytest.mark.row("BA-04")
async def test_a_batch_over_the_size_limit_is_refused_whole(tmp_path: Path) -> None:
    async with (
        Cluster(data_dir=tmp_path, max_message_size=4096) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        fields = send_v2_fields("orders", batch=True)
        answer = await client.ask(SEND_BATCH, fields, batch_body([b"x" * 1000] * 5))
        refused(answer, ResponseCode.MESSAGE_ILLEGAL)
        assert await records(client, "orders") == []


async def test_a_batch_that_lies_about_its_lengths_is_refused(client: WireClient) -> None:
    body = batch_body([b"one", b"two"])
    answer = await client.ask(SEND_BATCH, send_v2_fields("orders", batch=True), body[:-1])
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert await records(client, "orders") == []


# Synchronous flush -----------------------------------------------------------------------------------------


@pytest.mark.row("FL-01", "FL-02")
async def test_under_synchronous_flush_sends_are_answered_when_the_disk_has_them(tmp_path: Path) -> None:
    async with (
        Cluster(data_dir=tmp_path, flush_disk_type="SYNC_FLUSH") as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        first = await client.ask(SEND_V2, send_v2_fields("orders"), b"first")
        assert first.code == ResponseCode.SUCCESS
        many = [client.begin(SEND_V2, send_v2_fields("orders"), b"%d" % number) for number in range(100)]
        answers = [await answer for answer in many]

    assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
    assert [answer.ext["queueOffset"] for answer in answers if answer.ext] == [
        str(offset) for offset in range(1, 101)
    ]


async def test_messages_sent_while_their_topic_comes_into_being_keep_their_order(client: WireClient) -> None:
    sent = [client.begin(SEND_V2, send_v2_fields("orders"), b"%d" % number) for number in range(50)]
    answers = [await answer for answer in sent]
    assert [answer.ext["queueOffset"] for answer in answers if answer.ext] == [
        str(number) for number in range(50)
    ]


async def test_the_topic_of_an_answered_send_is_on_disk(tmp_path: Path, client: WireClient) -> None:
    await client.ask(SEND_V2, send_v2_fields("orders"), b"x")
    written = (tmp_path / "broker-a" / "config" / "topics.json").read_bytes()
    assert "orders" in decode_topic_table(written).topic_config_table


async def test_a_synchronous_master_without_a_slave_says_so_with_each_message(tmp_path: Path) -> None:
    async with (
        Cluster(data_dir=tmp_path, broker_role="SYNC_MASTER") as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        answer = await client.ask(SEND_V2, send_v2_fields("orders", {}), b"one copy")

        assert answer.code == ResponseCode.SLAVE_NOT_AVAILABLE
        assert [record.body for record in await records(client, "orders")] == [b"one copy"]
