"""A broker with access control: what accounts may do, white lists, files that change, accounts by order."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from access_stage import (
    ACCOUNTS,
    NOBODY,
    NOBODY_SECRET,
    OPERATOR,
    OPERATOR_SECRET,
    SHOP,
    SHOP_SECRET,
    ask_as,
    is_denied,
    write_accounts,
)

from pyromq import ClientSettings, Message, aio
from pyromq.codes import RequestCode as Code
from pyromq.codes import ResponseCode
from pyromq.errors import ConfigError, Refused, SendFailed
from pyromq.kernel import IS_COMPILED
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, Heartbeat, Subscription, encode_heartbeat
from pyromq.wire.command import Command

THE_OPERATOR, THE_SHOP, THE_NOBODY = (OPERATOR, OPERATOR_SECRET), (SHOP, SHOP_SECRET), (NOBODY, NOBODY_SECRET)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_accounts(tmp_path / "conf")


@pytest.fixture
async def cluster(tmp_path: Path, folder: Path, clock: ManualClock) -> AsyncIterator[Cluster]:
    async with Cluster(
        data_dir=tmp_path / "data", clock=clock, acl_enable=True, acl_folder=str(folder)
    ) as cluster:
        yield cluster


def settings_of(account: tuple[str, str]) -> ClientSettings:
    return ClientSettings(access_key=account[0], secret_key=account[1], retry_times_when_send_failed=0)


async def send(
    client: WireClient, account: tuple[str, str], topic: str, code: int = Code.SEND_MESSAGE_V2
) -> Command:
    fields = {"a": "producers", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 0, "h": 0}
    return await ask_as(client, account, code, fields, b"body")


async def pull(client: WireClient, account: tuple[str, str], topic: str, group: str) -> Command:
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": 0,
        "queueOffset": 0,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": "*",
        "subVersion": 0,
    }
    return await ask_as(client, account, Code.PULL_MESSAGE, fields)


# What accounts may do ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE])
@pytest.mark.parametrize(
    ("topic", "is_allowed"),
    [
        ("orders", True),
        ("clicks", True),
        ("prices", False),
        ("secrets", False),
        ("%RETRY%billing", True),
        ("%RETRY%other", False),
    ],
)
async def test_an_account_sends_to_the_topics_it_may_publish_in(
    client: WireClient, topic: str, is_allowed: bool, code: int
) -> None:
    assert is_denied(await send(client, THE_SHOP, topic, code)) is not is_allowed


@pytest.mark.parametrize(
    ("topic", "group", "is_allowed"),
    [
        ("orders", "billing", True),
        ("prices", "billing", True),
        ("clicks", "billing", False),
        ("orders", "other", False),
        ("%RETRY%billing", "billing", True),
        ("%RETRY%other", "billing", False),
        ("%DLQ%billing", "billing", False),
    ],
)
async def test_an_account_reads_the_topics_it_may_subscribe_to_as_a_group_it_may_be(
    client: WireClient, topic: str, group: str, is_allowed: bool
) -> None:
    assert is_denied(await pull(client, THE_SHOP, topic, group)) is not is_allowed


@pytest.mark.parametrize(("topic", "is_allowed"), [("prices", True), ("clicks", False)])
async def test_a_heartbeat_is_looked_at_for_every_subscription(
    client: WireClient, topic: str, is_allowed: bool
) -> None:
    body = encode_heartbeat(
        Heartbeat(
            client_id="c",
            consumers=[ConsumerPart(group_name="billing", subscriptions=[Subscription(topic=topic)])],
        )
    )

    assert is_denied(await ask_as(client, THE_SHOP, Code.HEART_BEAT, None, body)) is not is_allowed


async def test_a_message_is_not_read_by_its_position_without_a_permission_for_its_topic(
    client: WireClient,
) -> None:
    await send(client, THE_OPERATOR, "secrets")

    assert is_denied(await ask_as(client, THE_SHOP, Code.VIEW_MESSAGE_BY_ID, {"offset": 0}))


async def test_a_message_is_not_sent_back_to_a_group_that_may_not_read_it(client: WireClient) -> None:
    await send(client, THE_OPERATOR, "secrets")
    back = {"offset": 0, "group": "billing", "delayLevel": 1, "originTopic": "secrets"}

    assert is_denied(await ask_as(client, THE_SHOP, Code.CONSUMER_SEND_MSG_BACK, back))


async def test_a_message_that_waits_counts_as_one_of_the_topic_it_is_for(client: WireClient) -> None:
    fields = {
        "a": "p",
        "b": "secrets",
        "c": "TBW102",
        "d": 4,
        "e": 0,
        "f": 0,
        "g": 0,
        "h": 0,
        "i": "DELAY\x013",
    }
    await ask_as(client, THE_OPERATOR, Code.SEND_MESSAGE_V2, fields, b"body")

    answer = await ask_as(client, THE_SHOP, Code.VIEW_MESSAGE_BY_ID, {"offset": 0})

    assert "topic:secrets" in (answer.remark or "")


async def test_everybody_with_an_account_may_send_traces(client: WireClient) -> None:
    assert not is_denied(await send(client, THE_NOBODY, "RMQ_SYS_TRACE_TOPIC"))


async def test_our_client_signs_what_it_sends_and_reads(cluster: Cluster) -> None:
    name_server, settings = cluster.namesrv_address, settings_of(THE_SHOP)
    async with aio.Producer("producers", name_server, settings=settings) as producer:
        sent = await producer.send(Message("orders", b"one"))
    async with aio.PullConsumer("billing", name_server=name_server, settings=settings) as consumer:
        # The name server hears of a topic that a message made a little later.
        await aeventually(lambda: consumer.fetch_message_queues("orders"))
        pulled = await consumer.pull(sent.queue, 0)

    assert [message.body for message in pulled.messages] == [b"one"]


async def test_plain_sends_are_signed_and_refused_as_others_are(cluster: Cluster) -> None:
    settings = settings_of(THE_SHOP)
    async with aio.Producer("producers", cluster.namesrv_address, settings) as producer:
        sent = [
            await producer.send(Message("orders", b"%d" % n, tags="paid", properties={"city": 'Å"bo'}))
            for n in range(20)
        ]
        assert len({(one.queue, one.queue_offset) for one in sent}) == 20
        if IS_COMPILED:
            assert producer._runner.plain_sends._teacher.kernel.knows_topic("orders")
        for _ in range(3):
            with pytest.raises((SendFailed, Refused), match="topic:secrets"):
                await producer.send(Message("secrets", b"x"))
    # The broker works the signature out for each request.
    wrong = ClientSettings(access_key=SHOP, secret_key=OPERATOR_SECRET, retry_times_when_send_failed=0)
    async with aio.Producer("others", cluster.namesrv_address, wrong) as producer:
        for _ in range(3):
            with pytest.raises((SendFailed, Refused)):
                await producer.send(Message("orders", b"x"))


async def test_our_client_is_told_why_it_is_refused(cluster: Cluster) -> None:
    async with aio.Producer("producers", cluster.namesrv_address, settings=settings_of(THE_SHOP)) as producer:
        with pytest.raises((SendFailed, Refused), match="No default permission for topic:secrets"):
            await producer.send(Message("secrets", b"one"))


# White lists ------------------------------------------------------------------------------------------------


async def test_an_address_on_the_global_white_list_needs_no_account(
    client: WireClient, folder: Path, clock: ManualClock
) -> None:
    write_accounts(
        folder,
        ACCOUNTS.replace("globalWhiteRemoteAddresses:\n", "globalWhiteRemoteAddresses:\n- 127.0.0.*\n"),
    )
    clock.advance(2_000)

    await aeventually(lambda: allowed(client, Code.GET_BROKER_CONFIG))


async def allowed(client: WireClient, code: int) -> bool:
    return not is_denied(await client.ask(code))


async def test_an_address_on_an_accounts_white_list_needs_no_signature(
    client: WireClient, folder: Path, clock: ManualClock
) -> None:
    write_accounts(folder, ACCOUNTS.replace("whiteRemoteAddress:\n", "whiteRemoteAddress: 127.0.0.1\n"))
    clock.advance(2_000)

    async def is_let_in() -> bool:
        return not is_denied(await client.ask(Code.GET_BROKER_CONFIG, {"AccessKey": OPERATOR}))

    await aeventually(is_let_in)
    assert is_denied(await client.ask(Code.GET_BROKER_CONFIG, {"AccessKey": SHOP}))


# Files that change ------------------------------------------------------------------------------------------


async def test_a_file_that_changed_counts_soon(client: WireClient, folder: Path, clock: ManualClock) -> None:
    write_accounts(folder, ACCOUNTS.replace("clicks=PUB", "secrets=PUB"))
    clock.advance(2_000)

    async def is_changed() -> bool:
        return not is_denied(await send(client, THE_SHOP, "secrets"))

    await aeventually(is_changed)
    assert is_denied(await send(client, THE_SHOP, "clicks"))


async def test_a_file_that_does_not_read_changes_nothing(
    client: WireClient, folder: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    write_accounts(folder, ACCOUNTS + "  topicPerms: {\n")
    clock.advance(2_000)

    await aeventually(lambda: "the accounts stay as they were" in caplog.text)
    assert not is_denied(await send(client, THE_SHOP, "orders"))
    assert SHOP_SECRET not in caplog.text


async def test_accounts_of_several_files_count(client: WireClient, folder: Path, clock: ManualClock) -> None:
    (folder / "acl").mkdir()
    (folder / "acl/more.yml").write_text(
        "accounts:\n- accessKey: another-shop\n  secretKey: another-secret\n  defaultTopicPerm: PUB\n"
    )
    clock.advance(2_000)

    async def is_known() -> bool:
        return not is_denied(await send(client, ("another-shop", "another-secret"), "orders"))

    await aeventually(is_known)


async def test_a_broker_without_accounts_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"plain_acl\.yml"):
        async with Cluster(data_dir=tmp_path, acl_enable=True, acl_folder=str(tmp_path / "nowhere")):
            pass


# Accounts by order: what mqadmin sends ----------------------------------------------------------------------


async def test_an_account_is_added_by_order_and_is_in_the_file(client: WireClient, folder: Path) -> None:
    fields = {
        "accessKey": "new-account",
        "secretKey": "new-secret",
        "admin": False,
        "topicPerms": "orders=PUB,news=SUB",
    }

    answer = await ask_as(client, THE_OPERATOR, Code.UPDATE_AND_CREATE_ACL_CONFIG, fields)

    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert not is_denied(await send(client, ("new-account", "new-secret"), "orders"))
    assert "new-account" in (folder / "plain_acl.yml").read_text()


async def test_an_account_is_changed_by_order_and_keeps_the_rest(client: WireClient) -> None:
    fields = {"accessKey": SHOP, "secretKey": "a-newer-secret", "admin": False}

    await ask_as(client, THE_OPERATOR, Code.UPDATE_AND_CREATE_ACL_CONFIG, fields)

    assert is_denied(await send(client, THE_SHOP, "orders"))
    assert not is_denied(await send(client, (SHOP, "a-newer-secret"), "orders"))


@pytest.mark.parametrize(
    "fields",
    [
        {"accessKey": "short", "secretKey": "long-enough", "admin": False},
        {"accessKey": "long-enough", "admin": False},
        {
            "accessKey": "long-enough",
            "secretKey": "long-enough",
            "topicPerms": "orders=WRITE",
            "admin": False,
        },
        {
            "accessKey": "long-enough",
            "secretKey": "long-enough",
            "whiteRemoteAddress": "1.2.3",
            "admin": False,
        },
    ],
)
async def test_an_order_that_makes_no_account_is_refused_and_changes_nothing(
    client: WireClient, folder: Path, fields: dict[str, object]
) -> None:
    answer = await ask_as(client, THE_OPERATOR, Code.UPDATE_AND_CREATE_ACL_CONFIG, fields)

    assert answer.code == ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
    assert (folder / "plain_acl.yml").read_text() == ACCOUNTS


async def test_an_account_is_removed_by_order(client: WireClient) -> None:
    answer = await ask_as(client, THE_OPERATOR, Code.DELETE_ACL_CONFIG, {"accessKey": SHOP})

    assert answer.code == ResponseCode.SUCCESS
    assert is_denied(await send(client, THE_SHOP, "orders"))


async def test_an_account_that_is_not_there_is_not_removed(client: WireClient) -> None:
    answer = await ask_as(client, THE_OPERATOR, Code.DELETE_ACL_CONFIG, {"accessKey": "who-is-that"})

    assert answer.code == ResponseCode.DELETE_ACL_CONFIG_FAILED


async def test_the_global_white_list_is_changed_by_order(client: WireClient, folder: Path) -> None:
    fields = {"globalWhiteAddrs": "10.0.0.1,127.0.0.1"}

    answer = await ask_as(client, THE_OPERATOR, Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, fields)

    assert answer.code == ResponseCode.SUCCESS
    assert await allowed(client, Code.GET_BROKER_CONFIG)


async def test_the_global_white_list_goes_to_no_file_that_holds_no_accounts(
    client: WireClient, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere.yml"
    fields = {"globalWhiteAddrs": "*", "aclFileFullPath": str(elsewhere)}

    answer = await ask_as(client, THE_OPERATOR, Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, fields)

    assert answer.code == ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
    assert not elsewhere.exists()


async def test_the_versions_of_the_files_are_told_and_rise(client: WireClient, folder: Path) -> None:
    await ask_as(client, THE_OPERATOR, Code.DELETE_ACL_CONFIG, {"accessKey": SHOP})

    answer = await ask_as(client, THE_OPERATOR, Code.GET_BROKER_CLUSTER_ACL_INFO)

    assert answer.ext is not None
    assert json.loads(answer.ext["version"])["counter"] == 1
    assert json.loads(answer.ext["allAclFileVersion"])[str(folder / "plain_acl.yml")]["counter"] == 1
    assert (answer.ext["brokerName"], answer.ext["clusterName"]) == ("broker-a", "DefaultCluster")


async def test_accounts_are_told_without_their_secrets(client: WireClient) -> None:
    answer = await ask_as(client, THE_OPERATOR, Code.GET_BROKER_CLUSTER_ACL_CONFIG)

    told = json.loads(answer.body)["plainAccessConfigs"]
    assert [one["accessKey"] for one in told] == [OPERATOR, SHOP, NOBODY]
    assert SHOP_SECRET.encode() not in answer.body


async def test_without_access_control_orders_about_accounts_say_so(tmp_path: Path) -> None:
    async with Cluster(data_dir=tmp_path) as cluster, WireClient(cluster.broker_addresses[0]) as client:
        answers = [
            await client.ask(code, {"accessKey": "a", "globalWhiteAddrs": "*"})
            for code in (50, 51, 52, 53, 54)
        ]

    assert [answer.code for answer in answers] == [209, 210, 1, 211, 1]
    assert all("aclEnable=true" in (answer.remark or "") for answer in answers)


async def test_a_signature_without_access_control_has_no_effect(tmp_path: Path) -> None:
    async with Cluster(data_dir=tmp_path) as cluster, WireClient(cluster.broker_addresses[0]) as client:
        answer = await send(client, ("whoever", "whatever"), "orders")

    assert answer.code == ResponseCode.SUCCESS
