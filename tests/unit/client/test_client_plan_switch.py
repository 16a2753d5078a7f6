"""The client's plans while a group of brokers changes its master, played by hand."""

import pytest
from client_stage import Broker, Stage, answer, refuses, route_of, stores, two_brokers

from pyromq.broker.durability.acknowledgement import no_longer_master
from pyromq.client.client_session import Session
from pyromq.client.plans import progress_plans, send_plans
from pyromq.client.plans.patience import NOTICE_MS, PAUSE_S_MAX
from pyromq.client.plans.presence_plans import greet
from pyromq.client.plans.pull_plans import PullQuery, pull
from pyromq.client.plans.send_plans import RetryRule, SendTarget
from pyromq.client.producer.outgoing import prepare
from pyromq.client.producer.queue_choice import select_by_hash
from pyromq.client.steps import Deadline
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import ClientSettings
from pyromq.errors import (
    ConnectFailed,
    NoMaster,
    NoRoute,
    RequestTimeout,
    SendFailed,
    ServiceNotAvailable,
)
from pyromq.model import Message, MessageQueue, SendResult
from pyromq.wire.bodies.route_bodies import BrokerData, TopicRoute
from pyromq.wire.headers.offset_headers import QueryConsumerOffsetAnswer
from pyromq.wire.headers.pull_headers import PullMessageAnswer

ORDER = Message("orders", b"body")
QUEUE = MessageQueue("orders", "a", 0)


def a_route(addresses: dict[int, str]) -> TopicRoute:
    """Return the route of a topic on one group of brokers, «a», by their ids."""
    route = route_of("a")
    return TopicRoute(
        queue_datas=route.queue_datas,
        broker_datas=[BrokerData(cluster="c", broker_name="a", broker_addrs=addresses)],
    )


@pytest.fixture
def stage() -> Stage:
    """One group of brokers: a master at a:1, a slave at a:2 that takes messages once it is master."""
    return Stage(routes={"orders": a_route({0: "a:1", 1: "a:2"})}, brokers={"a:1": stores(), "a:2": stores()})


@pytest.fixture
def session(stage: Stage) -> Session:
    return stage.session()


def lose_master(stage: Stage, *, at_ms: int | None) -> None:
    """Let the master be gone, and the slave be master so many milliseconds later; None: never."""
    stage.down.add("a:1")
    stage.routes["orders"] = a_route({1: "a:2"})
    started_ms = stage.clock.now_ms()

    def look(_seconds: float) -> None:
        if at_ms is not None and stage.clock.now_ms() - started_ms >= at_ms:
            stage.routes["orders"] = a_route({0: "a:2"})

    stage.on_pause = look


def send_one(
    stage: Stage,
    session: Session,
    *,
    target: SendTarget = send_plans.NEXT_IN_TURN,
    rule: RetryRule | None = None,
    timeout_ms: int = 8_000,
) -> SendResult:
    outgoing = prepare(ORDER, "UNIQ", session.settings)
    plan = send_plans.send(
        session, outgoing, target, rule or send_plans.sync_rule(session), Deadline(stage.clock, timeout_ms)
    )
    return stage.run(plan)


#: The kinds of sends, and how often RocketMQ's client calls a broker that is dead.
KINDS = {"in turn": 3, "asynchronous": 3, "a queue": 1, "a selector": 1}


def send_kind(stage: Stage, session: Session, kind: str) -> SendResult:
    """Send one message in one of these ways."""
    rule = send_plans.async_rule(session) if kind == "asynchronous" else None
    targets = {"a queue": SendTarget(QUEUE), "a selector": SendTarget(selector=select_by_hash("42"))}
    return send_one(stage, session, target=targets.get(kind, send_plans.NEXT_IN_TURN), rule=rule)


@pytest.mark.row("HA-09")
@pytest.mark.parametrize(
    "target",
    [send_plans.NEXT_IN_TURN, SendTarget(QUEUE), SendTarget(selector=select_by_hash("42"))],
    ids=["in turn", "a queue", "a selector"],
)
def test_a_send_waits_for_the_next_master(stage: Stage, session: Session, target: SendTarget) -> None:
    send_one(stage, session)
    lose_master(stage, at_ms=4_000)

    send_one(stage, session, target=target)

    assert stage.calls[-1].address == "a:2"


@pytest.mark.row("HA-09")
def test_an_asynchronous_send_waits_too(stage: Stage, session: Session) -> None:
    send_one(stage, session)
    lose_master(stage, at_ms=4_000)

    send_one(stage, session, rule=send_plans.async_rule(session))

    assert stage.calls[-1].address == "a:2"


