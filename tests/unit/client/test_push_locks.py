"""Locks of queues read in order, asked for and given back on a stage whose broker locks everything."""

import asyncio
from typing import Any

import pytest
from client_stage import Stage, answer, two_brokers

from pyromq.client.consumer.group_member import ConsumeOrder, GroupMember, MemberTerms
from pyromq.client.consumer.rebalancer import Rebalancer
from pyromq.client.consumer.topic_subscription import subscription
from pyromq.client.drivers import Asyncio
from pyromq.client.plans.progress_plans import GroupStart
from pyromq.client.plans.route_plans import subscribe_route
from pyromq.client.push.calling import Listening, TaskCaller, calls
from pyromq.client.push.orderly import OrderlyConsumption
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.client.steps import Deadline, Plan
from pyromq.codes import RequestCode, ResponseCode
from pyromq.model import ConsumeFrom, MessageQueue
from pyromq.wire.bodies.lock_bodies import decode_lock_batch, encode_consumer_ids, encode_locked_queues
from pyromq.wire.command import Command

QUEUE = MessageQueue("orders", "a", 0)


class OnStage(Asyncio):
    """Carries plans out on a stage, each in one go."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def run(self, plan: Plan[Any]) -> Any:
        await asyncio.sleep(0)
        return self._stage.run(plan)


@pytest.fixture
def stage() -> Stage:
    return two_brokers()


@pytest.fixture
def member(stage: Stage) -> GroupMember[ProcessQueue]:
    session = stage.session()
    stage.run(subscribe_route(session, "orders", Deadline(stage.clock, 3_000)))
    driver = OnStage(stage)
    terms = MemberTerms(order=ConsumeOrder.ORDERLY, start=GroupStart(ConsumeFrom.FIRST_OFFSET))
    wanted = {"orders": subscription("orders", version=1)}
    member: GroupMember[ProcessQueue] = GroupMember(session, driver, terms, wanted)
    member.is_resumed.set()

    def broker(command: Command) -> Command:
        if command.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            return answer(body=encode_consumer_ids([session.identity.client_id]))
        if command.code == RequestCode.LOCK_BATCH_MQ:
            return answer(body=encode_locked_queues(decode_lock_batch(command.body).queues))
        return answer()

    stage.brokers = {"a:1": broker, "b:1": broker}
    return member


@pytest.fixture
def rebalancer(stage: Stage, member: GroupMember[ProcessQueue]) -> Rebalancer[ProcessQueue]:
    caller = TaskCaller(Listening("group", calls(lambda _message: None, None)), 20, stage.clock)
    return Rebalancer(member, OrderlyConsumption(member, caller))


def queues_of(stage: Stage, code: RequestCode) -> set[MessageQueue]:
    return {
        queue
        for call in stage.calls
        if call.command.code == code
        for queue in decode_lock_batch(call.command.body).queues
    }


@pytest.mark.row("OR-03")
async def test_a_lock_whose_answer_nobody_waited_for_is_given_back_at_the_end(
    stage: Stage, member: GroupMember[ProcessQueue], rebalancer: Rebalancer[ProcessQueue]
) -> None:
    is_locked = asyncio.Event()
    locks = stage.brokers["a:1"]

    def broker(command: Command) -> Command:
        if command.code == RequestCode.LOCK_BATCH_MQ:
            is_locked.set()
        return locks(command)

    stage.brokers["a:1"] = broker
    rebalancing = asyncio.create_task(rebalancer.rebalance())
    await is_locked.wait()
    rebalancing.cancel()
    await asyncio.wait([rebalancing])
    assert member.queues == {}

    await rebalancer.close()

    locked = queues_of(stage, RequestCode.LOCK_BATCH_MQ)
    assert queues_of(stage, RequestCode.UNLOCK_BATCH_MQ) >= locked > set()


@pytest.mark.row("OR-03")
async def test_a_queue_that_is_let_go_is_locked_until_its_listener_is_done(
    stage: Stage, member: GroupMember[ProcessQueue], rebalancer: Rebalancer[ProcessQueue]
) -> None:
    state = member.queues[QUEUE] = ProcessQueue(QUEUE, member.now_ms())
    state.is_dropped = state.is_leaving = True

    await rebalancer.renew_locks()

    assert queues_of(stage, RequestCode.LOCK_BATCH_MQ) == {QUEUE}


@pytest.mark.row("OR-03")
async def test_a_queue_whose_progress_is_unknown_is_not_kept_locked(
    stage: Stage, member: GroupMember[ProcessQueue], rebalancer: Rebalancer[ProcessQueue]
) -> None:
    """It is asked for again later, when it may be another member's."""
    locks = stage.brokers["a:1"]

    def broker(command: Command) -> Command:
        if command.code == RequestCode.QUERY_CONSUMER_OFFSET:
            return answer(ResponseCode.SYSTEM_ERROR)
        return locks(command)

    stage.brokers = {"a:1": broker, "b:1": broker}

    await rebalancer.rebalance()

    locked = queues_of(stage, RequestCode.LOCK_BATCH_MQ)
    assert queues_of(stage, RequestCode.UNLOCK_BATCH_MQ) == locked > set()
    assert not locked & member.queues.keys()
