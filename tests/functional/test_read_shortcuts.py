"""Pulls and offsets by the shortcuts: they hear what they would hear on the long way."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.broker.broker import Broker
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.load import build
from pyromq.config.settings import BrokerProcess
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import held_pull_fields, pull_fields, send_v2_fields
from pyromq.testing.wire_client import WireClient

PLACE = {"consumerGroup": "readers", "topic": "orders", "queueId": 0}
COMMIT, QUERY = RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.QUERY_CONSUMER_OFFSET


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    own = {
        "store_path_root_dir": str(tmp_path),
        "listen_port": 0,
        "broker_ip1": "127.0.0.1",
        "requests_under_way_max": 2,
    }
    broker = Broker(build(BrokerProcess, own), clock=ManualClock())
    await broker.start()
    yield broker
    await broker.close()


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[WireClient]:
    async with WireClient(broker.address) as client:
        for _ in range(2):
            # The first makes the topic, the second is learnt.
            await client.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders"), b"x")
            await client.ask(RequestCode.PULL_MESSAGE, pull_fields("orders"))
            await client.ask(COMMIT, PLACE | {"commitOffset": 1})
        yield client


async def asked(client: WireClient, code: int, **changes: object) -> tuple[int, object]:
    answer = await client.ask(code, PLACE | changes)
    return answer.code, answer.ext


async def test_a_connection_with_too_many_requests_under_way_is_refused_whatever_it_asks(
    client: WireClient,
) -> None:
    held = [
        client.begin(RequestCode.PULL_MESSAGE, held_pull_fields("orders", queueOffset=2)) for _ in range(2)
    ]
    heard = [
        await client.ask(RequestCode.PULL_MESSAGE, pull_fields("orders")),
        await client.ask(COMMIT, PLACE | {"commitOffset": 2}),
        await client.ask(QUERY, PLACE),
    ]
    assert [answer.code for answer in heard] == [ResponseCode.SYSTEM_BUSY] * 3
    assert not any(pull.done() for pull in held)


async def test_a_connection_whose_requests_were_answered_is_served_again(
    broker: Broker, client: WireClient
) -> None:
    held = [
        client.begin(RequestCode.PULL_MESSAGE, held_pull_fields("orders", queueOffset=2)) for _ in range(2)
    ]
    async with WireClient(broker.address) as producer:
        await producer.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders"), b"y")
    assert [(await pull).code for pull in held] == [ResponseCode.SUCCESS] * 2
    assert await asked(client, COMMIT, commitOffset=3) == (ResponseCode.SUCCESS, {})
    assert await asked(client, QUERY) == (ResponseCode.SUCCESS, {"offset": "3"})


async def test_a_burst_of_commits_pulls_and_queries_is_answered_in_its_order(client: WireClient) -> None:
    answers = []
    for offset in range(2, 6):
        answers.append(client.begin(COMMIT, PLACE | {"commitOffset": offset}))
        answers.append(client.begin(RequestCode.PULL_MESSAGE, pull_fields("orders")))
        answers.append(client.begin(QUERY, PLACE))
    heard = [await answer for answer in answers]
    assert [answer.opaque for answer in heard] == sorted(answer.opaque for answer in heard)
    offsets = [answer.ext["offset"] for answer in heard[2::3] if answer.ext is not None]
    assert offsets == ["2", "3", "4", "5"]


async def test_progress_of_a_topic_that_was_deleted_is_gone(client: WireClient) -> None:
    assert await asked(client, QUERY) == (ResponseCode.SUCCESS, {"offset": "1"})
    await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    assert await asked(client, QUERY, setZeroIfNotFound="false") == (
        ResponseCode.QUERY_NOT_FOUND,
        {},
    )
    assert await asked(client, COMMIT, commitOffset=7) == (ResponseCode.SUCCESS, {})
    assert await asked(client, QUERY) == (ResponseCode.SUCCESS, {"offset": "7"})


async def test_a_group_that_goes_back_is_where_it_said(client: WireClient) -> None:
    for offset in (5, 6, 2, 3):
        await client.ask(COMMIT, PLACE | {"commitOffset": offset})
        assert await asked(client, QUERY) == (ResponseCode.SUCCESS, {"offset": str(offset)})
