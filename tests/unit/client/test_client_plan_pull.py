import zlib

import pytest
from client_stage import Stage, answer, refuses, route_of, two_brokers

from pyromq.client.client_session import Session
from pyromq.client.plans import progress_plans
from pyromq.client.plans.pull_plans import PullQuery, pull, pull_deadline
from pyromq.codes import PullFlag, RequestCode, ResponseCode
from pyromq.errors import ConfigError, ConnectFailed, CorruptRecord, LocalProtocolError, NoRoute, Refused
from pyromq.model import MessageQueue, PullResult, PullStatus
from pyromq.wire import properties
from pyromq.wire.command import Command
from pyromq.wire.header import read_header
from pyromq.wire.headers.offset_headers import (
    GetEarliestMessageStoreTimeAnswer,
    GetMaxOffsetAnswer,
    QueryConsumerOffsetAnswer,
    SearchOffset,
    SearchOffsetAnswer,
    UpdateConsumerOffset,
)
from pyromq.wire.headers.pull_headers import PullMessage, PullMessageAnswer
from pyromq.wire.record import Record, encode_host, encode_record

QUEUE = MessageQueue("orders", "a", 1)


@pytest.fixture
def stage() -> Stage:
    return two_brokers()


@pytest.fixture
def session(stage: Stage) -> Session:
    return stage.session()


def record(offset: int, *, tag: str | None = None, body: bytes = b"body", sys_flag: int = 0) -> bytes:
    pairs = {"UNIQ_KEY": f"U{offset}"} | ({"TAGS": tag} if tag else {})
    return encode_record(
        Record(
            topic="orders",
            body=body,
            queue_id=1,
            queue_offset=offset,
            position=1_000 + offset,
            properties=properties.encode(pairs),
            sys_flag=sys_flag,
            born_at_ms=11,
            born_host=encode_host("10.0.0.1", 5),
            stored_at_ms=22,
            store_host=encode_host("10.0.0.2", 10911),
        )
    )


def has(*records: bytes, next_offset: int = 9, suggest: int = 0, code: int = ResponseCode.SUCCESS):
    header = PullMessageAnswer(
        suggest_which_broker_id=suggest, next_begin_offset=next_offset, min_offset=2, max_offset=9
    )
    return lambda _command: answer(code, header=header, body=b"".join(records))


def pulled(stage: Stage, session: Session, wanted: PullQuery | None = None) -> PullResult:
    wanted = wanted or PullQuery(QUEUE, 5)
    return stage.run(pull(session, wanted, pull_deadline(session, wanted.wait_ms, None)))


def test_a_pull_brings_messages_and_where_to_go_on(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = has(record(7), record(8))

    result = pulled(stage, session)

    assert (result.status, result.next_offset, result.min_offset, result.max_offset) == (
        PullStatus.FOUND,
        9,
        2,
        9,
    )
    first = result.messages[0]
    assert (first.queue, first.queue_offset, first.message_id, first.body) == (QUEUE, 7, "U7", b"body")
    assert (first.born_host, first.store_host) == ("10.0.0.1:5", "10.0.0.2:10911")
    assert (first.properties["MIN_OFFSET"], first.properties["MAX_OFFSET"]) == ("2", "9")


@pytest.mark.row("MM-04")
def test_a_message_s_place_id_is_store_host_and_log_position(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = has(record(7))

    message = pulled(stage, session).messages[0]

    assert message.offset_message_id == "0A000002" + "00002A9F" + f"{1_007:016X}"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ResponseCode.PULL_NOT_FOUND, PullStatus.NO_NEW_MESSAGE),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, PullStatus.NO_MATCHED_MESSAGE),
        (ResponseCode.PULL_OFFSET_MOVED, PullStatus.OFFSET_ILLEGAL),
    ],
)
def test_a_pull_without_messages_says_why(
    stage: Stage, session: Session, code: int, status: PullStatus
) -> None:
    stage.brokers["a:1"] = has(code=code, next_offset=3)

    result = pulled(stage, session)

    assert (result.status, result.next_offset, result.messages) == (status, 3, [])


