"""Parts of a push consumer on a stage: brokers are played by hand, listeners are real."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from client_stage import Stage, answer, refuses, route_of, stores, two_brokers
from push_messages import received, several

from pyromq.client.consumer import queue_pulls
from pyromq.client.consumer.group_member import ConsumeModel, ConsumeOrder, GroupMember, MemberTerms
from pyromq.client.consumer.queue_pulls import QueuePulls
from pyromq.client.consumer.rebalancer import RETRY_S_FIRST, Rebalancer, next_retry_s
from pyromq.client.consumer.running_report import running_state
from pyromq.client.consumer.topic_subscription import subscription
from pyromq.client.drivers import Asyncio
from pyromq.client.plans.progress_plans import GroupStart, starting_offset
from pyromq.client.plans.route_plans import subscribe_route
from pyromq.client.push import concurrent
from pyromq.client.push.calling import Listening, TaskCaller, calls
from pyromq.client.push.concurrent import ConcurrentConsumption
from pyromq.client.push.delivery import ConsumeResult, Delivery
from pyromq.client.push.orderly import OrderlyConsumption
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.client.steps import Deadline, Plan
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import ClientSettings
from pyromq.model import ConsumeFrom, MessageQueue
from pyromq.testing.waiting import aeventually
from pyromq.wire.bodies.lock_bodies import encode_locked_queues
from pyromq.wire.bodies.running_info import decode_running_state, encode_running_state
from pyromq.wire.command import Command
from pyromq.wire.header import read_header
from pyromq.wire.headers.offset_headers import (
    GetMaxOffsetAnswer,
    GetMinOffsetAnswer,
    SearchOffset,
    SearchOffsetAnswer,
)
from pyromq.wire.headers.pull_headers import PullMessageAnswer
from pyromq.wire.headers.transaction_headers import ConsumerSendMessageBack

QUEUE = MessageQueue("orders", "a", 0)
RETRY_QUEUE = MessageQueue("%RETRY%group", "a", 0)


class OnStage(Asyncio):
    """Carries plans out on a stage, each in one go."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def run(self, plan: Plan[Any]) -> Any:
        await asyncio.sleep(0)
        return self._stage.run(plan)


@pytest.fixture
def stage() -> Stage:
    stage = two_brokers()
    stage.routes["%RETRY%group"] = route_of("a", "b", queues=1)
    stage.brokers = {"a:1": lambda _: answer(), "b:1": lambda _: answer()}
    return stage


def member_of(
    stage: Stage, *, order: str = "concurrent", model: str = "clustering", start_ms: int = 0, **more: Any
) -> GroupMember[ProcessQueue]:
    consume_from = more.pop("consume_from", ConsumeFrom.LAST_OFFSET)
    session = stage.session(ClientSettings(**more))
    stage.run(subscribe_route(session, "orders", Deadline(stage.clock, 3_000)))
    driver = OnStage(stage)
    terms = MemberTerms(ConsumeModel(model), ConsumeOrder(order), start=GroupStart(consume_from, start_ms))
    wanted = {"orders": subscription("orders", version=1)}
    member: GroupMember[ProcessQueue] = GroupMember(session, driver, terms, wanted)
    member.is_resumed.set()
    return member


def caller_of(stage: Stage, listener: Callable[..., object]) -> TaskCaller:
    return TaskCaller(Listening("group", calls(listener, None)), 20, stage.clock)


def state_of(member: GroupMember[ProcessQueue], *offsets: int) -> ProcessQueue:
    state = member.queues[QUEUE] = ProcessQueue(QUEUE, member.now_ms())
    state.lock(member.now_ms())
    state.put(several(*offsets))
    return state


def sent_back(stage: Stage) -> list[ConsumerSendMessageBack]:
    return [
        read_header(ConsumerSendMessageBack, call.command.ext)
        for call in stage.calls
        if call.command.code == RequestCode.CONSUMER_SEND_MSG_BACK
    ]