def test_a_producer_that_starts_in_the_middle_of_a_switch_waits(stage: Stage, session: Session) -> None:
    lose_master(stage, at_ms=4_000)

    send_one(stage, session)

    assert stage.calls[-1].address == "a:2"


def test_when_the_time_is_over_what_it_was_spent_on_is_said(stage: Stage, session: Session) -> None:
    send_one(stage, session)
    stage.down.add("a:1")
    # A machine that is so busy that a pause takes all that is left.
    stage.on_pause = lambda _seconds: stage.clock.advance(8_000)

    with pytest.raises(
        RequestTimeout, match=r"failed 3 times in 8000 ms, on a, a, a; the last failure: .*refused"
    ):
        send_one(stage, session)


def test_when_the_time_for_a_master_is_over_that_there_was_none_is_said(
    stage: Stage, session: Session
) -> None:
    lose_master(stage, at_ms=None)
    stage.on_pause = lambda _seconds: stage.clock.advance(8_000)

    with pytest.raises(NoMaster):
        send_one(stage, session)


@pytest.mark.parametrize("rule", ["sync_rule", "async_rule"])
def test_a_broker_that_is_master_no_more_is_no_reason_to_give_up(
    stage: Stage, session: Session, rule: str
) -> None:
    send_one(stage, session)
    lose_master(stage, at_ms=2_000)
    stage.down.clear()
    stage.brokers["a:1"] = refuses(ResponseCode.SERVICE_NOT_AVAILABLE)

    send_one(stage, session, rule=getattr(send_plans, rule)(session))

    assert stage.calls[-1].address == "a:2"


@pytest.mark.row("HA-09")
@pytest.mark.parametrize("kind", KINDS)
def test_a_broker_that_says_that_it_is_not_the_master_is_waited_for(
    stage: Stage, session: Session, kind: str
) -> None:
    send_one(stage, session)
    stage.brokers["a:1"] = refuses(ResponseCode.SERVICE_NOT_AVAILABLE, no_longer_master().remark)

    def get_the_lease_again(_seconds: float) -> None:
        if len(stage.pauses) == 5:
            stage.brokers["a:1"] = stores()

    stage.on_pause = get_the_lease_again

    send_kind(stage, session, kind)

    assert len(stage.pauses) == 5
    assert stage.calls[-1].address == "a:1"


@pytest.mark.row("HA-09", "QS-14", "SM-04")
@pytest.mark.parametrize(("kind", "tries"), KINDS.items())
def test_a_master_that_the_name_servers_have_not_dropped_yet_is_not_called_again(
    stage: Stage, session: Session, kind: str, tries: int
) -> None:
    send_one(stage, session)
    stage.down.add("a:1")

    def notice(_seconds: float) -> None:
        if len(stage.pauses) == 4:
            stage.routes["orders"] = a_route({1: "a:2"})
        if len(stage.pauses) == 8:
            stage.routes["orders"] = a_route({0: "a:2"})

    stage.on_pause = notice
    stage.calls.clear()

    send_kind(stage, session, kind)

    assert stage.asked(RequestCode.SEND_MESSAGE_V2) == ["a:1"] * tries + ["a:2"]


@pytest.mark.row("HA-09", "QS-14", "SM-04", "SM-14")
@pytest.mark.parametrize(("kind", "tries"), KINDS.items())
def test_a_master_that_stays_in_the_route_is_dead_and_nobody_replaces_it(
    stage: Stage, session: Session, kind: str, tries: int
) -> None:
    send_one(stage, session)
    stage.down.add("a:1")
    stage.calls.clear()
    before = stage.clock.now_ms()

    with pytest.raises((SendFailed, ConnectFailed)):
        send_kind(stage, session, kind)

    assert stage.asked(RequestCode.SEND_MESSAGE_V2) == ["a:1"] * tries
    assert NOTICE_MS <= stage.clock.now_ms() - before <= NOTICE_MS + 1_000 * PAUSE_S_MAX


@pytest.mark.row("QS-14", "SM-04", "SM-06", "SM-14")
@pytest.mark.parametrize(("kind", "tries"), KINDS.items())
def test_a_dead_broker_without_slaves_is_not_waited_for(stage: Stage, kind: str, tries: int) -> None:
    stage.routes["orders"] = a_route({0: "a:1"})
    session = stage.session()
    send_one(stage, session)
    stage.clock.advance(5_000)
    stage.down.add("a:1")
    stage.calls.clear()

    with pytest.raises((SendFailed, ConnectFailed)):
        send_kind(stage, session, kind)

    assert stage.asked(RequestCode.SEND_MESSAGE_V2) == ["a:1"] * tries
    assert stage.pauses == []


