"""With access control on, no code of the broker can be used by whoever may not: every one is tried."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from access_stage import (
    NOBODY,
    NOBODY_SECRET,
    OPERATOR,
    OPERATOR_SECRET,
    ask_as,
    is_denied,
    signed,
    write_accounts,
)
from route_listing import broker_routes

from pyromq.broker.access.needs import Anybody, administrator
from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.cluster import Cluster
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, Heartbeat, encode_heartbeat
from pyromq.wire.bodies.lock_bodies import LockBatch, encode_lock_batch
from pyromq.wire.bodies.pop_bodies import (
    AssignmentQuestion,
    BatchAckPart,
    encode_assignment_question,
    encode_batch_ack,
)

#: RocketMQ 4.9.8: Permission.ADMIN_CODE.
APACHES_ADMIN_CODES = {17, 25, 200, 207, 215}
UNKNOWN_CODE = 9999
ADMIN_CODES = {route.code for route in broker_routes() if route.needs is administrator}
ANYBODY_CODES = {route.code for route in broker_routes() if isinstance(route.needs, Anybody)}
ACKED = BatchAckPart(
    group="billing",
    topic="%RETRY%billing_orders",
    mark="1",
    start_offset=0,
    queue_id=0,
    revive_queue_id=0,
    popped_at_ms=0,
    invisible_ms=0,
)
BODIES: dict[int, bytes] = {
    RequestCode.QUERY_ASSIGNMENT: encode_assignment_question(
        AssignmentQuestion(topic="orders", consumer_group="billing", client_id="c")
    ),
    RequestCode.BATCH_ACK_MESSAGE: encode_batch_ack("broker-a", [ACKED]),
    RequestCode.HEART_BEAT: encode_heartbeat(
        Heartbeat(client_id="c", consumers=[ConsumerPart(group_name="billing")])
    ),
    RequestCode.LOCK_BATCH_MQ: encode_lock_batch(
        LockBatch(consumer_group="billing", client_id="c", queues=[])
    ),
    RequestCode.UNLOCK_BATCH_MQ: encode_lock_batch(
        LockBatch(consumer_group="billing", client_id="c", queues=[])
    ),
}
#: Enough fields that each code has what it needs to know to be allowed or not.
FIELDS = {
    **dict.fromkeys(("topic", "b"), "orders"),
    **dict.fromkeys(("consumerGroup", "group", "a"), "billing"),
    **dict.fromkeys(("offset", "commitLogOffset"), "0"),
}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    folder = write_accounts(tmp_path / "conf")
    async with Cluster(data_dir=tmp_path / "data", acl_enable=True, acl_folder=str(folder)) as cluster:
        # A message that can be asked for by its position, which is 0.
        async with WireClient(cluster.broker_addresses[0]) as client:
            fields = {
                "a": "p",
                "b": "orders",
                "c": "TBW102",
                "d": "4",
                "e": "0",
                "f": "0",
                "g": "0",
                "h": "0",
            }
            sent = await ask_as(client, (OPERATOR, OPERATOR_SECRET), 310, fields, b"body")
            assert sent.code == ResponseCode.SUCCESS, sent.remark
        yield cluster


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[WireClient]:
    async with WireClient(cluster.broker_addresses[0]) as client:
        yield client


def codes_of(cluster: Cluster) -> list[int]:
    return sorted(cluster.brokers["broker-a"].codes)


async def test_every_code_is_refused_to_whoever_does_not_sign(cluster: Cluster, client: WireClient) -> None:
    passed = [
        code
        for code in [*codes_of(cluster), UNKNOWN_CODE]
        for fields in (None, {}, FIELDS)
        if not is_denied(await client.ask(code, fields, BODIES.get(code, b"")))
    ]

    assert passed == []


async def test_every_code_is_refused_to_an_account_that_is_not_known(
    cluster: Cluster, client: WireClient
) -> None:
    answers = {
        code: await ask_as(client, ("somebody", "somebodys"), code, FIELDS) for code in codes_of(cluster)
    }

    assert [code for code, answer in answers.items() if not is_denied(answer)] == []


async def test_every_code_is_refused_to_a_signature_of_another_secret(
    cluster: Cluster, client: WireClient
) -> None:
    answers = {code: await ask_as(client, (OPERATOR, "guessed"), code, FIELDS) for code in codes_of(cluster)}

    assert [code for code, answer in answers.items() if not is_denied(answer)] == []


async def test_every_code_is_refused_when_it_was_changed_on_its_way(
    cluster: Cluster, client: WireClient
) -> None:
    passed = []
    for code in codes_of(cluster):
        fields = signed(code, FIELDS, b"body", OPERATOR, OPERATOR_SECRET)
        for changed, body in (({**fields, "more": "1"}, b"body"), (fields, b"another body")):
            if not is_denied(await client.ask(code, changed, body)):
                passed.append(code)

    assert passed == []


async def test_every_order_to_the_broker_is_refused_to_an_account_that_is_no_administrator(
    cluster: Cluster, client: WireClient
) -> None:
    answers = {
        code: await ask_as(client, (NOBODY, NOBODY_SECRET), code, FIELDS)
        for code in codes_of(cluster)
        if code in ADMIN_CODES
    }

    assert len(answers) >= 20
    assert [
        code for code, answer in answers.items() if "Need admin permission" not in (answer.remark or "")
    ] == []


async def test_every_code_that_names_a_topic_or_a_group_is_refused_without_its_permission(
    cluster: Cluster, client: WireClient
) -> None:
    codes = [code for code in codes_of(cluster) if code not in ADMIN_CODES | ANYBODY_CODES]
    passed = []
    for code in codes:
        body = BODIES.get(code, b"")
        answer = await ask_as(client, (NOBODY, NOBODY_SECRET), code, FIELDS, body)
        if not (is_denied(answer) and "No default permission" in (answer.remark or "")):
            passed.append((code, answer.remark))

    assert passed == []


async def test_an_administrator_is_refused_nothing(cluster: Cluster, client: WireClient) -> None:
    # What has an effect is tried with fields that its handler refuses.
    refused = [
        code
        for code in codes_of(cluster)
        if is_denied(await ask_as(client, (OPERATOR, OPERATOR_SECRET), code, {}, BODIES.get(code, b"")))
    ]

    assert refused == []


async def test_a_code_that_nobody_knows_is_told_apart_to_those_who_sign(client: WireClient) -> None:
    answer = await ask_as(client, (NOBODY, NOBODY_SECRET), UNKNOWN_CODE)

    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_orders_that_apache_keeps_for_administrators_are_so_here() -> None:
    assert APACHES_ADMIN_CODES <= ADMIN_CODES


async def test_oneway_requests_are_looked_at_too(cluster: Cluster, client: WireClient) -> None:
    operator = (OPERATOR, OPERATOR_SECRET)
    offset = {"consumerGroup": "billing", "topic": "orders", "queueId": "0", "commitOffset": "1"}
    client.tell(RequestCode.UPDATE_CONSUMER_OFFSET, offset)

    answer = await ask_as(
        client,
        operator,
        RequestCode.QUERY_CONSUMER_OFFSET,
        {"consumerGroup": "billing", "topic": "orders", "queueId": "0"},
    )

    assert (answer.ext or {}).get("offset") in (None, "0")
