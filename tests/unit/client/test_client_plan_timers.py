from collections.abc import Iterable
from contextlib import nullcontext

import pytest
from client_stage import NAME_SERVERS, Stage, answer, refuses, route_of, stores, two_brokers

from pyromq.client.client_session import Session
from pyromq.client.plans import send_plans, timer_plans
from pyromq.client.plans.send_plans import NEXT_IN_TURN
from pyromq.client.plans.timer_plans import WaitingQuery
from pyromq.client.producer.outgoing import prepare
from pyromq.client.steps import Deadline
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import IllegalOperation, MessageIllegal, NoRoute, Refused
from pyromq.model import Message, SendResult, WaitingMessage
from pyromq.wire import properties as names
from pyromq.wire.bodies.route_bodies import BrokerData, ClusterTable, encode_cluster, encode_route
from pyromq.wire.command import Command
from pyromq.wire.header import read_header
from pyromq.wire.headers.send_headers import SendMessageAnswer
from pyromq.wire.headers.timer_headers import (
    ListWaiting,
    ListWaitingAnswer,
    RecallMessage,
    RecallMessageAnswer,
)
from pyromq.wire.recall_handle import RecallHandle, decode_recall_handle
from pyromq.wire.record import Record, encode_host, encode_record

HOST = encode_host("127.0.0.1", 10911)
CLUSTER = ClusterTable(
    broker_addr_table={
        name: BrokerData(cluster="c", broker_name=name, broker_addrs={0: f"{name}:1"}) for name in ("b", "a")
    },
    cluster_addr_table={"c": ["a", "b"]},
)
NOT_KNOWN = ResponseCode.REQUEST_CODE_NOT_SUPPORTED


class TimerBroker:
    """Plays a broker with messages that wait, at most two on a page; places are (due, position)."""

    def __init__(self, places: Iterable[tuple[int, int]] = ()) -> None:
        self.places = sorted(places)
        self.asked: list[ListWaiting] = []

    def __call__(self, command: Command) -> Command:
        if command.code != RequestCode.LIST_WAITING:
            return stores()(command)
        header = read_header(ListWaiting, command.ext)
        self.asked.append(header)
        if header.with_count:
            return answer(header=ListWaitingAnswer(waiting_count=len(self.places)))
        if header.max_num == 0:
            return answer(header=ListWaitingAnswer())
        behind = [one for one in self.places if one > (header.after_due_ms, header.after_position)]
        page = behind[: min(header.max_num, 2)]
        more = ListWaitingAnswer()
        if len(behind) > len(page):
            more = ListWaitingAnswer(next_due_ms=page[-1][0], next_position=page[-1][1])
        return answer(header=more, body=b"".join(waiting_record(*place) for place in page))


def waiting_record(due_ms: int, position: int) -> bytes:
    pairs = {
        names.UNIQ_KEY: f"{position:032X}",
        names.REAL_TOPIC: "orders",
        names.REAL_QUEUE_ID: "3",
        names.TIMER_OUT_MS: str(due_ms),
    }
    return encode_record(
        Record(
            queue_id=0,
            flag=0,
            queue_offset=0,
            position=position,
            sys_flag=0,
            born_at_ms=1,
            born_host=HOST,
            stored_at_ms=2,
            store_host=HOST,
            reconsume_times=0,
            prepared_position=0,
            body=b"x",
            topic="rmq_sys_wheel_timer",
            properties=names.encode(pairs),
        )
    )


def of_version(version: int) -> Command:
    told = answer(NOT_KNOWN, remark=" request type 9001 not supported")
    told.version = version
    return told


@pytest.fixture
def stage() -> Stage:
    stage = two_brokers()
    stage.brokers[NAME_SERVERS[0]] = lambda command: answer(
        body=encode_cluster(CLUSTER)
        if command.code == RequestCode.GET_BROKER_CLUSTER_INFO
        else encode_route(route_of("a", "b"), quoted_keys=True)
    )
    return stage


@pytest.fixture
def session(stage: Stage) -> Session:
    return stage.session()


def deadline(stage: Stage) -> Deadline:
    return Deadline(stage.clock, 6_000)


def send_timed(stage: Stage, session: Session) -> SendResult:
    outgoing = prepare(Message("orders", b"x", delay=60), "ID", session.settings)
    return stage.run(
        send_plans.send(
            session, outgoing, NEXT_IN_TURN, send_plans.sync_rule(session), Deadline(stage.clock, 3_000)
        )
    )