@pytest.mark.row("SM-06", "QS-14")
@pytest.mark.parametrize(
    ("kind", "tries"), {"in turn": 3, "asynchronous": 1, "a queue": 1, "a selector": 1}.items()
)
def test_a_master_that_refuses_for_another_reason_is_not_waited_for(
    stage: Stage, session: Session, kind: str, tries: int
) -> None:
    send_one(stage, session)
    stage.clock.advance(5_000)
    stage.brokers["a:1"] = refuses(ResponseCode.SERVICE_NOT_AVAILABLE, "the disk is full")
    stage.calls.clear()

    with pytest.raises((SendFailed, ServiceNotAvailable), match="the disk is full"):
        send_kind(stage, session, kind)

    assert stage.asked(RequestCode.SEND_MESSAGE_V2) == ["a:1"] * tries


def test_the_only_slave_is_not_registered_for_a_moment_while_it_becomes_master(stage: Stage) -> None:
    two = two_brokers()
    both = two.routes["orders"]
    both.broker_datas[0].broker_addrs[1] = "a:2"
    two.brokers["a:2"] = stores()
    session = two.session()
    send_one(two, session)
    two.down.add("a:1")
    two.clock.advance(1_000)
    two.routes["orders"] = route_of("b")

    def register(_seconds: float) -> None:
        if len(two.pauses) == 4:
            two.routes["orders"] = TopicRoute(
                queue_datas=both.queue_datas,
                broker_datas=[
                    BrokerData(cluster="c", broker_name="a", broker_addrs={0: "a:2"}),
                    both.broker_datas[1],
                ],
            )

    two.on_pause = register

    send_one(two, session, target=SendTarget(QUEUE))

    assert two.calls[-1].address == "a:2"


def test_no_master_says_that_one_is_being_replaced_and_what_to_do(stage: Stage, session: Session) -> None:
    lose_master(stage, at_ms=None)
    for target in (send_plans.NEXT_IN_TURN, SendTarget(QUEUE), SendTarget(selector=select_by_hash("42"))):
        with pytest.raises(NoMaster) as caught:
            send_one(stage, session, target=target, timeout_ms=2_500)

        for words in (
            "only slaves",
            "more time than the 2500 ms",
            "send_msg_timeout",
            "start the master again",
        ):
            assert words in str(caught.value)
        assert "permission" not in str(caught.value)


def test_a_wait_that_was_too_short_says_that_there_is_no_master(stage: Stage, session: Session) -> None:
    send_one(stage, session)
    lose_master(stage, at_ms=None)

    with pytest.raises(NoMaster, match="more time than the 8000 ms") as caught:
        send_one(stage, session)

    assert isinstance(caught.value.__cause__, ConnectFailed)


def test_a_wait_ends_with_the_time_for_the_send(stage: Stage, session: Session) -> None:
    send_one(stage, session)
    lose_master(stage, at_ms=None)
    before = stage.clock.now_ms()

    with pytest.raises((SendFailed, NoMaster)):
        send_one(stage, session, timeout_ms=3_000)

    assert 2_000 < stage.clock.now_ms() - before <= 3_000


def test_while_it_waits_a_send_asks_for_the_route_a_few_times_a_second(
    stage: Stage, session: Session
) -> None:
    send_one(stage, session)
    lose_master(stage, at_ms=4_000)
    stage.calls.clear()

    send_one(stage, session)

    assert 4 <= len(stage.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)) <= 20


def test_a_group_that_has_a_master_is_not_waited_for(stage: Stage) -> None:
    two = two_brokers()
    two.down.add("a:1")

    send_one(two, two.session())

    assert two.pauses == []
    assert two.calls[-1].address == "b:1"


def test_a_topic_that_is_nowhere_is_not_waited_for(stage: Stage, session: Session) -> None:
    stage.routes.clear()

    with pytest.raises(NoRoute):
        send_one(stage, session)

    assert stage.pauses == []


def test_a_topic_that_may_not_be_written_is_not_waited_for(stage: Stage, session: Session) -> None:
    stage.routes["orders"] = route_of("a", perm=4)

    with pytest.raises(NoRoute):
        send_one(stage, session)

    assert stage.pauses == []


