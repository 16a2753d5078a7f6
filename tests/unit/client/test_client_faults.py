import pytest
from client_stage import Stage, refuses, route_of, two_brokers

from pyromq.client.client_session import Session
from pyromq.client.plans import send_plans
from pyromq.client.producer.fault_tolerance import (
    ISOLATED_LATENCY_MS,
    MEASURED_MS_MAX,
    Faults,
    Latencies,
    out_for_ms,
)
from pyromq.client.producer.outgoing import prepare
from pyromq.client.producer.queue_choice import RoundRobin
from pyromq.client.steps import Deadline
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import ClientSettings
from pyromq.errors import SendFailed, SystemBusy
from pyromq.model import Message, MessageQueue, SendResult
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.command import Command

QUEUES = [MessageQueue("orders", broker, at) for broker in "ab" for at in range(4)]
AVOIDING = ClientSettings(send_latency_fault_enable=True)
FASTEST = ClientSettings(send_least_latency_enable=True)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def faults(clock: ManualClock) -> Faults:
    return Faults(clock)


@pytest.fixture
def stage() -> Stage:
    return two_brokers()


def begun(stage: Stage, settings: ClientSettings) -> Session:
    session = stage.session(settings)
    session._turns["orders"] = RoundRobin(start=0)
    return session


def send_one(stage: Stage, session: Session) -> SendResult:
    outgoing = prepare(Message("orders", b"x"), "UNIQ", session.settings)
    deadline = Deadline(stage.clock, 60_000)
    return stage.run(
        send_plans.send(session, outgoing, send_plans.NEXT_IN_TURN, send_plans.sync_rule(session), deadline)
    )


def slow(stage: Stage, address: str, took_ms: int) -> None:
    """Let a broker take its time from now on."""
    stores = stage.brokers[address]

    def broker(command: Command) -> Command:
        stage.clock.advance(took_ms)
        return stores(command)

    stage.brokers[address] = broker


def brokers_chosen(faults: Faults, count: int) -> list[str]:
    turn = RoundRobin(start=0)
    return [faults.choose(turn, QUEUES).broker_name for _ in range(count)]


@pytest.mark.row("QS-04")
def test_slow_brokers_are_avoided_only_on_request() -> None:
    assert not ClientSettings().send_latency_fault_enable
    assert not ClientSettings().send_least_latency_enable


@pytest.mark.row("QS-05", "QS-06", "QS-16")
@pytest.mark.parametrize(
    ("latency_ms", "out_ms"),
    [
        (0, 0),
        (49, 0),
        (50, 0),
        (100, 0),
        (549, 0),
        (550, 30_000),
        (999, 30_000),
        (1_000, 60_000),
        (2_000, 120_000),
        (3_000, 180_000),
        (4_000, 180_000),
        (14_999, 180_000),
        (15_000, 600_000),
        (99_999, 600_000),
    ],
)
def test_a_latency_keeps_its_broker_out_by_the_table(latency_ms: int, out_ms: int) -> None:
    assert out_for_ms(latency_ms) == out_ms


@pytest.mark.row("QS-07")
def test_a_failure_counts_as_thirty_seconds_and_keeps_its_broker_out_for_ten_minutes(
    faults: Faults, clock: ManualClock
) -> None:
    assert ISOLATED_LATENCY_MS == 30_000
    faults.note("a", 3, is_failure=True)

    clock.advance(599_999)
    assert not faults.is_available("a")
    clock.advance(1)
    assert faults.is_available("a")


@pytest.mark.row("QS-08")
def test_a_broker_is_available_from_its_moment_on(faults: Faults, clock: ManualClock) -> None:
    faults.note("a", 600, is_failure=False)

    clock.advance(29_999)
    assert not faults.is_available("a")
    clock.advance(1)
    assert faults.is_available("a")


def test_a_broker_that_was_never_tried_is_available(faults: Faults) -> None:
    assert faults.is_available("a")


