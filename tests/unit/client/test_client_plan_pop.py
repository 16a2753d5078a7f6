"""Plans of POP, played by hand: what is asked, and what becomes of the answers."""

import pytest
from client_stage import Broker, Stage, answer, refuses, route_of, two_brokers

from pyromq.client.client_session import Session
from pyromq.client.plans import pop_plans
from pyromq.client.plans.pop_plans import InvisibleChange, PopHaul, PopQuery, pop, pop_deadline
from pyromq.client.plans.receive_plans import ReceiveTerms, Receiving, receive
from pyromq.client.pop.message_handles import acknowledgements_of
from pyromq.client.pop.popped_batch import PoppedBatch, read_counts
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import (
    ConfigError,
    ConnectFailed,
    HandleExpired,
    NoPermission,
    PopUnsupported,
    RemoteProtocolError,
)
from pyromq.model import MessageQueue, ReceivedMessage
from pyromq.wire import properties
from pyromq.wire.bodies.heartbeat_bodies import Subscription
from pyromq.wire.bodies.pop_bodies import BatchAck, decode_batch_ack
from pyromq.wire.command import Command
from pyromq.wire.header import read_header
from pyromq.wire.headers.pop_headers import (
    AckMessage,
    ChangeMessageInvisibleTime,
    ChangeMessageInvisibleTimeAnswer,
    PopMessage,
    PopMessageAnswer,
    PopNotificationAnswer,
)
from pyromq.wire.receipt_handle import ReceiptHandle
from pyromq.wire.record import Record, encode_host, encode_record

QUEUE = MessageQueue("orders", "a", -1)
ALL = Subscription(topic="orders")


@pytest.fixture
def stage() -> Stage:
    return two_brokers()


@pytest.fixture
def session(stage: Stage) -> Session:
    return stage.session()


def record(queue_id: int, offset: int, *, tag: str | None = None) -> bytes:
    pairs = {"UNIQ_KEY": f"U{queue_id}-{offset}"} | ({"TAGS": tag} if tag else {})
    return encode_record(
        Record(
            topic="orders",
            body=b"body",
            queue_id=queue_id,
            queue_offset=offset,
            position=1_000 + offset,
            properties=properties.encode(pairs),
            born_at_ms=11,
            born_host=encode_host("10.0.0.1", 5),
            stored_at_ms=22,
            store_host=encode_host("10.0.0.2", 10911),
        )
    )


def popped_answer(*records: bytes, starts: str, offsets: str, counts: str | None = None, revive: int = 3):
    header = PopMessageAnswer(
        pop_time=1_700_000_000_000,
        invisible_time=60_000,
        revive_qid=revive,
        rest_num=0,
        start_offset_info=starts,
        msg_offset_info=offsets,
        order_count_info=counts,
    )
    return answer(header=header, body=b"".join(records))


def nothing(_command: Command) -> Command:
    return answer(ResponseCode.POLLING_TIMEOUT, remark="NO_MESSAGE_IN_QUEUE")


def plays(**handlers: Broker) -> Broker:
    """A broker that answers some requests by name, and all others with success."""
    by_code = {RequestCode[name]: handler for name, handler in handlers.items()}
    return lambda command: by_code.get(RequestCode(command.code), lambda _: answer())(command)


def query(tags: str = "*", **changes) -> PopQuery:
    wanted = Subscription(topic="orders", sub_string=tags, tags=[] if tags == "*" else tags.split(" || "))
    words = {"count": 32, "invisible_ms": 60_000, "wait_ms": 0} | changes
    return PopQuery(queue=QUEUE, subscription=wanted, **words)


def popped(stage: Stage, session: Session, wanted: PopQuery | None = None) -> PopHaul:
    return stage.run(pop(session, wanted or query(), pop_deadline(session)))


def acknowledged(stage: Stage) -> list[BatchAck]:
    return [
        decode_batch_ack(call.command.body)
        for call in stage.calls
        if call.command.code == RequestCode.BATCH_ACK_MESSAGE
    ]


# Popping -------------------------------------------------------------------------------------------------