def messages_of(state: ProcessQueue, *offsets: int):
    return [state._waiting[offset] for offset in offsets]


# Concurrent ----------------------------------------------------------------------------------------------


@pytest.mark.row("RT-13")
async def test_what_succeeds_is_finished_and_nothing_is_sent_back(stage: Stage) -> None:
    member = member_of(stage)
    state = state_of(member, 1, 2)
    consumption = ConcurrentConsumption(member, caller_of(stage, lambda _message: None))

    consumption.consume(state, messages_of(state, 1, 2))

    await aeventually(lambda: state.progress.finished == 3)
    assert (sent_back(stage), state.count) == ([], 0)


async def test_what_fails_is_sent_back_at_the_level_that_the_listener_chose(stage: Stage) -> None:
    def listen(_message, delivery: Delivery) -> bool:
        delivery.delay_level = 4
        return False

    member = member_of(stage, max_reconsume_times=9)
    state = state_of(member, 1)
    ConcurrentConsumption(member, caller_of(stage, listen)).consume(state, messages_of(state, 1))

    await aeventually(lambda: state.progress.finished == 2)
    (header,) = sent_back(stage)
    assert (header.offset, header.delay_level, header.max_reconsume_times) == (1_001, 4, 9)


async def test_sixteen_tries_are_the_default(stage: Stage) -> None:
    member = member_of(stage)
    state = state_of(member, 1)
    ConcurrentConsumption(member, caller_of(stage, lambda _message: False)).consume(
        state, messages_of(state, 1)
    )

    await aeventually(lambda: sent_back(stage))
    assert (sent_back(stage)[0].max_reconsume_times, sent_back(stage)[0].delay_level) == (16, 0)


@pytest.mark.row("RT-02")
async def test_in_broadcasting_a_message_that_fails_is_given_up(stage: Stage) -> None:
    member = member_of(stage, model="broadcasting")
    state = state_of(member, 1)
    ConcurrentConsumption(member, caller_of(stage, lambda _message: False)).consume(
        state, messages_of(state, 1)
    )

    await aeventually(lambda: state.progress.finished == 2)
    assert sent_back(stage) == []


async def test_a_message_that_cannot_be_sent_back_is_tried_again_here_and_not_passed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrent, "TRY_AGAIN_S", 0.01)
    stage.brokers["a:1"] = stage.brokers["b:1"] = refuses(ResponseCode.SYSTEM_ERROR)
    tries: list[int] = []

    def listen(message) -> bool:
        tries.append(message.reconsume_times)
        assert state.progress.finished in (None, 1)
        return len(tries) == 3

    member = member_of(stage)
    state = state_of(member, 1)
    ConcurrentConsumption(member, caller_of(stage, listen)).consume(state, messages_of(state, 1))

    await aeventually(lambda: state.progress.finished == 2)
    assert tries == [0, 1, 2]


async def test_what_ends_after_its_queue_is_gone_is_not_counted(stage: Stage) -> None:
    is_free = asyncio.Event()

    async def listen(_message) -> None:
        await is_free.wait()

    member = member_of(stage)
    state = state_of(member, 1)
    caller = caller_of(stage, listen)
    ConcurrentConsumption(member, caller).consume(state, messages_of(state, 1))
    await asyncio.sleep(0)
    state.is_dropped = True
    is_free.set()
    await caller.close(1)

    assert state.progress.finished is None


@pytest.mark.row("CO-09")
async def test_a_message_that_keeps_its_listener_too_long_is_sent_back(stage: Stage) -> None:
    member = member_of(stage)
    state = state_of(member, 1, 2)
    consumption = ConcurrentConsumption(member, caller_of(stage, lambda _message: None))
    state.start(messages_of(state, 1), member.now_ms())

    stage.clock.advance(15 * 60_000)
    await consumption.send_overdue_back()
    assert sent_back(stage) == []
    stage.clock.advance(1)
    await consumption.send_overdue_back()

    (header,) = sent_back(stage)
    assert (header.offset, header.delay_level) == (1_001, 3)
    assert state.progress.finished == 2


