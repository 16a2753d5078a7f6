import asyncio
import logging

import pytest
from client_stage import Stage, route_of, two_brokers

from pyromq.client.client_session import Session
from pyromq.client.plans import presence_plans, send_plans
from pyromq.client.plans.send_plans import SendTarget
from pyromq.client.producer.outgoing import prepare
from pyromq.client.producer.request_reply import OpenRequests, no_reply, reply_message, reply_to, request_of
from pyromq.client.steps import Deadline
from pyromq.codes import ClientCode, RequestCode, ResponseCode, SysFlag
from pyromq.config.settings import ClientSettings
from pyromq.errors import MessageIllegal
from pyromq.model import Message, MessageQueue, ReceivedMessage, SendResult, SendStatus
from pyromq.net.routes import Answer, Request
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire import properties as names
from pyromq.wire.command import Command
from pyromq.wire.headers.send_headers import PushReplyMessage

QUESTION = Message("questions", b"?", properties={"city": "Turku"})


def pushed(properties: dict[str, str], sys_flag: int = 0) -> PushReplyMessage:
    return PushReplyMessage(
        producer_group="repliers",
        topic="c_REPLY_TOPIC",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=2,
        sys_flag=sys_flag,
        born_timestamp=1_000,
        flag=7,
        properties=names.encode(properties),
        born_host="10.0.0.9:5000",
        store_host="10.0.0.1:10911",
        store_timestamp=2_000,
    )


def received(properties: dict[str, str]) -> ReceivedMessage:
    return reply_message(pushed(properties), b"?", 3_000)


def take(requests: OpenRequests, properties: dict[str, str], body: bytes = b"!") -> Answer:
    (route,) = requests.routes
    answer = route.handle(Request(Command(326, body=body), pushed(properties), None))  # type: ignore[arg-type]
    assert isinstance(answer, Answer)
    return answer


@pytest.mark.row("SM-19")
def test_a_request_says_who_waits_for_what_and_how_long() -> None:
    correlation_id, asking = request_of(QUESTION, client_id="me@1", timeout_ms=500)

    assert asking.properties == {
        "city": "Turku",
        "CORRELATION_ID": correlation_id,
        "REPLY_TO_CLIENT": "me@1",
        "TTL": "500",
    }
    assert (asking.topic, asking.body) == ("questions", b"?")
    assert QUESTION.properties == {"city": "Turku"}


def test_every_request_has_a_correlation_id_of_its_own() -> None:
    asked = {request_of(QUESTION, client_id="me", timeout_ms=1)[0] for _ in range(100)}

    assert len(asked) == 100


@pytest.mark.row("SM-18")
def test_a_reply_carries_the_request_s_marks_to_the_cluster_s_reply_topic() -> None:
    marks = {"CORRELATION_ID": "7", "REPLY_TO_CLIENT": "me@1", "TTL": "500"}

    reply = reply_to(received(marks | {"CLUSTER": "c", "city": "Turku"}), b"!")

    assert (reply.topic, reply.body) == ("c_REPLY_TOPIC", b"!")
    assert reply.properties == marks | {"MSG_TYPE": "reply"}