@pytest.mark.row("QS-10")
def test_the_next_queue_of_an_available_broker_is_taken_whichever_failed_last(faults: Faults) -> None:
    faults.note("a", 600, is_failure=False)

    assert brokers_chosen(faults, 8) == ["b"] * 8


def test_the_queues_of_an_available_broker_are_taken_evenly(faults: Faults) -> None:
    faults.note("a", 600, is_failure=False)
    turn = RoundRobin(start=0)

    chosen = [faults.choose(turn, QUEUES).queue_id for _ in range(8)]

    assert chosen == [0, 1, 2, 3, 0, 1, 2, 3]


@pytest.mark.row("QS-11")
def test_when_all_brokers_are_out_one_of_the_better_half_is_taken(faults: Faults) -> None:
    faults.note("a", 9_000, is_failure=False)
    faults.note("b", 700, is_failure=False)

    assert brokers_chosen(faults, 3) == ["b"] * 3


@pytest.mark.row("QS-11")
def test_the_better_half_takes_turns(faults: Faults) -> None:
    for broker, latency_ms in {"a": 700, "b": 800, "c": 2_000, "d": 3_000}.items():
        faults.note(broker, latency_ms, is_failure=False)
    queues = [MessageQueue("orders", broker, 0) for broker in "abcd"]
    turn = RoundRobin(start=0)

    assert {faults.choose(turn, queues).broker_name for _ in range(4)} == {"a", "b"}


@pytest.mark.row("QS-11")
def test_a_broker_that_lost_the_topic_is_forgotten_when_all_are_out(faults: Faults) -> None:
    faults.note("gone", 600, is_failure=False)
    for broker in "ab":
        faults.note(broker, 9_000, is_failure=True)

    # The best of those noted has no queue of this topic: round robin, and it is not looked at again.
    assert brokers_chosen(faults, 1) == ["a"]
    assert "gone" not in faults._faults


@pytest.mark.row("QS-09")
def test_every_try_is_noted_whether_it_succeeds_or_not(stage: Stage) -> None:
    session = begun(stage, AVOIDING)
    stage.down.add("a:1")
    slow(stage, "b:1", 40)

    send_one(stage, session)

    assert not session.faults.is_available("a")
    assert session.faults._faults["b"].latency_ms == 40
    assert session.faults.is_available("b")


@pytest.mark.row("QS-12")
def test_a_broker_s_fault_is_replaced_by_its_next_try_and_not_removed(stage: Stage) -> None:
    session = begun(stage, AVOIDING)
    session.faults.note("a", 600, is_failure=False)
    stage.clock.advance(30_000)

    send_one(stage, session)

    assert session.faults._faults["a"].latency_ms == 0


def test_a_broker_that_failed_is_not_tried_by_the_next_sends_either(stage: Stage) -> None:
    session = begun(stage, AVOIDING)
    stage.down.add("a:1")

    for _ in range(5):
        send_one(stage, session)

    assert stage.asked(RequestCode.SEND_MESSAGE_V2) == ["a:1", *["b:1"] * 5]


def test_a_refusal_keeps_its_broker_out_too(stage: Stage) -> None:
    session = begun(stage, AVOIDING)
    stage.brokers["a:1"] = refuses(ResponseCode.SYSTEM_ERROR)

    send_one(stage, session)

    assert not session.faults.is_available("a")


def test_a_topic_on_one_broker_is_sent_to_it_even_when_it_is_out(stage: Stage) -> None:
    stage.routes["orders"] = route_of("a")
    session = begun(stage, AVOIDING)
    session.faults.note("a", 1, is_failure=True)

    assert send_one(stage, session).queue.broker_name == "a"


def test_all_tries_fail_when_no_broker_is_there(stage: Stage) -> None:
    session = begun(stage, AVOIDING)
    stage.down.update({"a:1", "b:1"})

    with pytest.raises(SendFailed):
        send_one(stage, session)