async def test_a_message_that_comes_again_has_its_first_topic(stage: Stage) -> None:
    topics: list[str] = []
    member = member_of(stage)
    state = ProcessQueue(RETRY_QUEUE, 0)
    again = received(0, queue=RETRY_QUEUE, properties={"RETRY_TOPIC": "orders"}, reconsume_times=1)
    state.put([again])
    ConcurrentConsumption(member, caller_of(stage, lambda one: topics.append(one.topic))).consume(
        state, [again]
    )

    await aeventually(lambda: topics == ["orders"])


# In order ------------------------------------------------------------------------------------------------


async def test_in_order_the_next_waits_for_the_one_that_fails(stage: Stage) -> None:
    got: list[tuple[int, int]] = []

    def listen(message) -> bool:
        got.append((message.queue_offset, message.reconsume_times))
        return message.reconsume_times == 2 or message.queue_offset == 2

    member = member_of(stage, order="orderly", suspend_current_queue_time_millis=10)
    state = state_of(member, 1, 2)
    OrderlyConsumption(member, caller_of(stage, listen)).consume(state, [])

    await aeventually(lambda: state.progress.finished == 3)
    assert got == [(1, 0), (1, 1), (1, 2), (2, 0)]


@pytest.mark.row("OR-04")
async def test_in_order_there_is_no_end_of_tries_by_default(stage: Stage) -> None:
    def times_max(**more: Any) -> int:
        member = member_of(stage, order="orderly", **more)
        return OrderlyConsumption(member, caller_of(stage, lambda _message: None)).times_max

    assert times_max() == 2**31 - 1
    assert times_max(max_reconsume_times=3) == 3


async def test_in_order_a_message_that_failed_too_often_is_sent_to_the_dead_letters(stage: Stage) -> None:
    stage.brokers["a:1"] = stage.brokers["b:1"] = stores()
    member = member_of(stage, order="orderly", max_reconsume_times=1, suspend_current_queue_time_millis=10)
    state = state_of(member, 1)
    OrderlyConsumption(member, caller_of(stage, lambda _message: False)).consume(state, [])

    await aeventually(lambda: state.progress.finished == 2)
    assert len(stage.asked(RequestCode.SEND_MESSAGE_V2)) == 1


async def test_a_listener_in_order_may_commit_by_itself(stage: Stage) -> None:
    answers = iter(
        [ConsumeResult.SUCCESS, ConsumeResult.ROLLBACK, ConsumeResult.SUCCESS, ConsumeResult.COMMIT]
    )
    got: list[int] = []

    def listen(message, delivery: Delivery) -> ConsumeResult:
        got.append(message.queue_offset)
        delivery.auto_commit = False
        delivery.suspend_ms = 10
        return next(answers)

    member = member_of(stage, order="orderly")
    state = state_of(member, 1, 2)
    OrderlyConsumption(member, caller_of(stage, listen)).consume(state, [])

    await aeventually(lambda: state.progress.finished == 3)
    assert got == [1, 2, 1, 2]


@pytest.mark.row("OR-03")
async def test_without_its_lock_a_queue_is_locked_before_it_is_consumed(stage: Stage) -> None:
    def broker(command: Command) -> Command:
        return answer(body=encode_locked_queues([QUEUE] if command.code == RequestCode.LOCK_BATCH_MQ else []))

    stage.brokers["a:1"] = broker
    member = member_of(stage, order="orderly")
    state = state_of(member, 1)
    stage.clock.advance(30_001)
    OrderlyConsumption(member, caller_of(stage, lambda _message: None)).consume(state, [])

    await aeventually(lambda: state.progress.finished == 2)
    assert stage.asked(RequestCode.LOCK_BATCH_MQ) == ["a:1"]


