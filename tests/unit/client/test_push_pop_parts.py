"""Parts of a push consumer that pops, on a stage: brokers are played by hand, listeners are real."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from client_stage import Stage, answer, refuses, route_of, two_brokers

from pyromq.client.consumer.group_member import ConsumeOrder, GroupMember, MemberTerms
from pyromq.client.consumer.topic_subscription import subscription
from pyromq.client.drivers import Asyncio
from pyromq.client.plans.route_plans import subscribe_route
from pyromq.client.pop.pop_concurrent import PopConcurrent, delay_ms
from pyromq.client.pop.pop_consumption import GIVE_BACK_MS, PopConsumption
from pyromq.client.pop.pop_orderly import PopOrderly
from pyromq.client.pop.pop_rebalancer import popped_queues
from pyromq.client.push.calling import Listening, TaskCaller, calls
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.client.steps import Deadline, Plan
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import ClientSettings
from pyromq.model import MessageQueue, ReceivedMessage
from pyromq.testing.waiting import aeventually
from pyromq.wire import properties
from pyromq.wire.bodies.heartbeat_bodies import ConsumeType
from pyromq.wire.bodies.pop_bodies import QueueAssignment, decode_batch_ack
from pyromq.wire.command import Command
from pyromq.wire.header import read_header
from pyromq.wire.headers.pop_headers import (
    ChangeMessageInvisibleTime,
    ChangeMessageInvisibleTimeAnswer,
    PopMessage,
    PopMessageAnswer,
)
from pyromq.wire.headers.transaction_headers import ConsumerSendMessageBack
from pyromq.wire.record import Record, encode_host, encode_record

QUEUE = MessageQueue("orders", "a", -1)
NOTHING = answer(ResponseCode.POLLING_TIMEOUT)


class OnTheStage(Asyncio):
    """Carries plans out on a stage, each in one go."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def run(self, plan: Plan[Any]) -> Any:
        await asyncio.sleep(0)
        return self._stage.run(plan)


def record(offset: int, *, times: int = 0, body: bytes = b"") -> bytes:
    return encode_record(
        Record(
            topic="orders",
            body=body or b"m%d" % offset,
            queue_id=1,
            queue_offset=offset,
            position=1_000 + offset,
            properties=properties.encode({"UNIQ_KEY": f"U{offset}"}),
            reconsume_times=times,
            born_host=encode_host("10.0.0.1", 5),
            store_host=encode_host("10.0.0.2", 10911),
        )
    )


def batch_of(*records: bytes, offsets: str = "0,1,2") -> Command:
    header = PopMessageAnswer(
        pop_time=1_700_000_000_000,
        invisible_time=60_000,
        revive_qid=3,
        rest_num=0,
        start_offset_info="0 1 0",
        msg_offset_info=f"0 1 {offsets}",
    )
    return answer(header=header, body=b"".join(records))


THREE = batch_of(*(record(offset) for offset in range(3)))


@pytest.fixture
def stage() -> Stage:
    stage = two_brokers()
    stage.routes["orders"] = route_of("a")
    pops = iter([THREE])

    def broker(command: Command) -> Command:
        if command.code == RequestCode.POP_MESSAGE:
            return next(pops, NOTHING)
        if command.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME:
            return answer(
                header=ChangeMessageInvisibleTimeAnswer(
                    pop_time=1_700_000_040_000, invisible_time=60_000, revive_qid=4
                )
            )
        return answer()

    stage.brokers["a:1"] = broker
    return stage


class Popping:
    """A consumption with a listener, and what its broker was told."""

    def __init__(
        self,
        stage: Stage,
        listener: Callable[..., object],
        kind: Callable[..., PopConsumption] = PopConcurrent,
        **more: Any,
    ) -> None:
        self.stage = stage
        session = stage.session(ClientSettings(**more))
        stage.run(subscribe_route(session, "orders", Deadline(stage.clock, 3_000)))
        order = ConsumeOrder.ORDERLY if kind is PopOrderly else ConsumeOrder.CONCURRENT
        terms = MemberTerms(order=order, consume_type=ConsumeType.CONSUME_POP, auto_commit=False)
        wanted = {"orders": subscription("orders", version=1)}
        self.member: GroupMember[ProcessQueue] = GroupMember(session, OnTheStage(stage), terms, wanted)
        caller = TaskCaller(Listening("group", calls(listener, None)), 20, stage.clock)
        self.consumption = kind(self.member, caller)
        self.state = self.consumption.new_queue(QUEUE, 0)

    async def pop(self) -> None:
        result = await self.member.driver.run(self.consumption.pull(self.state))
        self.consumption.pulled(self.state, result)

    @property
    def done(self) -> list[int]:
        """The bits of all acknowledgements."""
        return [
            part.bits
            for call in self.stage.calls
            if call.command.code == RequestCode.BATCH_ACK_MESSAGE
            for part in decode_batch_ack(call.command.body).acks
        ]

    @property
    def changes(self) -> list[tuple[int, int]]:
        """The offsets whose time was changed, and to what."""
        headers = [
            read_header(ChangeMessageInvisibleTime, call.command.ext)
            for call in self.stage.calls
            if call.command.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME
        ]
        return [(header.offset, header.invisible_time) for header in headers]