def test_a_pop_names_its_terms_and_no_offset(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = nothing

    assert popped(stage, session, query("a || b", count=7, wait_ms=15_000, is_fifo=True)).messages == []

    (call,) = [call for call in stage.calls if call.command.code == RequestCode.POP_MESSAGE]
    header = read_header(PopMessage, call.command.ext)
    assert (header.consumer_group, header.topic, header.queue_id) == ("group", "orders", -1)
    assert (header.max_msg_nums, header.invisible_time, header.poll_time) == (7, 60_000, 15_000)
    assert (header.exp_type, header.exp, header.order, header.init_mode) == ("TAG", "a || b", True, 1)
    assert header.born_time == 0
    assert call.timeout_s > 15


def test_messages_are_told_apart_by_queue_and_by_kind_of_topic(stage: Stage, session: Session) -> None:
    answer_of_three = popped_answer(
        record(1, 7),
        record(1, 9),
        record(0, 4),
        starts="0 1 6;1 0 4",
        offsets="0 1 7,9;1 0 4",
    )
    stage.brokers["a:1"] = lambda _command: answer_of_three

    batches = popped(stage, session).batches

    assert [(batch.mark, batch.queue_id, batch.offsets) for batch in batches] == [
        (0, 1, (7, 9)),
        (1, 0, (4,)),
    ]
    assert batches[0].handle(9) == ReceiptHandle(6, 1_700_000_000_000, 60_000, 3, 0, "a", 1, 9)
    assert batches[1].handle(4).real_topic("group", "orders") == "%RETRY%group_orders"


def test_messages_popped_in_order_know_how_often_they_were_delivered(stage: Stage, session: Session) -> None:
    counts = "0 qo0%0 1;0 qo0%1 2;0 0 0"
    stage.brokers["a:1"] = lambda _command: popped_answer(
        *(record(0, offset) for offset in range(3)),
        starts="0 0 0",
        offsets="0 0 0,1,2",
        counts=counts,
        revive=999,
    )
    assert [message.reconsume_times for message in popped(stage, session).messages] == [1, 2, 0]


def test_a_stranger_with_the_same_hash_of_its_tag_is_acknowledged(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = plays(
        POP_MESSAGE=lambda _command: popped_answer(
            record(1, 7, tag="Aa"), record(1, 8, tag="BB"), starts="0 1 7", offsets="0 1 7,8"
        )
    )

    assert [message.tags for message in popped(stage, session, query("Aa")).messages] == ["Aa"]

    (batch,) = acknowledged(stage)
    assert [(part.start_offset, part.bits) for part in batch.acks] == [(7, 0b10)]


@pytest.mark.parametrize(
    ("starts", "offsets"),
    [
        ("0 1 7", "0 1 7,8"),
        ("0 1 7", "0 2 7"),
        ("0 1 8", "0 1 7"),
        ("0 1 0", "0 1 99999999"),
        ("0 1", "0 1 7"),
        ("0 1 x", "0 1 7"),
        ("", "0 1 7"),
    ],
)
def test_an_answer_that_makes_no_sense_is_refused(
    stage: Stage, session: Session, starts: str, offsets: str
) -> None:
    stage.brokers["a:1"] = lambda _command: popped_answer(record(1, 7), starts=starts, offsets=offsets)
    with pytest.raises(RemoteProtocolError):
        popped(stage, session)


def test_counts_that_are_no_numbers_are_refused() -> None:
    header = PopMessageAnswer(
        pop_time=0, invisible_time=0, revive_qid=0, rest_num=0, order_count_info="0 qo0%x 1"
    )
    with pytest.raises(RemoteProtocolError):
        read_counts(header)


def test_a_broker_that_does_not_know_pop_is_named(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = refuses(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    with pytest.raises(PopUnsupported, match="broker a does not know POP"):
        popped(stage, session)


def test_after_a_failure_the_route_is_asked_for_again(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = nothing
    popped(stage, session)
    stage.down.add("a:1")
    with pytest.raises(ConnectFailed):
        popped(stage, session)
    stage.clock.advance(2_000)
    stage.routes["orders"] = route_of("a")
    stage.routes["orders"].broker_datas[0].broker_addrs[0] = "a2:1"
    stage.brokers["a2:1"] = nothing
    popped(stage, session)
    assert stage.asked(RequestCode.POP_MESSAGE) == ["a:1", "a:1", "a2:1"]


# Ending --------------------------------------------------------------------------------------------------


def one_batch(stage: Stage, session: Session) -> PoppedBatch:
    stage.brokers["a:1"] = plays(
        POP_MESSAGE=lambda _command: popped_answer(
            record(1, 7), record(1, 9), starts="0 1 6", offsets="0 1 7,9"
        ),
        CHANGE_MESSAGE_INVISIBLETIME=lambda _command: answer(
            header=ChangeMessageInvisibleTimeAnswer(
                pop_time=1_700_000_009_000, invisible_time=5_000, revive_qid=4
            )
        ),
    )
    (batch,) = popped(stage, session).batches
    return batch


def test_messages_that_are_done_are_bits_behind_the_start_of_their_batch(
    stage: Stage, session: Session
) -> None:
    batch = one_batch(stage, session)

    batch.finish(batch.bits(batch.messages[1:]))
    stage.run(pop_plans.ack(session, QUEUE, list(batch.take_done("group"))))

    (told,) = acknowledged(stage)
    (part,) = told.acks
    assert (told.broker_name, part.group, part.topic, part.mark) == ("a", "group", "orders", "0")
    assert (part.start_offset, part.queue_id, part.revive_queue_id, part.bits) == (6, 1, 3, 0b1000)
    assert (batch.count, list(batch.take_done("group"))) == (1, [])


def test_a_broker_without_batches_is_told_of_each_message(stage: Stage, session: Session) -> None:
    batch = one_batch(stage, session)
    stage.brokers["a:1"] = plays(BATCH_ACK_MESSAGE=refuses(ResponseCode.REQUEST_CODE_NOT_SUPPORTED))

    batch.finish(batch.left)
    stage.run(pop_plans.ack(session, QUEUE, list(batch.take_done("group"))))

    told = [
        read_header(AckMessage, call.command.ext)
        for call in stage.calls
        if call.command.code == RequestCode.ACK_MESSAGE
    ]
    assert [(header.topic, header.offset, header.extra_info) for header in told] == [
        ("orders", 7, "6 1700000000000 60000 3 0 a 1 7"),
        ("orders", 9, "6 1700000000000 60000 3 0 a 1 9"),
    ]


def test_a_message_whose_time_was_changed_has_a_handle_of_its_own(stage: Stage, session: Session) -> None:
    batch = one_batch(stage, session)
    change = InvisibleChange(batch.handle(9), 5_000)

    (changed,) = stage.run(pop_plans.change_invisible(session, QUEUE, [change]))

    assert changed == ReceiptHandle(9, 1_700_000_009_000, 5_000, 4, 0, "a", 1, 9)
    assert isinstance(changed, ReceiptHandle)
    batch.moved[9] = changed
    batch.finish(batch.left)
    assert [(part.start_offset, part.bits) for part in batch.take_done("group")] == [(9, 1), (6, 0b10)]
    header = read_header(ChangeMessageInvisibleTime, stage.calls[-1].command.ext)
    assert (header.topic, header.queue_id, header.offset, header.invisible_time) == ("orders", 1, 9, 5_000)
    assert header.extra_info == "6 1700000000000 60000 3 0 a 1 9"


def test_a_message_that_is_others_by_now_cannot_be_changed(stage: Stage, session: Session) -> None:
    batch = one_batch(stage, session)
    stage.brokers["a:1"] = refuses(ResponseCode.NO_MESSAGE)
    (changed,) = stage.run(
        pop_plans.change_invisible(session, QUEUE, [InvisibleChange(batch.handle(9), 5_000)])
    )
    assert isinstance(changed, HandleExpired)


def test_a_batch_is_others_when_its_time_is_over(stage: Stage, session: Session) -> None:
    batch = one_batch(stage, session)
    assert not batch.is_dropped
    stage.clock.advance(59_000)
    assert batch.is_dropped  # a second sooner than the broker's clock says
    batch.extend(60_000)
    assert not batch.is_dropped


# Receiving -----------------------------------------------------------------------------------------------


def received(stage: Stage, session: Session, *, wait_ms: int = 0, wants: Receiving | None = None):
    wants = wants or Receiving({"orders": ALL})
    terms = ReceiveTerms(32, 60_000, session.deadline(wait_ms, wait_ms))
    found: list[ReceivedMessage] = stage.run(receive(session, wants, terms))
    return found


ONE = popped_answer(record(1, 7), starts="0 1 6", offsets="0 1 7")


def test_received_messages_carry_their_handles(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = stage.brokers["b:1"] = plays(POP_MESSAGE=lambda _command: ONE)
    (message,) = received(stage, session)
    assert message.properties["POP_CK"] == "6 1700000000000 60000 3 0 a 1 7"


def test_brokers_take_turns(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = stage.brokers["b:1"] = plays(POP_MESSAGE=lambda _command: ONE)
    wants = Receiving({"orders": ALL})
    for _ in range(4):
        received(stage, session, wants=wants)
    assert stage.asked(RequestCode.POP_MESSAGE) == ["a:1", "b:1", "a:1", "b:1"]


def test_members_are_known_to_all_brokers_before_they_pop(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = stage.brokers["b:1"] = plays(POP_MESSAGE=nothing)
    received(stage, session)
    received(stage, session)
    assert stage.asked(RequestCode.HEART_BEAT) == ["a:1", "b:1"]


def test_where_all_brokers_are_empty_they_are_asked_to_notify(stage: Stage, session: Session) -> None:
    has_some = iter([nothing, nothing, lambda _command: ONE])
    stage.brokers["a:1"] = stage.brokers["b:1"] = plays(
        POP_MESSAGE=lambda command: next(has_some)(command),
        NOTIFICATION=lambda _command: answer(header=PopNotificationAnswer(has_msg=True)),
    )
    assert len(received(stage, session, wait_ms=10_000)) == 1
    assert stage.asked(RequestCode.NOTIFICATION) == ["a:1", "b:1"]
    assert stage.pauses == []


def test_a_broker_that_cannot_notify_is_looked_at_again(stage: Stage, session: Session) -> None:
    has_some = iter([nothing, nothing, lambda _command: ONE])
    stage.brokers["a:1"] = stage.brokers["b:1"] = plays(
        POP_MESSAGE=lambda command: next(has_some)(command),
        NOTIFICATION=refuses(ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
    )
    assert len(received(stage, session, wait_ms=10_000)) == 1
    assert stage.pauses == [0.2]


def test_one_broker_that_is_away_is_no_error(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = stage.brokers["b:1"] = plays(POP_MESSAGE=nothing)
    received(stage, session)
    stage.down.add("a:1")
    assert received(stage, session) == []


def test_all_brokers_away_are_tried_until_the_time_is_over(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = stage.brokers["b:1"] = plays(POP_MESSAGE=nothing)
    received(stage, session)
    stage.down |= {"a:1", "b:1"}
    with pytest.raises(ConnectFailed):
        received(stage, session, wait_ms=1_000)
    assert sum(stage.pauses) == pytest.approx(1.0)
    stage.on_pause = lambda _seconds: stage.down.clear()
    stage.brokers["a:1"] = stage.brokers["b:1"] = plays(POP_MESSAGE=lambda _command: ONE)
    stage.down |= {"a:1", "b:1"}
    assert len(received(stage, session, wait_ms=1_000)) == 1


def test_a_refusal_for_good_is_raised_at_once(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = stage.brokers["b:1"] = plays(POP_MESSAGE=refuses(ResponseCode.NO_PERMISSION))
    with pytest.raises(NoPermission):
        received(stage, session, wait_ms=10_000)
    assert stage.pauses == []


def test_nothing_is_received_without_a_subscription(stage: Stage, session: Session) -> None:
    with pytest.raises(ConfigError, match="subscribe to a topic first"):
        received(stage, session, wants=Receiving())


# A simple consumer's acknowledgements ---------------------------------------------------------------------


def test_messages_of_one_pop_are_acknowledged_as_bits(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = stage.brokers["b:1"] = plays(
        POP_MESSAGE=lambda _command: popped_answer(
            record(1, 7), record(1, 9), record(0, 4), starts="0 1 6;0 0 4", offsets="0 1 7,9;0 0 4"
        )
    )
    wants = Receiving({"orders": ALL})
    terms = ReceiveTerms(32, 60_000, session.deadline(0, 0))
    messages = stage.run(receive(session, wants, terms))

    (parts,) = acknowledgements_of(messages, "group", "").values()
    assert [(part.queue_id, part.start_offset, part.bits) for part in parts] == [
        (1, 6, 0b1010),
        (0, 4, 0b1),
    ]


@pytest.mark.parametrize(
    ("text", "bits"),
    [("6 5 60000 3 0 a 1 7 1234", [0b10, 0b1000]), ("6 5 60000 3 0 a 1 7", None)],
)
def test_a_handle_with_a_position_is_taken_and_one_that_was_changed_is_not(
    stage: Stage, session: Session, text: str, bits: list[int] | None
) -> None:
    stage.brokers["a:1"] = stage.brokers["b:1"] = plays(POP_MESSAGE=lambda _command: ONE)
    first, second = received(stage, session)[0], received(stage, session)[0]
    first.properties["POP_CK"] = text
    second.properties["POP_CK"] = text.replace(" 1 7", " 1 9" if bits else " 1 x")
    if bits is None:
        with pytest.raises(ConfigError, match="handle"):
            acknowledgements_of([first, second], "group", "")
    else:
        (parts,) = acknowledgements_of([first, second], "group", "").values()
        assert [part.bits for part in parts] == bits