async def test_a_queue_is_let_go_when_its_listener_has_nothing_of_it(stage: Stage) -> None:
    is_called, is_free = asyncio.Event(), asyncio.Event()

    async def listen(_message) -> None:
        is_called.set()
        await is_free.wait()

    member = member_of(stage, order="orderly")
    state = state_of(member, 1)
    orderly = OrderlyConsumption(member, caller_of(stage, listen))
    orderly.consume(state, [])
    await is_called.wait()
    letting_go = asyncio.create_task(orderly.let_go(state))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not letting_go.done()
    is_free.set()

    assert await letting_go


# Pulling -------------------------------------------------------------------------------------------------


def pull_answers(*answers: tuple[int, int]) -> Callable[[Command], Command]:
    """A broker that answers pulls with codes and next offsets in turn, the last again and again."""
    left = list(answers)

    def broker(command: Command) -> Command:
        if command.code != RequestCode.PULL_MESSAGE:
            return answer()
        code, next_offset = left.pop(0) if len(left) > 1 else left[0]
        header = PullMessageAnswer(
            suggest_which_broker_id=0, next_begin_offset=next_offset, min_offset=0, max_offset=9
        )
        return answer(code, remark="no", header=header)

    return broker


async def pulled_by(
    stage: Stage, member: GroupMember[ProcessQueue], condition: Callable[[ProcessQueue], object]
) -> tuple[ProcessQueue, list[tuple[ProcessQueue, int]]]:
    """Pull the test's queue from offset 0 until a condition holds; return it, and where it is to go on."""
    gone: list[tuple[ProcessQueue, int]] = []

    async def go_on(state: ProcessQueue, offset: int) -> None:
        gone.append((state, offset))

    outlet = ConcurrentConsumption(member, caller_of(stage, lambda _message: None))
    pulls = QueuePulls(member, outlet, go_on)
    state = state_of(member)
    state.progress.place(0, finished=None, committed=None)
    pulls.start(state)
    await aeventually(lambda: condition(state) or gone)
    await pulls.close()
    return state, gone


async def test_offsets_that_filters_passed_over_are_progress(stage: Stage) -> None:
    stage.brokers["a:1"] = pull_answers((ResponseCode.PULL_RETRY_IMMEDIATELY, 7))
    member = member_of(stage)

    await pulled_by(stage, member, lambda state: state.progress.finished == 7)


async def test_an_offset_that_is_none_of_the_queues_lets_it_go_on_at_the_right_one(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_pulls, "CORRECTION_S", 0.01)
    stage.brokers["a:1"] = pull_answers((ResponseCode.PULL_OFFSET_MOVED, 4))
    member = member_of(stage)

    state, gone = await pulled_by(stage, member, lambda _state: False)

    assert gone == [(state, 4)]
    assert state.is_dropped


async def test_a_queue_that_goes_on_elsewhere_is_committed_there_and_read_from_there(stage: Stage) -> None:
    stage.brokers["a:1"] = pull_answers((ResponseCode.PULL_NOT_FOUND, 4))
    member = member_of(stage)
    state = state_of(member, 9)
    state.is_paused = True
    rebalancer = Rebalancer(member, ConcurrentConsumption(member, caller_of(stage, lambda _message: None)))

    await rebalancer.go_on(state, 4)

    new = member.queues[QUEUE]
    assert (state.is_dropped, new.is_dropped, new.is_paused, new.is_locked) == (True, False, True, True)
    assert (new.progress.next_offset, new.progress.finished, new.progress.committed) == (4, 4, 4)
    assert stage.asked(RequestCode.UPDATE_CONSUMER_OFFSET) == ["a:1"]
    # A queue that was let go meanwhile is not taken again.
    del member.queues[QUEUE]
    await rebalancer.go_on(new, 5)
    assert member.queues == {}
    await rebalancer.pulls.close()


async def test_a_pull_that_fails_is_sent_again_after_a_while(stage: Stage) -> None:
    stage.brokers["a:1"] = pull_answers((ResponseCode.SYSTEM_ERROR, 0), (ResponseCode.PULL_NOT_FOUND, 3))
    member = member_of(stage, pull_time_delay_mills_when_exception=10)

    await pulled_by(stage, member, lambda state: state.progress.finished == 3)


