"""A group of replicas with access control: slaves sign what they ask, and not everybody may copy the log."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from access_stage import ACCOUNTS, OPERATOR, OPERATOR_SECRET, ask_as, write_accounts
from slave_stage import Pair

from pyromq.broker.replication.client import ReplicationClient
from pyromq.broker.replication.following import Following
from pyromq.clock import SystemClock
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.config.settings import NetSettings
from pyromq.namesrv.namesrv import NameServer
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient

KEYS = json.dumps({"accessKey": OPERATOR, "secretKey": OPERATOR_SECRET})
TOPIC = {
    **dict.fromkeys(("readQueueNums", "writeQueueNums"), "4"),
    "topic": "orders",
    "defaultTopic": "TBW102",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0",
    "order": "false",
}
SEND = {"a": "producers", "b": "orders", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 0, "h": 0}


@asynccontextmanager
async def started(folder: Path, *, with_slave: bool = True, **settings: object) -> AsyncIterator[Pair]:
    conf = write_accounts(folder / "conf", ACCOUNTS)
    name_server = NameServer(
        NamesrvSettings(listen_port=0, kv_config_path=str(folder / "kv.json")),
        NetSettings(),
        clock=SystemClock(),
    )
    await name_server.start()
    pair = Pair(folder, name_server, acl_enable=True, acl_folder=str(conf), **settings)
    try:
        await pair.start(pair.master)
        if with_slave:
            await pair.start(pair.slave)
        yield pair
    finally:
        await pair.close()
        await name_server.close()


async def make_topic(pair: Pair) -> None:
    async with WireClient(pair.master.address) as client:
        answer = await ask_as(client, (OPERATOR, OPERATOR_SECRET), 17, TOPIC)
        assert answer.code == 0, answer.remark


async def send_secret(pair: Pair) -> None:
    async with WireClient(pair.master.address) as client:
        sent = await ask_as(client, (OPERATOR, OPERATOR_SECRET), 310, SEND, b"a secret")
        assert sent.code == 0, sent.remark


def following(pair: Pair) -> ReplicationClient:
    replicating = pair.slave.broker.replicating
    assert isinstance(replicating, Following)
    assert replicating.client is not None
    return replicating.client


def follows(pair: Pair) -> bool:
    return following(pair).is_connected


async def test_a_slave_with_an_account_copies_the_tables_and_the_log_of_its_master(tmp_path: Path) -> None:
    settings = {"inner_client_authentication_credentials": KEYS, "ha_allowed_addresses": "127.0.0.1"}
    async with started(tmp_path, **settings) as pair:
        await make_topic(pair)
        await send_secret(pair)
        await pair.caught_up()

        async with WireClient(pair.slave.address) as client:
            topics = await ask_as(client, (OPERATOR, OPERATOR_SECRET), 21)
        assert b'"orders"' in topics.body
        assert pair.slave.broker.max_position == pair.master.broker.max_position > 0


async def test_a_slave_without_an_account_copies_no_tables(tmp_path: Path) -> None:
    async with started(tmp_path, ha_allowed_addresses="127.0.0.1") as pair:
        await make_topic(pair)
        await aeventually(lambda: follows(pair), what="the slave follows")
        # The first may be the end of one that began before there was the topic.
        for _ in range(2):
            await pair.copier.copy()

        async with WireClient(pair.slave.address) as client:
            topics = await ask_as(client, (OPERATOR, OPERATOR_SECRET), 21)
        assert b'"orders"' not in topics.body


async def test_a_slave_on_no_list_is_not_sent_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"inner_client_authentication_credentials": KEYS}
    async with started(tmp_path, with_slave=False, **settings) as pair:
        await make_topic(pair)
        await send_secret(pair)
        await pair.start(pair.slave)

        await aeventually(lambda: following(pair).trouble is not None, what="the slave is sent away")

        assert "has closed the connection" in str(following(pair).trouble)
        assert "haAllowedAddresses" in caplog.text
        assert pair.master.broker.max_position > 0
        assert pair.slave.broker.max_position == 0
