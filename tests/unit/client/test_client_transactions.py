import asyncio
import logging
import threading
from functools import partial

import pytest
from client_stage import Broker, Stage, answer, two_brokers
from push_messages import received

from pyromq.client.client_session import Session
from pyromq.client.plans import send_plans, transaction_plans
from pyromq.client.plans.send_plans import SendTarget
from pyromq.client.producer import transactions
from pyromq.client.producer.outgoing import prepare
from pyromq.client.producer.transactions import Calls, asked_about, executed, may_execute, result_of
from pyromq.client.steps import Deadline
from pyromq.codes import RequestCode, SysFlag
from pyromq.config.settings import ClientSettings
from pyromq.errors import LocalProtocolError, MessageIllegal, NoRoute
from pyromq.model import Message, MessageQueue, SendResult, SendStatus, TransactionState
from pyromq.net.routes import Request
from pyromq.wire import properties as names
from pyromq.wire.command import Command
from pyromq.wire.header import read_header
from pyromq.wire.headers.send_headers import SendMessageV2
from pyromq.wire.headers.transaction_headers import CheckTransactionState, EndTransaction
from pyromq.wire.message_id import offset_message_id
from pyromq.wire.record import Record, encode_host, encode_record

ORDER = Message("orders", b"body", properties={"city": "Turku"})
HOST = encode_host("127.0.0.1", 10911)
SENT = SendResult(
    SendStatus.SEND_OK, "UNIQ", offset_message_id(HOST, 4_711), MessageQueue("orders", "a", 0), 12, "TX"
)
CODES = {TransactionState.COMMIT: 8, TransactionState.ROLLBACK: 12, TransactionState.UNKNOWN: 0}


@pytest.fixture
def stage() -> Stage:
    stage = two_brokers()
    for address, store in stage.brokers.items():
        stage.brokers[address] = partial(stores_or_takes_the_end, store)
    return stage


def stores_or_takes_the_end(store: Broker, command: Command) -> Command:
    return answer() if command.code == RequestCode.END_TRANSACTION else store(command)


@pytest.fixture
def session(stage: Stage) -> Session:
    session = stage.session(group="pg")
    stage.run(send_plans.publish_queues(session, "orders", Deadline(stage.clock, 3_000)))
    return session


def ends(stage: Stage) -> list[EndTransaction]:
    return [
        read_header(EndTransaction, call.command.ext)
        for call in stage.calls
        if call.command.code == RequestCode.END_TRANSACTION
    ]


@pytest.mark.row("MM-08", "TX-01")
def test_a_half_message_is_marked_with_its_group_and_its_id(stage: Stage, session: Session) -> None:
    half = transaction_plans.half_of(session, ORDER)
    outgoing = prepare(half, "not used", session.settings)
    stage.run(
        send_plans.send(
            session, outgoing, SendTarget(), send_plans.sync_rule(session), Deadline(stage.clock, 3_000)
        )
    )

    header = read_header(SendMessageV2, stage.calls[-1].command.ext)
    pairs = names.decode(header.properties or "")
    assert (pairs["TRAN_MSG"], pairs["PGROUP"], pairs["city"]) == ("true", "pg", "Turku")
    assert header.sys_flag & SysFlag.TRANSACTION_PREPARED
    assert pairs["UNIQ_KEY"] == half.message_id
    assert ORDER.properties == {"city": "Turku"}
    assert ORDER.message_id is None


@pytest.mark.row("MM-09")
@pytest.mark.parametrize(
    "message",
    [
        Message("orders", b"x", delay_level=3),
        Message("orders", b"x", properties={"__STARTDELIVERTIME": "1"}),
    ],
)
def test_a_delayed_message_is_no_half_message(session: Session, message: Message) -> None:
    with pytest.raises(MessageIllegal, match="delayed"):
        transaction_plans.half_of(session, message)


@pytest.mark.row("TX-03")
@pytest.mark.parametrize("state", TransactionState)
def test_the_broker_of_the_half_message_is_told_how_it_ended(
    stage: Stage, session: Session, state: TransactionState
) -> None:
    stage.run(transaction_plans.end(session, ORDER, SENT, state, None))

    (header,) = ends(stage)
    assert (header.producer_group, header.msg_id, header.transaction_id) == ("pg", "UNIQ", "TX")
    assert (header.commit_log_offset, header.tran_state_table_offset) == (4_711, 12)
    assert header.commit_or_rollback == CODES[state]
    assert not header.from_transaction_check
    assert (stage.calls[-1].address, stage.calls[-1].oneway) == ("a:1", True)


def test_what_the_execution_raised_is_told_with_the_end(stage: Stage, session: Session) -> None:
    stage.run(transaction_plans.end(session, ORDER, SENT, TransactionState.UNKNOWN, ValueError("no money")))

    assert stage.calls[-1].command.remark == "ValueError: no money"


def test_an_end_for_a_broker_that_is_gone_is_not_told(stage: Stage) -> None:
    with pytest.raises(NoRoute, match="asks for the transaction"):
        stage.run(transaction_plans.end(stage.session(), ORDER, SENT, TransactionState.COMMIT, None))