def test_without_the_setting_nothing_is_noted(stage: Stage) -> None:
    session = begun(stage, ClientSettings())

    send_one(stage, session)

    assert session.faults._faults == {}


@pytest.mark.row("QS-13")
def test_the_queue_whose_last_send_took_least_is_taken(clock: ManualClock) -> None:
    latencies, turn = Latencies(clock), RoundRobin(start=0)
    for queue in QUEUES:
        latencies.note(queue, 9 if queue.queue_id == 2 else 10, is_failure=False)

    chosen = [latencies.choose(turn, QUEUES) for _ in range(4)]

    assert [(queue.broker_name, queue.queue_id) for queue in chosen] == [("a", 2), ("b", 2)] * 2


@pytest.mark.row("QS-13")
def test_queues_that_were_not_measured_are_taken_in_turn_first(clock: ManualClock) -> None:
    latencies, turn = Latencies(clock), RoundRobin(start=0)
    latencies.note(QUEUES[0], 1, is_failure=False)

    assert latencies.choose(turn, QUEUES) == QUEUES[1]
    assert latencies.choose(turn, QUEUES) == QUEUES[2]


@pytest.mark.row("QS-13")
def test_a_queue_that_was_slow_gets_another_chance(clock: ManualClock) -> None:
    latencies, turn = Latencies(clock), RoundRobin(start=0)
    latencies.note(QUEUES[0], 900, is_failure=False)
    clock.advance(MEASURED_MS_MAX - 1)
    latencies.note(QUEUES[1], 1, is_failure=False)

    assert latencies.choose(turn, QUEUES[:2]) == QUEUES[1]
    clock.advance(1)
    assert latencies.choose(turn, QUEUES[:2]) == QUEUES[0]


@pytest.mark.row("QS-13")
def test_a_failure_is_worse_than_any_latency(clock: ManualClock) -> None:
    latencies, turn = Latencies(clock), RoundRobin(start=0)
    latencies.note(QUEUES[0], 0, is_failure=True)
    latencies.note(QUEUES[4], 5_000, is_failure=False)

    assert latencies.choose(turn, [QUEUES[0], QUEUES[4]]) == QUEUES[4]


@pytest.mark.row("QS-13")
def test_a_further_try_goes_to_the_fastest_queue_of_another_broker(stage: Stage) -> None:
    session = begun(stage, FASTEST)
    stage.down.add("a:1")

    assert send_one(stage, session).queue.broker_name == "b"
    assert stage.asked(RequestCode.SEND_MESSAGE_V2) == ["a:1", "b:1"]


@pytest.mark.row("QS-13")
def test_sends_go_to_the_broker_that_answers_fastest(stage: Stage) -> None:
    session = begun(stage, FASTEST)
    slow(stage, "a:1", 20)
    slow(stage, "b:1", 2)

    for _ in range(8):
        send_one(stage, session)
    first_round = stage.asked(RequestCode.SEND_MESSAGE_V2)
    for _ in range(8):
        send_one(stage, session)

    assert sorted(first_round) == ["a:1"] * 4 + ["b:1"] * 4
    assert stage.asked(RequestCode.SEND_MESSAGE_V2)[8:] == ["b:1"] * 8


@pytest.mark.row("FF-08")
def test_a_send_that_a_busy_broker_refused_is_the_callers_to_try_again(stage: Stage) -> None:
    session = begun(stage, AVOIDING)
    takes, stage.brokers["a:1"] = stage.brokers["a:1"], refuses(ResponseCode.SYSTEM_BUSY, "[OVERLOAD]")

    with pytest.raises(SystemBusy, match="OVERLOAD"):
        send_one(stage, session)
    stage.brokers["a:1"] = takes

    # The next ones keep away from it, as long as from one that failed.
    assert {send_one(stage, session).queue.broker_name for _ in range(8)} == {"b"}
    stage.clock.advance(600_000)
    assert {send_one(stage, session).queue.broker_name for _ in range(8)} == {"a", "b"}
