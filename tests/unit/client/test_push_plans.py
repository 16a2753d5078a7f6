"""What a push consumer asks of brokers: held pulls, membership, locks, send-backs."""

import pytest
from client_stage import Stage, answer, refuses, route_of, stores, two_brokers
from push_messages import received

from pyromq.client.client_session import Session
from pyromq.client.consumer.topic_subscription import subscription
from pyromq.client.plans.lock_plans import lock, unlock
from pyromq.client.plans.membership_plans import check_subscription, consumer_ids, heartbeat, leave
from pyromq.client.plans.pull_plans import MemberPull, member_pull
from pyromq.client.plans.route_plans import subscribe_route
from pyromq.client.plans.send_back import send_back, send_to_retry_topic
from pyromq.client.steps import Deadline
from pyromq.codes import PullFlag, RequestCode, ResponseCode
from pyromq.config.settings import ClientSettings
from pyromq.errors import NetworkError, NoRoute, Refused
from pyromq.model import MessageQueue, PullStatus
from pyromq.wire import properties as names
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, decode_client_config_check, decode_heartbeat
from pyromq.wire.bodies.lock_bodies import decode_lock_batch, encode_consumer_ids, encode_locked_queues
from pyromq.wire.command import Command
from pyromq.wire.header import read_header
from pyromq.wire.headers.group_headers import UnregisterClient
from pyromq.wire.headers.pull_headers import PullMessage, PullMessageAnswer
from pyromq.wire.headers.send_headers import SendMessageV2
from pyromq.wire.headers.transaction_headers import ConsumerSendMessageBack

QUEUE = MessageQueue("orders", "a", 0)
ALL = subscription("orders", version=7)
RETRY = "%RETRY%group"


@pytest.fixture
def stage() -> Stage:
    stage = two_brokers()
    stage.routes[RETRY] = route_of("a", "b", queues=1)
    return stage


@pytest.fixture
def session(stage: Stage) -> Session:
    return known(stage)


def known(stage: Stage, **settings) -> Session:
    session = stage.session(ClientSettings(**settings))
    stage.run(subscribe_route(session, "orders", Deadline(stage.clock, 3_000)))
    stage.calls.clear()
    return session


def gives(code: int = ResponseCode.PULL_NOT_FOUND, *, suggested: int = 0, next_offset: int = 5):
    header = PullMessageAnswer(
        suggest_which_broker_id=suggested, next_begin_offset=next_offset, min_offset=0, max_offset=9
    )
    return lambda _command: answer(code, header=header)


def pulls(stage: Stage) -> list[PullMessage]:
    return [
        read_header(PullMessage, call.command.ext)
        for call in stage.calls
        if call.command.code == RequestCode.PULL_MESSAGE
    ]


# Pulls ---------------------------------------------------------------------------------------------------