@pytest.mark.row("DE-10")
def test_a_broker_of_ours_is_asked_once_whether_it_knows_times(stage: Stage, session: Session) -> None:
    ours = TimerBroker()
    stage.routes["orders"] = route_of("a")
    stage.brokers[NAME_SERVERS[0]] = lambda _: answer(body=encode_route(route_of("a"), quoted_keys=True))
    stage.brokers["a:1"] = ours

    for _ in range(3):
        send_timed(stage, session)

    assert [header.max_num for header in ours.asked] == [0]
    assert stage.asked(RequestCode.SEND_MESSAGE_V2) == ["a:1"] * 3


@pytest.mark.row("DE-10")
def test_apache_5_is_sent_timed_messages(stage: Stage, session: Session) -> None:
    def apache_5(command: Command) -> Command:
        return of_version(413) if command.code == RequestCode.LIST_WAITING else stores()(command)

    stage.brokers.update({"a:1": apache_5, "b:1": apache_5})

    assert send_timed(stage, session).message_id == "ID"


@pytest.mark.row("DE-10")
def test_a_broker_of_4_9_is_not_sent_what_it_would_deliver_at_once(stage: Stage, session: Session) -> None:
    stage.brokers.update({"a:1": lambda _: of_version(409), "b:1": lambda _: of_version(409)})

    with pytest.raises(Refused, match="older than") as refused:
        send_timed(stage, session)

    assert refused.value.code == ResponseCode.VERSION_NOT_SUPPORTED
    assert stage.asked(RequestCode.SEND_MESSAGE_V2) == []


def test_a_message_without_a_time_costs_no_question(stage: Stage, session: Session) -> None:
    outgoing = prepare(Message("orders", b"x", delay_level=1), "ID", session.settings)
    stage.run(
        send_plans.send(session, outgoing, NEXT_IN_TURN, send_plans.sync_rule(session), deadline(stage))
    )

    assert stage.asked(RequestCode.LIST_WAITING) == []


def test_the_handle_of_the_answer_is_in_the_result(stage: Stage, session: Session) -> None:
    def broker(command: Command) -> Command:
        if command.code == RequestCode.LIST_WAITING:
            return TimerBroker()(command)
        return answer(
            header=SendMessageAnswer(msg_id="ID", queue_id=0, queue_offset=7, recall_handle="handle")
        )

    stage.brokers.update({"a:1": broker, "b:1": broker})

    assert send_timed(stage, session).recall_handle == "handle"


