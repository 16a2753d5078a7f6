"""What operators may ask and change at a slave."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from slave_stage import Pair, running_pair

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.waiting import aeventually
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig, encode_group
from pyromq.wire.bodies.operation_bodies import encode_group_configs, encode_topic_configs
from pyromq.wire.java_json import loads

GROUP = SubscriptionGroupConfig(group_name="readers")
CHANGES = {
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: ({}, encode_topic_configs([])),
    RequestCode.DELETE_TOPIC_IN_BROKER: ({"topic": "orders"}, b""),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: ({}, encode_group(GROUP)),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: ({}, encode_group_configs([GROUP])),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: ({"groupName": "readers"}, b""),
    RequestCode.CLONE_GROUP_OFFSET: ({"srcGroup": "a", "destGroup": "b"}, b""),
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: ({"group": "a", "topic": "b", "readable": "false"}, b""),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: ({"msgId": "7F00000100002A9F0000000000000000"}, b""),
}
QUESTIONS = {
    RequestCode.GET_BROKER_RUNTIME_INFO: {},
    RequestCode.GET_BROKER_CONFIG: {},
    RequestCode.GET_BROKER_CONSUME_STATS: {"isOrder": "false"},
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: {"topic": "orders"},
    RequestCode.GET_ALL_PRODUCER_INFO: {},
}


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with running_pair(tmp_path) as pair:
        yield pair


async def test_a_slave_refuses_each_change_and_answers_each_question(pair: Pair) -> None:
    """One pair for all of them: it takes seconds to start."""
    await pair.master.connect().send("orders")
    await pair.caught_up()
    slave = pair.slave.connect()

    said = {code: (await slave.request(code, ext, body=body)).code for code, (ext, body) in CHANGES.items()}
    told = {code: (await slave.request(code, ext)).code for code, ext in QUESTIONS.items()}

    refusals = {ResponseCode.SYSTEM_ERROR, ResponseCode.SERVICE_NOT_AVAILABLE}
    assert {code for code, answer in said.items() if answer not in refusals} == set()
    assert {code for code, answer in told.items() if answer != ResponseCode.SUCCESS} == set()


async def test_what_a_master_forbids_its_slave_forbids(pair: Pair) -> None:
    fields = {"group": "readers", "topic": "orders", "readable": "false"}
    await pair.master.connect().send("orders")
    await pair.master.connect().request(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, fields)

    async def is_forbidden() -> bool:
        await pair.copier.copy()
        answer = await pair.slave.connect().request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return loads(answer.body).get("forbiddenTable") == {"readers": {"orders": 4}}

    await aeventually(is_forbidden)
