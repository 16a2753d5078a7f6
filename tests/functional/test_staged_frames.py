"""Staged sends in bare frames: requests in the wrong order, of nonsense, and beside those of others."""

import json
from typing import Any

import pytest
from staged_batches import units

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.cluster import Cluster
from pyromq.testing.wire_client import WireClient
from pyromq.wire.command import Command

BROKER = "broker-a"
BATCH = {"query": "q", "batch": 0, "home": BROKER}
CHUNK = BATCH | {
    "part": 0,
    "attempt": "x",
    "sequence": 0,
    "topic": "orders",
    "queueId": 0,
    "bornTimestamp": 1,
}


def parts(*chunks: int, attempt: str = "x", broker: str = BROKER) -> bytes:
    listed = [
        {"part": number, "attempt": attempt, "chunks": {broker: count}} for number, count in enumerate(chunks)
    ]
    return json.dumps({"parts": listed}).encode()


async def make_topic(client: WireClient) -> None:
    fields = {
        "topic": "orders", "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
    }  # fmt: skip
    await good(client, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


async def good(client: WireClient, code: int, fields: dict[str, Any], body: bytes = b"") -> dict[str, str]:
    answer = await client.ask(code, fields, body)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer.ext or {}


async def refused(client: WireClient, code: int, fields: dict[str, Any], body: bytes = b"") -> Command:
    answer = await client.ask(code, fields, body)
    assert answer.code != ResponseCode.SUCCESS
    assert answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    return answer


async def end_of(client: WireClient) -> int:
    ext = await good(client, RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": 0})
    return int(ext["offset"])


async def test_a_chunk_before_its_batch_is_open_is_refused(client: WireClient) -> None:
    await make_topic(client)
    answer = await refused(client, RequestCode.STAGE_MESSAGES, CHUNK, units(["a"]))

    assert answer.code == ResponseCode.ILLEGAL_OPERATION
    assert "open it first" in (answer.remark or "")


async def test_a_publish_before_its_batch_is_open_is_refused(client: WireClient) -> None:
    answer = await refused(client, RequestCode.PUBLISH_STAGED, BATCH, parts(1))

    assert answer.code == ResponseCode.ILLEGAL_OPERATION


async def test_a_batch_is_not_complete_before_it_is_out(client: WireClient) -> None:
    await good(client, RequestCode.OPEN_STAGED_BATCH, BATCH)

    answer = await refused(client, RequestCode.PUBLISH_STAGED, BATCH | {"step": "complete"})

    assert answer.code == ResponseCode.ILLEGAL_OPERATION


async def test_chunks_come_in_their_order_and_a_repeated_one_counts_once(client: WireClient) -> None:
    await make_topic(client)
    await good(client, RequestCode.OPEN_STAGED_BATCH, BATCH)
    ahead = await refused(client, RequestCode.STAGE_MESSAGES, CHUNK | {"sequence": 1}, units(["b"]))
    for sequence in (0, 0, 1, 0, 1):
        await good(client, RequestCode.STAGE_MESSAGES, CHUNK | {"sequence": sequence}, units([f"{sequence}"]))

    await good(client, RequestCode.PUBLISH_STAGED, BATCH, parts(2))

    assert "in their order" in (ahead.remark or "")
    assert await end_of(client) == 2


async def test_nothing_is_staged_for_a_published_batch(client: WireClient) -> None:
    await make_topic(client)
    await good(client, RequestCode.OPEN_STAGED_BATCH, BATCH)
    await good(client, RequestCode.PUBLISH_STAGED, BATCH, parts())

    answer = await refused(client, RequestCode.STAGE_MESSAGES, CHUNK, units(["late"]))

    assert "is published" in (answer.remark or "")
    assert (await good(client, RequestCode.OPEN_STAGED_BATCH, BATCH))["state"] == "published"


async def test_a_batch_waits_for_the_one_before_it_to_be_published_everywhere(client: WireClient) -> None:
    await good(client, RequestCode.OPEN_STAGED_BATCH, BATCH)
    decided = await good(client, RequestCode.PUBLISH_STAGED, BATCH, parts(1, broker="broker-b"))
    assert (decided["state"], decided["isOut"]) == ("decided", "true")

    await refused(client, RequestCode.OPEN_STAGED_BATCH, BATCH | {"batch": 1})
    await good(client, RequestCode.PUBLISH_STAGED, BATCH | {"step": "complete"})

    assert (await good(client, RequestCode.OPEN_STAGED_BATCH, BATCH | {"batch": 1}))["state"] == "open"


async def test_a_broker_that_is_not_the_home_needs_no_open(client: WireClient) -> None:
    await make_topic(client)
    elsewhere = {"home": "broker-z"}
    await good(client, RequestCode.STAGE_MESSAGES, CHUNK | elsewhere, units(["a", "b"]))

    missing = await refused(
        client, RequestCode.PUBLISH_STAGED, BATCH | elsewhere | {"step": "prepare"}, parts(2)
    )
    await good(client, RequestCode.PUBLISH_STAGED, BATCH | elsewhere | {"step": "prepare"}, parts(1))
    published = await good(client, RequestCode.PUBLISH_STAGED, BATCH | elsewhere, parts(1))

    assert "does not have 2 chunks" in (missing.remark or "")
    assert published["state"] == "published"
    assert (await good(client, RequestCode.STAGED_STATUS, {"query": "q"}))["home"] == "broker-z"


async def test_a_query_has_one_home(client: WireClient) -> None:
    await good(client, RequestCode.OPEN_STAGED_BATCH, BATCH | {"home": "broker-z"})

    for code in (RequestCode.OPEN_STAGED_BATCH, RequestCode.PUBLISH_STAGED, RequestCode.ABORT_STAGED):
        answer = await refused(client, code, BATCH)
        assert "the home of query q is broker-z" in (answer.remark or "")


async def test_the_first_layout_holds(client: WireClient) -> None:
    def layout(count: int) -> bytes:
        return json.dumps({"layout": {"orders": {BROKER: count}}}).encode()

    first = await client.ask(RequestCode.OPEN_STAGED_BATCH, BATCH, layout(2))
    second = await client.ask(RequestCode.OPEN_STAGED_BATCH, BATCH, layout(9))

    assert json.loads(first.body)["layout"] == json.loads(second.body)["layout"] == {"orders": {BROKER: 2}}
    assert ((first.ext or {})["isFirst"], (second.ext or {})["isFirst"]) == ("true", "false")


CODES = [
    RequestCode.OPEN_STAGED_BATCH,
    RequestCode.STAGE_MESSAGES,
    RequestCode.PUBLISH_STAGED,
    RequestCode.ABORT_STAGED,
    RequestCode.STAGED_STATUS,
]


NONSENSE: list[dict[str, Any]] = [
    {"query": ""},
    {"query": "a\x01b"},
    {"query": "x" * 256},
    {"batch": "many"},
    {"batch": -1},
    {"batch": 1 << 70},
]


@pytest.mark.parametrize("code", CODES)
async def test_fields_of_nonsense_are_refused(client: WireClient, code: int) -> None:
    await refused(client, code, {}, units(["a"]))
    for fields in NONSENSE:
        await refused(client, code, CHUNK | fields, units(["a"]))


CHUNKS_OF_NONSENSE: list[dict[str, Any]] = [
    {"part": -1},
    {"sequence": -1},
    {"queueId": -1},
    {"queueId": 2},
    {"sysFlag": 8},
    {"attempt": ""},
    {"home": ""},
    {"topic": "rmq_sys_staged"},
    {"topic": "SCHEDULE_TOPIC_XXXX"},
    {"topic": "../../etc"},
]


async def test_a_chunk_with_fields_of_nonsense_is_refused(client: WireClient) -> None:
    await make_topic(client)
    await good(client, RequestCode.OPEN_STAGED_BATCH, BATCH)

    for fields in CHUNKS_OF_NONSENSE:
        await refused(client, RequestCode.STAGE_MESSAGES, CHUNK | fields, units(["a"]))

    await good(client, RequestCode.STAGE_MESSAGES, CHUNK, units(["a"]))


PARTS_OF_NONSENSE = [
    b"nonsense",
    b"[]",
    b'{"parts": 7}',
    b'{"parts": [{"part": 0}]}',
    b'{"parts": [{"part": -1, "attempt": "x", "chunks": {}}]}',
    b'{"parts": [{"part": 0, "attempt": "", "chunks": {}}]}',
    b'{"parts": [{"part": 0, "attempt": "x", "chunks": {"broker-a": -1}}]}',
    b'{"parts": [{"part": 0, "attempt": "x", "chunks": {}}, {"part": 0, "attempt": "y", "chunks": {}}]}',
]


@pytest.mark.parametrize("code", [RequestCode.PUBLISH_STAGED, RequestCode.ABORT_STAGED])
async def test_parts_of_nonsense_are_refused_and_nothing_is_decided(client: WireClient, code: int) -> None:
    await good(client, RequestCode.OPEN_STAGED_BATCH, BATCH)

    for body in PARTS_OF_NONSENSE:
        await refused(client, code, BATCH, body)

    assert (await good(client, RequestCode.STAGED_STATUS, BATCH))["state"] == "open"


async def test_a_step_that_does_not_exist_is_refused(client: WireClient) -> None:
    await good(client, RequestCode.OPEN_STAGED_BATCH, BATCH)

    await refused(client, RequestCode.PUBLISH_STAGED, BATCH | {"step": "hurry"})


async def test_others_are_answered_while_a_batch_is_published(cluster: Cluster, client: WireClient) -> None:
    await make_topic(client)
    await good(client, RequestCode.OPEN_STAGED_BATCH, BATCH)
    chunks = 200
    for sequence in range(chunks):
        await good(client, RequestCode.STAGE_MESSAGES, CHUNK | {"sequence": sequence}, units(["a"] * 20))
    async with WireClient(cluster.broker_addresses[0]) as other:
        publishing = client.begin(RequestCode.PUBLISH_STAGED, BATCH, parts(chunks))
        seen = []
        while not publishing.done():
            seen.append(await end_of(other))

        assert (await publishing).code == ResponseCode.SUCCESS
        assert any(0 < end < 20 * chunks for end in seen)
        assert await end_of(other) == 20 * chunks


async def test_a_publish_goes_on_when_nobody_waits_for_it(client: WireClient) -> None:
    await make_topic(client)
    await good(client, RequestCode.OPEN_STAGED_BATCH, BATCH)
    for sequence in range(50):
        await good(client, RequestCode.STAGE_MESSAGES, CHUNK | {"sequence": sequence}, units(["a"] * 20))

    first = await good(client, RequestCode.PUBLISH_STAGED, BATCH | {"waitMs": 0}, parts(50))
    last = await good(client, RequestCode.PUBLISH_STAGED, BATCH, parts(50))

    assert first["state"] in ("decided", "published")
    assert last["state"] == "published"
    assert await end_of(client) == 1000