# Done ----------------------------------------------------------------------------------------------------


async def test_what_ends_in_one_turn_is_acknowledged_in_one_request(stage: Stage) -> None:
    popping = Popping(stage, lambda _message: True)
    await popping.pop()
    await aeventually(lambda: popping.done)
    assert popping.done == [0b111]
    assert (popping.state.count, popping.state.bytes) == (0, 0)


async def test_a_broker_that_is_away_is_told_when_it_is_back(stage: Stage) -> None:
    popping = Popping(stage, lambda _message: True)
    await popping.pop()
    stage.down.add("a:1")
    await aeventually(lambda: stage.asked(RequestCode.BATCH_ACK_MESSAGE))
    stage.down.clear()
    await aeventually(lambda: len(popping.done) > 1)
    assert set(popping.done) == {0b111}


async def test_a_broker_that_stays_away_is_told_nothing_when_others_have_the_messages(stage: Stage) -> None:
    popping = Popping(stage, lambda _message: True)
    await popping.pop()
    stage.down.add("a:1")
    await aeventually(lambda: stage.asked(RequestCode.BATCH_ACK_MESSAGE))
    stage.clock.advance(60_000)
    await popping.consumption.close()
    count = len(popping.done)
    stage.down.clear()
    await popping.consumption.settle(0.1)
    assert len(popping.done) == count


# Failed --------------------------------------------------------------------------------------------------


async def test_what_failed_comes_again_later_each_time(stage: Stage) -> None:
    pops = iter([batch_of(record(0), record(1, times=1), record(2, times=15))])
    usual = stage.brokers["a:1"]
    stage.brokers["a:1"] = lambda command: (
        next(pops) if command.code == RequestCode.POP_MESSAGE else usual(command)
    )
    popping = Popping(stage, lambda _message: False)
    await popping.pop()
    await aeventually(lambda: len(popping.changes) == 3)
    assert popping.changes == [(0, 10_000), (1, 30_000), (2, 7_200_000)]
    assert popping.done == []


@pytest.mark.parametrize(("level", "times", "ms"), [(1, 9, 1_000), (18, 0, 7_200_000), (0, 99, 7_200_000)])
def test_a_listener_chooses_a_delay_level(level: int, times: int, ms: int) -> None:
    assert delay_ms(level, times) == ms


async def test_what_failed_too_often_is_a_dead_letter_and_then_acknowledged(stage: Stage) -> None:
    popping = Popping(stage, lambda message: message.queue_offset != 1, max_reconsume_times=0)
    await popping.pop()
    await aeventually(lambda: sum(popping.done) == 0b111)
    (call,) = [one for one in stage.calls if one.command.code == RequestCode.CONSUMER_SEND_MSG_BACK]
    header = read_header(ConsumerSendMessageBack, call.command.ext)
    assert (header.offset, header.delay_level, header.origin_topic) == (1_001, -1, "orders")
    codes = [one.command.code for one in stage.calls]
    last_ack = len(codes) - 1 - codes[::-1].index(RequestCode.BATCH_ACK_MESSAGE)
    assert codes.index(RequestCode.CONSUMER_SEND_MSG_BACK) < last_ack


async def test_a_dead_letter_that_no_broker_takes_is_tried_again(stage: Stage) -> None:
    usual = stage.brokers["a:1"]
    stage.brokers["a:1"] = lambda command: (
        refuses(ResponseCode.SYSTEM_ERROR)(command)
        if command.code in (RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_MESSAGE_V2)
        else usual(command)
    )
    stage.brokers["b:1"] = refuses(ResponseCode.SYSTEM_ERROR)
    popping = Popping(stage, lambda _message: False, max_reconsume_times=0)
    await popping.pop()
    await aeventually(lambda: len(popping.changes) == 3)
    assert {ms for _, ms in popping.changes} == {5_000}
    assert popping.done == []


# Slow ----------------------------------------------------------------------------------------------------


async def test_what_takes_long_is_renewed_and_acknowledged_by_its_new_handle(stage: Stage) -> None:
    may_end = asyncio.Event()

    async def slow(message: ReceivedMessage) -> None:
        if message.queue_offset:
            await may_end.wait()

    popping = Popping(stage, slow)
    await popping.pop()
    await aeventually(lambda: popping.done == [0b1])
    await popping.consumption.renew()
    stage.clock.advance(45_000)
    await popping.consumption.renew()
    await aeventually(lambda: len(popping.changes) == 2)
    assert popping.changes == [(1, 60_000), (2, 60_000)]
    stage.clock.advance(30_000)
    may_end.set()
    await aeventually(lambda: len(popping.done) == 3)
    told = decode_batch_ack(stage.calls[-1].command.body)
    assert [
        (part.start_offset, part.popped_at_ms, part.revive_queue_id, part.bits) for part in told.acks
    ] == [
        (1, 1_700_000_040_000, 4, 1),
        (2, 1_700_000_040_000, 4, 1),
    ]