def test_any_other_answer_is_an_error(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = refuses(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "no such group")

    with pytest.raises(Refused, match="no such group"):
        pulled(stage, session)


def test_a_pull_says_its_filter_and_whether_to_hold_it(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = has(code=ResponseCode.PULL_NOT_FOUND)

    pulled(stage, session, PullQuery(QUEUE, 5, count=3, tags="paid || open", wait_ms=20_000))
    pulled(stage, session)

    held, plain = (read_header(PullMessage, call.command.ext) for call in stage.calls[1:])
    assert (held.sys_flag, held.suspend_timeout_millis) == (PullFlag.SUBSCRIPTION | PullFlag.SUSPEND, 20_000)
    assert (held.subscription, held.max_msg_nums, held.queue_offset) == ("paid || open", 3, 5)
    assert (plain.sys_flag, plain.subscription) == (PullFlag.SUBSCRIPTION, "*")
    assert stage.calls[1].timeout_s == pytest.approx(30.0)


@pytest.mark.row("BA-09")
def test_a_pull_asks_for_32_messages_unless_told_otherwise_and_for_1024_at_most(
    stage: Stage, session: Session
) -> None:
    stage.brokers["a:1"] = has(code=ResponseCode.PULL_NOT_FOUND)

    pulled(stage, session)

    assert read_header(PullMessage, stage.calls[-1].command.ext).max_msg_nums == 32
    assert PullQuery(QUEUE, 0, count=1_024).count == 1_024
    for count in (0, -1, 1_025):
        with pytest.raises(ConfigError, match="1024"):
            PullQuery(QUEUE, 0, count=count)


@pytest.mark.row("FI-01")
def test_a_stranger_with_the_same_tag_hash_is_left_out(stage: Stage, session: Session) -> None:
    # «Aa» and «BB» have one hash in Java.
    stage.brokers["a:1"] = has(record(7, tag="Aa"), record(8, tag="BB"), record(9))

    result = pulled(stage, session, PullQuery(QUEUE, 5, tags="BB || x"))

    assert [message.tags for message in result.messages] == ["BB"]


@pytest.mark.row("MM-05")
@pytest.mark.parametrize("flag", [0x1, 0x301])
def test_a_compressed_body_arrives_plain(stage: Stage, session: Session, flag: int) -> None:
    stage.brokers["a:1"] = has(record(7, body=zlib.compress(b"long " * 1_000), sys_flag=flag))

    assert pulled(stage, session).messages[0].body == b"long " * 1_000


def test_a_compression_that_we_cannot_read_is_named(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = has(record(7, sys_flag=0x401))

    with pytest.raises(LocalProtocolError, match="0x401"):
        pulled(stage, session)


def test_a_body_that_does_not_decompress_is_corrupt(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = has(record(7, body=b"not zlib", sys_flag=1))

    with pytest.raises(CorruptRecord):
        pulled(stage, session)


def test_the_next_pull_goes_to_the_broker_that_was_suggested(stage: Stage, session: Session) -> None:
    stage.routes["orders"] = route_of("a")
    stage.routes["orders"].broker_datas[0].broker_addrs[1] = "slave:1"
    stage.brokers["a:1"] = has(suggest=1, code=ResponseCode.PULL_NOT_FOUND)
    stage.brokers["slave:1"] = has(suggest=0, code=ResponseCode.PULL_NOT_FOUND)

    for _ in range(3):
        pulled(stage, session)

    assert stage.asked(RequestCode.PULL_MESSAGE) == ["a:1", "slave:1", "a:1"]


def test_after_a_failure_the_next_pull_goes_to_the_master(stage: Stage, session: Session) -> None:
    stage.routes["orders"] = route_of("a")
    stage.routes["orders"].broker_datas[0].broker_addrs[1] = "slave:1"
    stage.brokers["a:1"] = has(suggest=1, code=ResponseCode.PULL_NOT_FOUND)
    stage.down.add("slave:1")
    pulled(stage, session)

    with pytest.raises(ConnectFailed, match="--advertise"):
        pulled(stage, session)
    pulled(stage, session)

    assert stage.asked(RequestCode.PULL_MESSAGE) == ["a:1", "slave:1", "a:1"]


def test_a_queue_of_an_unknown_broker_is_refused(stage: Stage, session: Session) -> None:
    with pytest.raises(NoRoute, match="'x'"):
        pulled(stage, session, PullQuery(MessageQueue("orders", "x", 0), 0))


def api_deadline(session: Session):
    return session.deadline(None, session.settings.mq_client_api_timeout)


def test_progress_is_what_the_broker_remembers_or_none(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = lambda _: answer(header=QueryConsumerOffsetAnswer(offset=12))
    assert stage.run(progress_plans.committed(session, QUEUE, api_deadline(session))) == 12

    stage.brokers["a:1"] = refuses(ResponseCode.QUERY_NOT_FOUND)
    assert stage.run(progress_plans.committed(session, QUEUE, api_deadline(session))) is None


@pytest.mark.row("MM-12")
def test_a_commit_says_which_offset_is_read_next(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = lambda _: answer()

    stage.run(progress_plans.commit(session, QUEUE, 13, api_deadline(session)))

    header = read_header(UpdateConsumerOffset, stage.calls[-1].command.ext)
    assert header == UpdateConsumerOffset(
        consumer_group="group", topic="orders", queue_id=1, commit_offset=13
    )
    assert not stage.calls[-1].oneway


@pytest.mark.row("PR-18")
def test_begin_end_and_times_of_a_queue_are_asked_of_its_master(stage: Stage, session: Session) -> None:
    def broker(command: Command) -> Command:
        if command.code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
            return answer(header=SearchOffsetAnswer(offset=read_header(SearchOffset, command.ext).timestamp))
        if command.code == RequestCode.GET_EARLIEST_MSG_STORETIME:
            return answer(header=GetEarliestMessageStoreTimeAnswer(timestamp=77))
        return answer(header=GetMaxOffsetAnswer(offset=command.code))

    stage.brokers["a:1"] = broker
    deadline = api_deadline(session)

    assert stage.run(progress_plans.max_offset(session, QUEUE, deadline)) == RequestCode.GET_MAX_OFFSET
    assert stage.run(progress_plans.min_offset(session, QUEUE, deadline)) == RequestCode.GET_MIN_OFFSET
    assert stage.run(progress_plans.offset_by_time(session, QUEUE, 55, deadline)) == 55
    assert stage.run(progress_plans.earliest_time(session, QUEUE, deadline)) == 77


def test_an_empty_queue_has_no_earliest_time(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = lambda _: answer(header=GetEarliestMessageStoreTimeAnswer(timestamp=-1))

    assert stage.run(progress_plans.earliest_time(session, QUEUE, api_deadline(session))) is None


def test_the_queues_to_read_are_those_of_all_brokers(stage: Stage, session: Session) -> None:
    queues = stage.run(progress_plans.subscribe_queues(session, "orders", api_deadline(session)))

    assert queues == [MessageQueue("orders", broker, number) for broker in "ab" for number in range(4)]


def test_the_offsets_of_a_queue_whose_master_is_away_cannot_be_asked_for(
    stage: Stage, session: Session
) -> None:
    with pytest.raises(NoRoute, match="no master"):
        stage.run(progress_plans.max_offset(session, MessageQueue("orders", "x", 0), api_deadline(session)))