@pytest.mark.row("SM-12")
@pytest.mark.parametrize("missing", ["CLUSTER", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL"])
def test_only_a_request_can_be_replied_to(missing: str) -> None:
    marks = {"CLUSTER": "c", "CORRELATION_ID": "7", "REPLY_TO_CLIENT": "me@1", "TTL": "500"}
    del marks[missing]

    with pytest.raises(MessageIllegal, match=missing) as caught:
        reply_to(received(marks), b"!")

    assert caught.value.code == ClientCode.NOT_A_REQUEST == 10007


@pytest.mark.row("SM-18")
def test_a_reply_is_sent_by_its_own_code_and_outside_of_namespaces() -> None:
    stage = two_brokers()
    stage.routes["c_REPLY_TOPIC"] = route_of("a")
    settings = ClientSettings(namespace="shop")
    marks = {"CLUSTER": "c", "CORRELATION_ID": "7", "REPLY_TO_CLIENT": "me@1", "TTL": "500"}
    outgoing = prepare(reply_to(received(marks), b"!"), "U", settings)
    session = stage.session(settings)

    stage.run(
        send_plans.send(
            session, outgoing, SendTarget(), send_plans.sync_rule(session), Deadline(stage.clock, 3_000)
        )
    )

    assert stage.asked(RequestCode.SEND_REPLY_MESSAGE_V2) == ["a:1"]
    assert outgoing.topic == "c_REPLY_TOPIC"


@pytest.mark.row("SM-19")
async def test_a_reply_reaches_the_request_that_waits_for_it() -> None:
    requests = OpenRequests(ManualClock())
    one, other = requests.expect("1"), requests.expect("2")

    answer = take(requests, {"CORRELATION_ID": "2", "UNIQ_KEY": "U"})

    assert answer.code == ResponseCode.SUCCESS
    reply = await other
    assert (reply.body, reply.message_id, reply.flag) == (b"!", "U", 7)
    assert reply.queue == MessageQueue("c_REPLY_TOPIC", "", 2)
    assert "ARRIVE_TIME" in reply.properties
    assert not one.done()


@pytest.mark.row("SM-19")
async def test_a_reply_that_nobody_waits_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    requests = OpenRequests(ManualClock())
    gone = requests.expect("1")
    requests.forget("1")

    with caplog.at_level(logging.WARNING, "pyromq.client"):
        answer = take(requests, {"CORRELATION_ID": "1"})

    assert answer.code == ResponseCode.SUCCESS
    assert not gone.done()
    assert "10.0.0.9:5000" in caplog.text


async def test_a_reply_to_a_request_that_was_cancelled_is_no_error() -> None:
    requests = OpenRequests(ManualClock())
    requests.expect("1").cancel()

    assert take(requests, {"CORRELATION_ID": "1"}).code == ResponseCode.SUCCESS


def test_a_compressed_reply_arrives_plain() -> None:
    outgoing = prepare(Message("t", b"long " * 1_000), "U", ClientSettings())

    reply = reply_message(pushed({}, sys_flag=outgoing.sys_flag), outgoing.body, 0)

    assert outgoing.sys_flag & SysFlag.COMPRESSED
    assert reply.body == b"long " * 1_000


def test_a_request_without_a_reply_says_where_it_is_and_what_may_be_wrong() -> None:
    sent = SendResult(SendStatus.SEND_OK, "U", "ID", MessageQueue("questions", "a", 3), 0)

    error = no_reply(QUESTION, sent, 500)

    assert all(word in str(error) for word in ("500 ms", "'questions'", "message U", "reply_to"))


@pytest.fixture
def stage() -> Stage:
    stage = two_brokers()
    stage.routes["c_REPLY_TOPIC"] = route_of("a", "b")
    stage.routes["orders"] = route_of("a")
    return stage


@pytest.fixture
def session(stage: Stage) -> Session:
    return stage.session()


def beats(stage: Stage) -> list[str]:
    return stage.asked(RequestCode.HEART_BEAT)


def greet(stage: Stage, session: Session, **how: bool) -> None:
    stage.brokers.update({name: lambda _: Command(0, flag=1) for name in ("a:1", "b:1")})
    stage.run(presence_plans.greet(session, "orders", Deadline(stage.clock, 3_000), **how))


def test_every_broker_that_may_get_the_reply_knows_the_requester(stage: Stage, session: Session) -> None:
    greet(stage, session, with_replies=True)

    assert sorted(beats(stage)) == ["a:1", "b:1"]


def test_a_broker_is_greeted_once(stage: Stage, session: Session) -> None:
    greet(stage, session, with_replies=True)
    greet(stage, session, with_replies=True)

    assert len(beats(stage)) == 2


def test_a_broker_that_is_away_takes_the_time_of_one_request_only(stage: Stage, session: Session) -> None:
    stage.silent.add("a:1")
    greet(stage, session)
    greet(stage, session)

    assert beats(stage) == ["a:1"]


def test_greeting_takes_no_more_than_the_request_s_own_time(stage: Stage, session: Session) -> None:
    stage.silent.add("a:1")
    deadline = Deadline(stage.clock, 500)

    stage.run(presence_plans.greet(session, "orders", deadline))

    assert deadline.has_passed
    assert stage.calls[-1].timeout_s == 0.5


def test_whoever_waited_while_another_greeted_has_nothing_left_to_do(stage: Stage, session: Session) -> None:
    greet(stage, session)
    session.greeted.clear()
    plan = presence_plans.greet(session, "orders", Deadline(stage.clock, 3_000))
    waiting = next(plan)
    greet(stage, session)
    asked = len(stage.calls)

    stage.run(waiting.begin())  # type: ignore[union-attr]

    assert len(stage.calls) == asked


def test_a_cluster_without_a_reply_topic_does_not_keep_from_asking(stage: Stage, session: Session) -> None:
    del stage.routes["c_REPLY_TOPIC"]

    greet(stage, session, with_replies=True)

    assert beats(stage) == ["a:1"]


async def test_what_waits_is_forgotten_when_nobody_waits_any_more() -> None:
    requests = OpenRequests(ManualClock())
    future = requests.expect("1")

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(future, 0.001)
    requests.forget("1")
    requests.forget("1")

    assert requests._waiting == {}