@pytest.mark.parametrize(
    "settings",
    [ClientSettings(send_through_switch=False), ClientSettings(retry_times_when_send_failed=0)],
    ids=["not through a switch", "no further tries"],
)
def test_whoever_does_not_want_to_wait_does_not(stage: Stage, settings: ClientSettings) -> None:
    session = stage.session(settings)
    send_one(stage, session)
    stage.down.add("a:1")

    with pytest.raises(SendFailed):
        send_one(stage, session)

    assert stage.pauses == []


def test_a_producer_of_transactions_is_known_to_the_next_master_before_it_sends(
    stage: Stage, session: Session
) -> None:
    lose_master(stage, at_ms=2_000)
    stage.brokers["a:2"] = lambda _command: answer()

    stage.run(greet(session, "orders", Deadline(stage.clock, 8_000)))

    assert stage.asked(RequestCode.HEART_BEAT) == ["a:2"]


def test_what_one_topic_s_route_says_of_a_broker_holds_for_all_topics(stage: Stage, session: Session) -> None:
    for topic in ("orders", "bills"):
        stage.routes[topic] = a_route({0: "a:1", 1: "a:2"})
        session.routes.put(topic, stage.routes[topic])
    lose_master(stage, at_ms=0)
    stage.routes["orders"] = a_route({0: "a:2"})
    stage.clock.advance(1_000)

    send_one(stage, session)

    assert session.routes.master_address("a") == "a:2"


def test_a_route_that_could_not_be_asked_for_says_nothing_new_of_its_brokers(session: Session) -> None:
    routes = session.routes
    routes.put("bills", a_route({0: "a:1", 1: "a:2"}))
    routes.put("orders", a_route({0: "a:2"}))

    routes.keep("bills")

    assert routes.master_address("a") == "a:2"


# Readers


def gives(suggested: int = 0) -> Broker:
    """A broker that has nothing new, and suggests whom to ask next."""
    header = PullMessageAnswer(
        suggest_which_broker_id=suggested, next_begin_offset=7, min_offset=0, max_offset=7
    )
    return lambda _command: answer(ResponseCode.PULL_NOT_FOUND, header=header)


def pull_once(stage: Stage, session: Session) -> str:
    """Pull, and return who was asked."""
    stage.run(pull(session, PullQuery(QUEUE, 7), Deadline(stage.clock, 8_000)))
    return stage.calls[-1].address


@pytest.mark.row("CO-06")
def test_the_next_pull_goes_where_the_last_answer_suggested(stage: Stage, session: Session) -> None:
    stage.brokers.update({"a:1": gives(suggested=1), "a:2": gives(suggested=0)})

    assert [pull_once(stage, session) for _ in range(3)] == ["a:1", "a:2", "a:1"]


@pytest.mark.row("HA-07")
def test_when_the_route_names_slaves_only_they_are_read_from_until_the_master_is_back(
    stage: Stage, session: Session
) -> None:
    stage.brokers.update({"a:1": gives(), "a:2": gives()})
    pull_once(stage, session)
    lose_master(stage, at_ms=None)
    with pytest.raises(ConnectFailed):
        pull_once(stage, session)
    stage.clock.advance(1_000)

    assert pull_once(stage, session) == "a:2"

    stage.down.clear()
    stage.routes["orders"] = a_route({0: "a:1", 1: "a:2"})
    session.routes.mark_stale("orders")
    stage.clock.advance(10_000)
    assert pull_once(stage, session) == "a:1"


@pytest.mark.row("HA-07")
def test_a_master_that_does_not_answer_is_passed_over_though_the_route_names_it(
    stage: Stage, session: Session
) -> None:
    stage.brokers.update({"a:1": gives(), "a:2": gives()})
    stage.down.add("a:1")
    with pytest.raises(ConnectFailed):
        pull_once(stage, session)

    assert [pull_once(stage, session) for _ in range(2)] == ["a:2", "a:2"]

    stage.down.clear()
    stage.clock.advance(10_000)
    assert pull_once(stage, session) == "a:1"


def test_offsets_are_asked_of_a_slave_while_there_is_no_master(stage: Stage, session: Session) -> None:
    lose_master(stage, at_ms=None)
    stage.brokers["a:2"] = lambda _command: answer(header=QueryConsumerOffsetAnswer(offset=5))

    assert stage.run(progress_plans.committed(session, QUEUE, Deadline(stage.clock, 3_000))) == 5
    stage.run(progress_plans.commit(session, QUEUE, 6, Deadline(stage.clock, 3_000)))

    assert stage.asked(RequestCode.UPDATE_CONSUMER_OFFSET) == ["a:2"]