@pytest.mark.row("CO-02")
def test_a_pull_is_held_for_fifteen_seconds_and_may_take_thirty(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = gives()

    result = stage.run(member_pull(session, MemberPull(QUEUE, 3, ALL)))

    (pull,) = pulls(stage)
    assert (pull.suspend_timeout_millis, pull.max_msg_nums, pull.queue_offset) == (15_000, 32, 3)
    assert stage.calls[-1].timeout_s == 30.0
    assert (result.status, result.next_offset) == (PullStatus.NO_NEW_MESSAGE, 5)


def test_a_pull_names_the_version_of_the_subscription_and_not_the_tags(
    stage: Stage, session: Session
) -> None:
    stage.brokers["a:1"] = gives()

    stage.run(member_pull(session, MemberPull(QUEUE, 3, subscription("orders", "paid", version=9))))

    (pull,) = pulls(stage)
    assert (pull.subscription, pull.sub_version, pull.expression_type) == (None, 9, "TAG")
    assert pull.sys_flag == PullFlag.SUSPEND


def test_the_tags_travel_with_the_pull_when_they_should(stage: Stage) -> None:
    stage.brokers["a:1"] = gives()
    session = known(stage, post_subscription_when_pull=True)

    stage.run(member_pull(session, MemberPull(QUEUE, 3, subscription("orders", "paid", version=9))))

    (pull,) = pulls(stage)
    assert (pull.subscription, pull.sys_flag) == ("paid", PullFlag.SUSPEND | PullFlag.SUBSCRIPTION)


@pytest.mark.row("OF-07")
def test_progress_travels_with_the_pull(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = gives()

    stage.run(member_pull(session, MemberPull(QUEUE, 9, ALL, progress=4)))
    stage.run(member_pull(session, MemberPull(QUEUE, 9, ALL, progress=0)))

    with_progress, without = pulls(stage)
    assert (with_progress.commit_offset, with_progress.sys_flag & PullFlag.COMMIT_OFFSET) == (4, 1)
    assert without.sys_flag & PullFlag.COMMIT_OFFSET == 0


@pytest.mark.row("CO-06")
def test_the_next_pull_goes_to_the_slave_that_was_suggested_and_commits_nothing_there(stage: Stage) -> None:
    stage.routes["orders"].broker_datas[0].broker_addrs[1] = "slave:1"
    stage.brokers["a:1"] = stage.brokers["slave:1"] = gives(suggested=1)
    session = known(stage)

    for _ in range(2):
        stage.run(member_pull(session, MemberPull(QUEUE, 9, ALL, progress=4)))

    assert stage.asked(RequestCode.PULL_MESSAGE) == ["a:1", "slave:1"]
    assert pulls(stage)[1].sys_flag & PullFlag.COMMIT_OFFSET == 0


def test_after_a_failure_the_pull_starts_at_the_master_again(stage: Stage, session: Session) -> None:
    session.reading_from[QUEUE] = 1
    stage.down.add("a:1")

    with pytest.raises(NetworkError):
        stage.run(member_pull(session, MemberPull(QUEUE, 9, ALL)))

    assert QUEUE not in session.reading_from


def test_an_offset_that_is_none_of_the_queues_is_told(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = gives(ResponseCode.PULL_OFFSET_MOVED, next_offset=2)

    result = stage.run(member_pull(session, MemberPull(QUEUE, 99, ALL)))

    assert (result.status, result.next_offset) == (PullStatus.OFFSET_ILLEGAL, 2)


# Membership ----------------------------------------------------------------------------------------------


def test_a_heartbeat_says_what_the_member_wants(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = lambda _: answer()
    part = ConsumerPart(group_name="group", subscriptions=[ALL])

    assert stage.run(heartbeat(session, part, "a:1"))

    beat = decode_heartbeat(stage.calls[-1].command.body)
    assert (beat.client_id, beat.consumers, beat.producers) == ("client", [part], [])


def test_a_heartbeat_that_fails_is_no_error(stage: Stage, session: Session) -> None:
    stage.down.add("a:1")

    assert not stage.run(heartbeat(session, ConsumerPart(group_name="group"), "a:1"))


def test_a_farewell_names_the_group_and_never_fails(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = refuses(ResponseCode.SYSTEM_ERROR)

    stage.run(leave(session, "a:1"))

    header = read_header(UnregisterClient, stage.calls[-1].command.ext)
    assert (header.client_id, header.consumer_group, header.producer_group) == ("client", "group", None)


@pytest.mark.row("RB-01")
def test_one_of_the_topics_brokers_says_who_is_in_the_group(stage: Stage, session: Session) -> None:
    for address in ("a:1", "b:1"):
        stage.brokers[address] = lambda _: answer(body=encode_consumer_ids(["client", "other"]))

    assert stage.run(consumer_ids(session, "orders")) == ["client", "other"]
    assert len(stage.asked(RequestCode.GET_CONSUMER_LIST_BY_GROUP)) == 1


def test_nobody_knows_the_members_of_a_topic_that_is_nowhere(stage: Stage, session: Session) -> None:
    with pytest.raises(NoRoute):
        stage.run(consumer_ids(session, "nowhere"))


def test_a_broker_that_cannot_filter_so_says_it(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = stage.brokers["b:1"] = refuses(ResponseCode.SYSTEM_ERROR, "no SQL92")
    wanted = subscription("orders", sql="a > 1", version=1)

    with pytest.raises(Refused, match="no SQL92"):
        stage.run(check_subscription(session, wanted))

    check = decode_client_config_check(stage.calls[-1].command.body)
    assert (check.client_id, check.group, check.subscription) == ("client", "group", wanted)


# Locks ---------------------------------------------------------------------------------------------------


@pytest.mark.row("OR-03")
def test_queues_are_locked_for_this_member_at_their_broker(stage: Stage, session: Session) -> None:
    other = MessageQueue("orders", "a", 1)
    stage.brokers["a:1"] = lambda _: answer(body=encode_locked_queues([other]))

    assert stage.run(lock(session, [QUEUE, other])) == {other}

    asked = decode_lock_batch(stage.calls[-1].command.body)
    assert (asked.consumer_group, asked.client_id, asked.queues) == ("group", "client", [QUEUE, other])
    assert (stage.calls[-1].address, stage.calls[-1].timeout_s) == ("a:1", 1.0)


@pytest.mark.parametrize("oneway", [True, False])
def test_queues_are_unlocked_with_or_without_the_brokers_word(
    stage: Stage, session: Session, *, oneway: bool
) -> None:
    stage.brokers["a:1"] = lambda _: answer()

    stage.run(unlock(session, [QUEUE], oneway=oneway))

    assert stage.asked(RequestCode.UNLOCK_BATCH_MQ) == ["a:1"]
    assert stage.calls[-1].oneway is oneway


# Messages that come again --------------------------------------------------------------------------------


def test_a_failed_message_is_sent_back_to_its_broker_by_its_position(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = lambda _: answer()

    stage.run(send_back(session, received(3, queue=QUEUE), 5, 16))

    header = read_header(ConsumerSendMessageBack, stage.calls[-1].command.ext)
    assert (header.offset, header.group, header.delay_level, header.max_reconsume_times) == (
        1_003,
        "group",
        5,
        16,
    )
    assert (header.origin_msg_id, header.origin_topic) == ("ID3", "orders")
    assert (stage.calls[-1].address, stage.calls[-1].timeout_s) == ("a:1", 5.0)


@pytest.mark.parametrize(
    "code",
    [
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    ],
)
def test_a_message_that_its_broker_has_stored_is_not_sent_once_more(
    stage: Stage, session: Session, code: ResponseCode
) -> None:
    """While a synchronous master has no slave, each failure would double the message."""
    stage.brokers["a:1"] = stage.brokers["b:1"] = lambda _: answer(code)

    stage.run(send_back(session, received(3, queue=QUEUE), 0, 16))

    assert stage.asked(RequestCode.SEND_MESSAGE_V2) == []


def test_a_broker_without_a_route_is_found_by_the_messages_own_address(stage: Stage) -> None:
    session = stage.session()
    stage.brokers["a:1"] = lambda _: answer()

    stage.run(send_back(session, received(3, queue=QUEUE, store_host="a:1"), 0, 16))

    assert stage.asked(RequestCode.CONSUMER_SEND_MSG_BACK) == ["a:1"]


def sent(stage: Stage) -> tuple[SendMessageV2, dict[str, str], Command]:
    command = next(
        call.command for call in reversed(stage.calls) if call.command.code == RequestCode.SEND_MESSAGE_V2
    )
    header = read_header(SendMessageV2, command.ext)
    return header, names.decode(header.properties or ""), command


def sends_only(code: int = ResponseCode.SUCCESS):
    """A broker that stores sends and refuses everything else."""
    store = stores(code)

    def broker(command: Command) -> Command:
        if command.code == RequestCode.SEND_MESSAGE_V2:
            return store(command)
        return answer(ResponseCode.SYSTEM_ERROR, remark="no")

    return broker


def test_a_message_that_its_broker_does_not_take_back_is_sent_to_the_retry_topic(
    stage: Stage, session: Session
) -> None:
    stage.brokers["a:1"] = stage.brokers["b:1"] = sends_only()
    message = received(
        3,
        queue=QUEUE,
        body=b"body",
        flag=4,
        reconsume_times=2,
        properties={"KEYS": "k", "MIN_OFFSET": "1", "MAX_OFFSET": "9", "TRAN_MSG": "true"},
    )

    stage.run(send_back(session, message, 0, 16))

    header, properties, command = sent(stage)
    assert (header.topic, header.producer_group, header.flag) == (RETRY, "CLIENT_INNER_PRODUCER", 4)
    assert (header.reconsume_times, command.body) == (3, b"body")
    assert properties == {
        "KEYS": "k",
        "ORIGIN_MESSAGE_ID": "ID3",
        "RETRY_TOPIC": "orders",
        "DELAY": "5",
    }


@pytest.mark.row("SC-06", "RT-05")
@pytest.mark.parametrize(
    ("times", "times_max", "level", "is_dead"),
    [
        (0, 2, 0, False),
        (1, 2, 0, False),  # 4.9's broker would bury this one if it were told 2 of 2
        (2, 2, 0, True),
        (15, 16, 0, False),
        (16, 16, 0, True),
        (0, 0, 0, True),
        (0, 16, -1, True),
    ],
)
def test_a_message_sent_to_the_retry_topic_has_as_many_tries_as_one_that_its_broker_takes_back(
    stage: Stage, session: Session, times: int, times_max: int, level: int, is_dead: bool
) -> None:
    stage.brokers["a:1"] = stage.brokers["b:1"] = sends_only()

    stage.run(send_back(session, received(3, queue=QUEUE, reconsume_times=times), level, times_max))

    header, _, _ = sent(stage)
    assert header.reconsume_times == times + 1
    assert header.max_reconsume_times is not None
    buried_by_49 = header.reconsume_times >= header.max_reconsume_times
    buried_by_5x = header.reconsume_times > header.max_reconsume_times
    assert (buried_by_49, buried_by_5x) == (is_dead, is_dead)


def test_a_message_in_order_that_failed_too_often_goes_to_the_retry_topic_as_it_is(
    stage: Stage, session: Session
) -> None:
    stage.brokers["a:1"] = stage.brokers["b:1"] = sends_only(ResponseCode.FLUSH_DISK_TIMEOUT)

    stage.run(send_to_retry_topic(session, received(3, reconsume_times=5), 5, gives_up=True))

    header, _, _ = sent(stage)
    assert (header.reconsume_times, header.max_reconsume_times) == (5, 0)


def test_a_retry_topics_broker_that_fails_is_passed_over(stage: Stage, session: Session) -> None:
    stage.down.add("a:1")
    stage.brokers["b:1"] = sends_only()

    stage.run(send_back(session, received(3, queue=QUEUE), 0, 16))

    assert stage.asked(RequestCode.SEND_MESSAGE_V2)[-1] == "b:1"


def test_a_message_that_nobody_takes_is_an_error(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = stage.brokers["b:1"] = refuses(ResponseCode.SYSTEM_BUSY, "busy")

    with pytest.raises(Refused, match="busy"):
        stage.run(send_back(session, received(3, queue=QUEUE), 0, 16))