async def test_a_broker_that_does_not_know_the_member_is_told_of_it(stage: Stage) -> None:
    stage.brokers["a:1"] = pull_answers((ResponseCode.SUBSCRIPTION_NOT_EXIST, 0))
    member = member_of(stage, pull_time_delay_mills_when_exception=10)

    await pulled_by(stage, member, lambda _state: member.is_unknown.is_set())


# Where a new group begins --------------------------------------------------------------------------------


@pytest.mark.row("OF-04", "OF-05")
@pytest.mark.parametrize(
    ("where", "queue", "offset"),
    [
        (ConsumeFrom.LAST_OFFSET, QUEUE, 90),
        (ConsumeFrom.LAST_OFFSET, RETRY_QUEUE, 0),
        (ConsumeFrom.FIRST_OFFSET, QUEUE, 0),
        (ConsumeFrom.TIMESTAMP, QUEUE, 40),
        (ConsumeFrom.TIMESTAMP, RETRY_QUEUE, 90),
    ],
)
def test_a_new_group_begins_where_it_is_told(
    stage: Stage, where: ConsumeFrom, queue: MessageQueue, offset: int
) -> None:
    def broker(command: Command) -> Command:
        if command.code == RequestCode.QUERY_CONSUMER_OFFSET:
            return answer(ResponseCode.QUERY_NOT_FOUND)
        if command.code == RequestCode.GET_MIN_OFFSET:
            return answer(header=GetMinOffsetAnswer(offset=0))
        if command.code == RequestCode.GET_MAX_OFFSET:
            return answer(header=GetMaxOffsetAnswer(offset=90))
        assert read_header(SearchOffset, command.ext).timestamp == 12_345
        return answer(header=SearchOffsetAnswer(offset=40))

    stage.brokers["a:1"] = broker
    member = member_of(stage, consume_from=where, start_ms=12_345)

    assert stage.run(starting_offset(member.session, member.terms.start, queue)) == (offset, None)


# What operators are shown --------------------------------------------------------------------------------


def test_a_running_state_survives_its_way(stage: Stage) -> None:
    member = member_of(stage, order="orderly", tls_client_key_password="secret")
    state = state_of(member, 3, 4, 5)
    state.take(1, member.now_ms())
    state.progress.finish_to(3)
    started_ms = member.now_ms()
    outlet = OrderlyConsumption(member, caller_of(stage, lambda _message: None))

    shown = running_state(member, outlet.shown(), with_stacks=True)
    read = decode_running_state(encode_running_state(shown))

    queue = read.queues[QUEUE]
    assert (queue.commit_offset, queue.cached_msg_count, queue.locked) == (3, 2, True)
    assert (queue.cached_msg_min_offset, queue.cached_msg_max_offset) == (4, 5)
    assert (queue.transaction_msg_min_offset, queue.transaction_msg_count) == (3, 1)
    assert read.properties["PROP_CONSUMEORDERLY"] == "true"
    assert read.properties["PROP_CONSUMER_START_TIMESTAMP"] == str(started_ms)
    assert read.properties["PROP_THREADPOOL_CORE_SIZE"] == "20"
    assert "secret" not in str(read)
    assert "MainThread" in (read.stacks or "")


@pytest.mark.row("RB-04")
def test_a_topic_that_is_waited_for_is_looked_for_every_two_seconds() -> None:
    pauses = [RETRY_S_FIRST]
    for _ in range(8):
        pauses.append(next_retry_s(pauses[-1], is_complete=False, is_unknown=True))
    assert pauses == [0.5, 1.0, *[2.0] * 7]

    # What has other reasons is asked for less and less often, up to the interval.
    assert next_retry_s(16.0, is_complete=False, is_unknown=False) == 32.0
    assert next_retry_s(16.0, is_complete=True, is_unknown=False) == RETRY_S_FIRST