@pytest.mark.row("TX-04")
def test_a_question_is_answered_to_the_broker_that_asked(stage: Stage, session: Session) -> None:
    asked = CheckTransactionState(
        tran_state_table_offset=13, commit_log_offset=5_000, msg_id="M", transaction_id="TX"
    )

    stage.run(
        transaction_plans.answer_check(
            session,
            "b:1",
            asked,
            received(message_id="UNIQ"),
            TransactionState.ROLLBACK,
            ValueError("x"),
        )
    )

    (header,) = ends(stage)
    assert header.from_transaction_check
    assert (header.commit_log_offset, header.tran_state_table_offset) == (5_000, 13)
    assert (header.commit_or_rollback, header.msg_id, header.transaction_id) == (12, "UNIQ", "TX")
    assert (stage.calls[-1].address, stage.calls[-1].oneway) == ("b:1", True)
    assert stage.calls[-1].command.remark == "ValueError: x"


def test_a_result_has_all_of_the_send_and_the_local_state() -> None:
    error = ValueError("x")

    result = result_of(SENT, TransactionState.UNKNOWN, error)

    assert (result.message_id, result.queue, result.transaction_id) == ("UNIQ", SENT.queue, "TX")
    assert (result.state, result.error) == (TransactionState.UNKNOWN, error)


@pytest.mark.row("TX-02")
@pytest.mark.parametrize("status", SendStatus)
def test_only_a_half_message_that_is_safe_is_executed(status: SendStatus) -> None:
    sent = SendResult(status, "UNIQ", "ID", SENT.queue, 0)

    assert may_execute(sent) == (status is SendStatus.SEND_OK)


def test_a_local_transaction_gets_its_message_and_its_argument() -> None:
    seen = []

    def execute(message: Message, argument: object) -> TransactionState:
        seen.append((message, argument))
        return TransactionState.COMMIT

    assert executed(execute, ORDER, 42) == (TransactionState.COMMIT, None)
    assert seen == [(ORDER, 42)]


@pytest.mark.parametrize("wrong", [None, True, "COMMIT_MESSAGE"])
def test_a_local_transaction_that_returns_no_state_says_what_to_return(wrong: object) -> None:
    state, error = executed(lambda *_: wrong, ORDER, None)  # type: ignore[arg-type,return-value]

    assert state is TransactionState.UNKNOWN
    assert isinstance(error, TypeError)
    assert "TransactionState.COMMIT" in str(error)


def test_a_coroutine_function_is_not_for_the_blocking_producer() -> None:
    async def execute(_message: Message, _argument: object) -> TransactionState:
        return TransactionState.COMMIT

    state, error = executed(execute, ORDER, None)

    assert state is TransactionState.UNKNOWN
    assert isinstance(error, TypeError)
    assert "pyromq.aio" in str(error)


async def test_coroutine_functions_are_called_on_the_loop_and_others_on_threads() -> None:
    calls, threads = Calls(1), []

    async def on_loop(_message: Message) -> TransactionState:
        threads.append(threading.current_thread())
        return TransactionState.COMMIT

    def on_thread(_message: Message) -> TransactionState:
        threads.append(threading.current_thread())
        return TransactionState.ROLLBACK

    functions = (on_loop, on_thread, lambda message: on_loop(message))
    outcomes = [await calls.call(function, ORDER) for function in functions]
    calls.close()

    states = [TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.COMMIT]
    assert outcomes == [(state, None) for state in states]
    assert [thread is threading.current_thread() for thread in threads] == [True, False, True]


async def test_questions_that_wait_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "CHECKS_HELD_MAX", 1)
    calls, may_end = Calls(1), asyncio.Event()

    async def stuck(_message: Message) -> TransactionState:
        await may_end.wait()
        return TransactionState.COMMIT

    assert not calls.is_full
    task = asyncio.create_task(calls.call(stuck, ORDER))
    await asyncio.sleep(0)
    assert calls.is_full
    may_end.set()
    await task
    assert not calls.is_full


class Peer:
    peer = "10.0.0.1:10911"


def question(*, group: str = "pg", topic: str = "orders", count: int = 1) -> Request[CheckTransactionState]:
    record = Record(
        queue_id=0,
        flag=0,
        queue_offset=12,
        position=4_711,
        sys_flag=SysFlag.TRANSACTION_PREPARED,
        born_at_ms=0,
        born_host=HOST,
        stored_at_ms=0,
        store_host=HOST,
        reconsume_times=0,
        prepared_position=0,
        body=b"body",
        topic=topic,
        properties=names.encode({"PGROUP": group, "UNIQ_KEY": "UNIQ"}),
    )
    header = CheckTransactionState(tran_state_table_offset=12, commit_log_offset=4_711)
    return Request(Command(39, body=encode_record(record) * count), header, Peer())  # type: ignore[arg-type]


@pytest.mark.row("TX-05")
def test_a_question_brings_the_half_message(session: Session) -> None:
    message = asked_about(session, question())

    assert message is not None
    assert (message.topic, message.body, message.message_id) == ("orders", b"body", "UNIQ")


def test_a_question_for_another_group_is_not_answered(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "pyromq.client"):
        assert asked_about(session, question(group="others")) is None
    assert "others" in caplog.text


def test_a_question_shows_the_application_s_topic(stage: Stage) -> None:
    session = stage.session(ClientSettings(namespace="shop"), group="shop%pg")

    message = asked_about(session, question(group="shop%pg", topic="shop%orders"))

    assert message is not None
    assert message.topic == "orders"


def test_a_question_without_a_message_does_not_read(session: Session) -> None:
    with pytest.raises(LocalProtocolError, match="one message"):
        asked_about(session, question(count=0))