async def test_what_takes_far_too_long_is_left_to_others(stage: Stage) -> None:
    popping = Popping(stage, lambda _message: asyncio.Event().wait(), consume_timeout=1)
    await popping.pop()
    for _ in range(3):
        stage.clock.advance(45_000)
        await popping.consumption.renew()
        await aeventually(lambda: len(popping.consumption._acknowledgements._tasks) == 0)
    assert popping.changes == [(offset, 60_000) for offset in range(3)]
    await popping.consumption._caller.close(0.0)


async def test_what_waits_for_a_listener_when_its_time_is_over_is_never_heard(stage: Stage) -> None:
    heard: list[int] = []
    may_end = asyncio.Event()

    async def slow(message: ReceivedMessage) -> None:
        heard.append(message.queue_offset)
        await may_end.wait()

    popping = Popping(stage, slow)
    popping.consumption._caller.resize(1)
    await popping.pop()
    await aeventually(lambda: heard)
    stage.clock.advance(60_000)
    may_end.set()
    await aeventually(lambda: not popping.state.count)
    assert heard == [0]


# Limits and the end --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limits", "why"), [({"pop_threshold_for_queue": 3}, "3 messages"), ({}, None)])
async def test_no_more_is_popped_than_may_wait(stage: Stage, limits: dict[str, int], why: str | None) -> None:
    popping = Popping(stage, lambda _message: asyncio.Event().wait(), **limits)
    await popping.pop()
    said = popping.member.why_full(popping.state)
    assert said is None if why is None else said is not None and why in said
    await popping.consumption._caller.close(0.0)


async def test_no_more_bytes_are_popped_than_may_wait(stage: Stage) -> None:
    large = batch_of(record(0, body=b"x" * (1024 * 1024 + 1)), offsets="0")
    stage.brokers["a:1"] = lambda _command: large
    popping = Popping(stage, lambda _message: asyncio.Event().wait(), pull_threshold_size_for_queue=1)
    await popping.pop()
    assert popping.member.why_full(popping.state) == "1 MiB wait; 1 are the limit"
    await popping.consumption._caller.close(0.0)
    assert popping.state.bytes == 0 or popping.state.count == 1


async def test_what_is_left_at_the_end_comes_to_others_soon(stage: Stage) -> None:
    heard: list[int] = []

    async def stuck(message: ReceivedMessage) -> None:
        heard.append(message.queue_offset)
        await asyncio.Event().wait()

    popping = Popping(stage, stuck, await_termination_millis_when_shutdown=10)
    await popping.pop()
    await aeventually(lambda: len(heard) == 3)
    await popping.consumption.close()
    assert popping.changes == [(offset, GIVE_BACK_MS) for offset in range(3)]


async def test_what_comes_while_the_consumer_ends_is_given_back(stage: Stage) -> None:
    popping = Popping(stage, lambda _message: True)
    await popping.consumption.close()
    await popping.pop()
    await popping.consumption.settle(1.0)
    assert popping.changes == [(offset, GIVE_BACK_MS) for offset in range(3)]


# In order ------------------------------------------------------------------------------------------------


async def test_in_order_one_fails_until_it_is_done_and_the_others_wait(stage: Stage) -> None:
    heard: list[tuple[int, int]] = []

    def listener(message: ReceivedMessage) -> bool:
        heard.append((message.queue_offset, message.reconsume_times))
        return message.queue_offset != 1 or message.reconsume_times == 2

    popping = Popping(stage, listener, PopOrderly, suspend_current_queue_time_millis=10)
    await popping.pop()
    await aeventually(lambda: sum(popping.done) == 0b111)
    assert heard == [(0, 0), (1, 0), (1, 1), (1, 2), (2, 0)]


async def test_in_order_a_lost_answer_is_asked_for_by_the_same_name(stage: Stage) -> None:
    popping = Popping(stage, lambda _message: True, PopOrderly)
    names = [popping.consumption.attempt_id(popping.state) for _ in range(2)]
    await popping.pop()
    names.append(popping.consumption.attempt_id(popping.state))
    header = read_header(PopMessage, stage.calls[-1].command.ext) if stage.calls else None
    assert names[0] == names[1] != names[2]
    assert header is None or header.order


# Queues --------------------------------------------------------------------------------------------------


def test_where_a_broker_says_pull_all_members_pop_all_queues() -> None:
    queues = [MessageQueue("orders", name, number) for name in ("a", "b") for number in (0, 1)]
    told = [QueueAssignment(queue=queues[0], mode="PULL")]
    everything = {MessageQueue("orders", name, -1) for name in ("a", "b")}
    assert popped_queues("orders", told, queues) == everything


def test_where_a_broker_says_pop_its_queues_are_popped() -> None:
    told = [QueueAssignment(queue=MessageQueue("orders", "a", number), mode="POP") for number in (0, 3)]
    assert popped_queues("orders", told, []) == {one.queue for one in told}
    assert popped_queues("orders", [], []) == set()