@pytest.mark.row("DE-10")
def test_a_recall_goes_to_the_broker_that_the_handle_names(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = refuses(ResponseCode.ILLEGAL_OPERATION, "nothing here")
    stage.brokers["b:1"] = lambda _: answer(header=RecallMessageAnswer(msg_id="ID"))
    handle = RecallHandle("orders", "b", 5, "ID").encode()

    assert stage.run(timer_plans.recall(session, "orders", handle, deadline(stage))) == "ID"

    first = next(call for call in stage.calls if call.command.code == RequestCode.RECALL_MESSAGE)
    asked = read_header(RecallMessage, first.command.ext)
    assert first.address == "b:1"
    assert (asked.producer_group, asked.topic, asked.recall_handle) == ("group", "orders", handle)


@pytest.mark.parametrize("is_there", [True, False])
def test_copies_on_other_brokers_are_taken_back_whatever_the_first_one_says(
    stage: Stage, session: Session, is_there: bool
) -> None:
    asked = []

    def other(command: Command) -> Command:
        asked.append(read_header(RecallMessage, command.ext))
        return answer(header=RecallMessageAnswer(msg_id="ID"))

    waits = answer(header=RecallMessageAnswer(msg_id="ID"))
    gone = answer(ResponseCode.ILLEGAL_OPERATION, remark="delivered")
    stage.brokers.update({"a:1": other, "b:1": lambda _: waits if is_there else gone})
    handle = RecallHandle("orders", "b", 5, "ID")

    with nullcontext() if is_there else pytest.raises(IllegalOperation, match="delivered"):
        stage.run(timer_plans.recall(session, "orders", handle.encode(), deadline(stage)))

    (one,) = asked
    assert decode_recall_handle(one.recall_handle) == RecallHandle("orders", "a", 5, "ID")


def test_a_recall_succeeds_while_another_broker_is_gone_or_cannot_recall(
    stage: Stage, session: Session
) -> None:
    handle = RecallHandle("orders", "b", 5, "ID").encode()
    stage.brokers["b:1"] = lambda _: answer(header=RecallMessageAnswer(msg_id="ID"))
    stage.brokers["a:1"] = refuses(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    assert stage.run(timer_plans.recall(session, "orders", handle, deadline(stage))) == "ID"

    stage.down.add("a:1")
    assert stage.run(timer_plans.recall(session, "orders", handle, deadline(stage))) == "ID"


def test_a_recall_of_what_waits_no_more_is_an_error_of_its_own(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = refuses(ResponseCode.ILLEGAL_OPERATION, "nothing here")
    stage.brokers["b:1"] = refuses(ResponseCode.ILLEGAL_OPERATION, "delivered")
    handle = RecallHandle("orders", "b", 5, "ID").encode()

    with pytest.raises(IllegalOperation, match="delivered"):
        stage.run(timer_plans.recall(session, "orders", handle, deadline(stage)))


@pytest.mark.parametrize(
    ("handle", "error"),
    [
        ("nonsense", MessageIllegal),
        (RecallHandle("bills", "b", 5, "ID").encode(), MessageIllegal),
        (RecallHandle("orders", "gone", 5, "ID").encode(), NoRoute),
    ],
)
def test_a_recall_that_cannot_be_is_not_asked_for(
    stage: Stage, session: Session, handle: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        stage.run(timer_plans.recall(session, "orders", handle, deadline(stage)))
    assert stage.asked(RequestCode.RECALL_MESSAGE) == []


def places(found: Iterable[WaitingMessage]) -> list[tuple[int, str, int]]:
    return [(one.due_ms, one.message.queue.broker_name, one.message.position) for one in found]


@pytest.mark.row("DE-10")
def test_what_waits_on_all_brokers_is_one_list_in_the_order_of_time(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = TimerBroker([(10, 1), (30, 2), (30, 3), (50, 0)])
    stage.brokers["b:1"] = TimerBroker([(20, 1), (30, 2), (40, 4), (60, 0)])
    whole = [(10, "a", 1), (20, "b", 1), (30, "a", 2), (30, "a", 3), (30, "b", 2), (40, "b", 4)]
    whole += [(50, "a", 0), (60, "b", 0)]

    for count in (1, 2, 3, 8, 100):
        listed: list[tuple[int, str, int]] = []
        last: WaitingMessage | None = None
        while page := stage.run(
            timer_plans.waiting(session, WaitingQuery(count=count, after=last), deadline(stage))
        ):
            assert len(page) <= count
            listed += places(page)
            last = page[-1]
        assert listed == whole


def test_a_waiting_message_is_shown_as_it_will_be(stage: Stage, session: Session) -> None:
    stage.brokers.update({"a:1": TimerBroker([(10, 7)]), "b:1": TimerBroker()})

    (one,) = stage.run(timer_plans.waiting(session, WaitingQuery(), deadline(stage)))

    queue = one.message.queue
    assert (one.due_ms, one.message.topic, queue.topic, queue.broker_name, queue.queue_id) == (
        *(10, "orders", "orders", "a", 3),
    )
    assert one.recall_handle == RecallHandle("orders", "a", 10, f"{7:032X}").encode()


def test_the_filters_are_the_broker_s(stage: Stage, session: Session) -> None:
    ours = TimerBroker()
    stage.brokers.update({"a:1": ours, "b:1": ours})

    query = WaitingQuery("orders", "k", 5, 9, 3)
    stage.run(timer_plans.waiting(session, query, deadline(stage)))

    asked = ours.asked[0]
    assert (asked.topic, asked.key, asked.begin_due_ms, asked.end_due_ms, asked.max_num) == (
        *("orders", "k", 5, 9, 3),
    )


def test_counts_come_from_each_broker_that_can_count(stage: Stage, session: Session) -> None:
    stage.brokers.update({"a:1": TimerBroker([(1, 1), (2, 2)]), "b:1": lambda _: of_version(479)})

    assert stage.run(timer_plans.count_waiting(session, deadline(stage))) == {"a": 2}


def test_where_no_broker_can_list_it_is_said(stage: Stage, session: Session) -> None:
    stage.brokers.update({"a:1": lambda _: of_version(409), "b:1": lambda _: of_version(479)})

    with pytest.raises(Refused, match="no broker here can list"):
        stage.run(timer_plans.waiting(session, WaitingQuery(), deadline(stage)))


def test_another_refusal_is_not_taken_for_that(stage: Stage, session: Session) -> None:
    stage.brokers.update({"a:1": refuses(ResponseCode.SYSTEM_ERROR, "ill"), "b:1": TimerBroker()})

    with pytest.raises(Refused, match="ill"):
        stage.run(timer_plans.waiting(session, WaitingQuery(), deadline(stage)))


def test_an_empty_list_is_not_asked_for(stage: Stage, session: Session) -> None:
    with pytest.raises(MessageIllegal):
        stage.run(timer_plans.waiting(session, WaitingQuery(count=0), deadline(stage)))
