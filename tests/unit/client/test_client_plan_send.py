import pytest
from client_stage import NAME_SERVERS, Stage, refuses, route_of, stores, two_brokers

from pyromq.client.client_session import Session
from pyromq.client.plans import send_plans
from pyromq.client.plans.send_plans import SendTarget
from pyromq.client.producer.outgoing import prepare, prepare_batch
from pyromq.client.producer.queue_choice import RoundRobin, select_by_hash
from pyromq.client.steps import Deadline
from pyromq.codes import ClientCode, RequestCode, ResponseCode, SysFlag
from pyromq.config.settings import ClientSettings
from pyromq.errors import (
    ConnectFailed,
    ConnectionLost,
    MessageIllegal,
    NoNameServerKnown,
    NoReply,
    NoRoute,
    Refused,
    RequestTimeout,
    SendFailed,
    SystemBusy,
)
from pyromq.model import Message, MessageQueue, SendResult, SendStatus
from pyromq.wire.header import read_header, write_header
from pyromq.wire.headers.send_headers import SendMessageV2

ORDER = Message("orders", b"body", tags="paid", keys=["42"], properties={"city": "Turku"}, flag=3)
RETRIED = [
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.NO_PERMISSION,
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.NO_BUYER_ID,
    ResponseCode.NOT_IN_CURRENT_UNIT,
]
FINAL = [
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.MESSAGE_ILLEGAL,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
    ResponseCode.VERSION_NOT_SUPPORTED,
]


@pytest.fixture
def stage() -> Stage:
    """Two brokers without slaves; how a master is replaced is in test_client_plan_switch.py."""
    return two_brokers()


@pytest.fixture
def session(stage: Stage) -> Session:
    return starting_at_a(stage.session())


def starting_at_a(session: Session) -> Session:
    """Let the first send go to broker a, and a retry that does not care to a as well."""
    session._turns["orders"] = RoundRobin(start=0)
    return session


def send_sync(
    stage: Stage,
    session: Session,
    message: Message = ORDER,
    *,
    target: SendTarget = send_plans.NEXT_IN_TURN,
    timeout_ms: int = 3_000,
) -> SendResult:
    outgoing = prepare(message, "UNIQ", session.settings)
    deadline = Deadline(stage.clock, timeout_ms)
    return stage.run(send_plans.send(session, outgoing, target, send_plans.sync_rule(session), deadline))


def send_as_async(
    stage: Stage, session: Session, *, target: SendTarget = send_plans.NEXT_IN_TURN
) -> SendResult:
    outgoing = prepare(ORDER, "UNIQ", session.settings)
    deadline = Deadline(stage.clock, 3_000)
    return stage.run(send_plans.send(session, outgoing, target, send_plans.async_rule(session), deadline))


def sends(stage: Stage) -> list[str]:
    return stage.asked(RequestCode.SEND_MESSAGE_V2)


@pytest.mark.row("SM-01")
def test_a_send_returns_where_the_message_went(stage: Stage, session: Session) -> None:
    result = send_sync(stage, session)

    assert result == SendResult(
        status=SendStatus.SEND_OK,
        message_id="UNIQ",
        offset_message_id="ID",
        queue=MessageQueue("orders", "a", 0),
        queue_offset=7,
    )


def test_a_further_message_to_a_queue_has_its_own_fields_in_the_header_s_order(
    stage: Stage, session: Session
) -> None:
    target = SendTarget(MessageQueue("orders", "a", 0))
    send_sync(stage, session, target=target)
    stage.clock.advance(5)

    other = Message("orders", b"x" * 5_000, properties={"city": "Oulu"}, flag=9)
    send_sync(stage, session, other, target=target)

    ext = stage.calls[-1].command.ext
    header = read_header(SendMessageV2, ext)
    compressed = SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB
    assert (header.flag, header.sys_flag, header.born_timestamp) == (9, compressed, stage.clock.now_ms())
    assert "Oulu" in str(header.properties)
    assert list((ext or {}).items()) == list(write_header(header).items())


@pytest.mark.row("SM-17", "SM-18", "PR-06")
def test_a_send_carries_the_fields_of_the_short_header(stage: Stage, session: Session) -> None:
    send_sync(stage, session)

    header = read_header(SendMessageV2, stage.calls[-1].command.ext)
    assert stage.calls[-1].command.body == b"body"
    assert header == SendMessageV2(
        producer_group="group",
        topic="orders",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=stage.clock.now_ms(),
        flag=3,
        properties=header.properties,
        reconsume_times=0,
        broker_name="a",
    )
    assert header.properties is not None
    assert set(header.properties.split("\x02")) == {
        "TAGS\x01paid",
        "KEYS\x0142",
        "city\x01Turku",
        "UNIQ_KEY\x01UNIQ",
        "WAIT\x01true",
    }


@pytest.mark.row("SM-17")
@pytest.mark.parametrize("unit_mode", [False, True])
def test_a_send_says_whether_the_client_is_a_unit(stage: Stage, unit_mode: bool) -> None:
    send_sync(stage, stage.session(ClientSettings(unit_mode=unit_mode)))

    ext = stage.calls[-1].command.ext or {}
    assert ext["k"] == ("true" if unit_mode else "false")


@pytest.mark.row("SM-17")
def test_a_message_to_a_retry_topic_says_how_often_it_was_and_may_be_tried(
    stage: Stage, session: Session
) -> None:
    stage.routes["%RETRY%g"] = stage.routes["orders"]
    tried = {"RECONSUME_TIME": "2", "MAX_RECONSUME_TIMES": "5"}

    send_sync(stage, session, Message("%RETRY%g", b"x", properties=tried))
    retried = stage.calls[-1].command.ext or {}
    send_sync(stage, session, Message("%RETRY%g", b"x"))
    untried = stage.calls[-1].command.ext or {}
    send_sync(stage, session, Message("orders", b"x", properties=tried))
    elsewhere = stage.calls[-1].command.ext or {}

    assert [(ext["j"], ext.get("l")) for ext in (retried, untried, elsewhere)] == [
        ("2", "5"),
        ("0", None),
        ("0", None),
    ]
    # As RocketMQ's client does, which takes them out of the message only after it has written the header.
    assert "RECONSUME_TIME\x012" in retried["i"]


def test_a_message_to_a_retry_topic_whose_number_of_tries_is_none_is_refused(
    stage: Stage, session: Session
) -> None:
    with pytest.raises(MessageIllegal, match="MAX_RECONSUME_TIMES is 'many'"):
        send_sync(stage, session, Message("%RETRY%g", b"x", properties={"MAX_RECONSUME_TIMES": "many"}))


@pytest.mark.row("SM-01")
@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ResponseCode.SUCCESS, SendStatus.SEND_OK),
        (ResponseCode.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_DISK_TIMEOUT),
        (ResponseCode.SLAVE_NOT_AVAILABLE, SendStatus.SLAVE_NOT_AVAILABLE),
        (ResponseCode.FLUSH_SLAVE_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT),
    ],
)
def test_four_codes_are_a_success_with_a_status(
    stage: Stage, session: Session, code: int, status: SendStatus
) -> None:
    stage.brokers["a:1"] = stores(code)

    assert send_sync(stage, session).status is status
    assert sends(stage) == ["a:1"]


@pytest.mark.row("SM-04", "QS-02")
def test_a_broker_that_cannot_be_reached_is_followed_by_another(stage: Stage, session: Session) -> None:
    stage.down.add("a:1")

    result = send_sync(stage, session)

    assert result.queue.broker_name == "b"
    assert sends(stage) == ["a:1", "b:1"]


@pytest.mark.row("SM-04", "SM-12")
def test_a_send_is_tried_three_times_and_then_the_brokers_are_named(stage: Stage, session: Session) -> None:
    stage.down.update(("a:1", "b:1"))

    with pytest.raises(SendFailed) as caught:
        send_sync(stage, session)

    assert sends(stage) == ["a:1", "b:1", "a:1"]
    assert caught.value.brokers == ("a", "b", "a")
    assert caught.value.code == ClientCode.CONNECT_FAILED
    assert isinstance(caught.value.__cause__, ConnectFailed)
    for word in ("orders", "3 times", "a, b, a", "--advertise"):
        assert word in str(caught.value)


@pytest.mark.row("SM-04")
@pytest.mark.parametrize(("retries", "tries"), [(0, 1), (1, 2), (5, 6)])
def test_the_number_of_further_tries_is_a_setting(stage: Stage, retries: int, tries: int) -> None:
    stage.down.update(("a:1", "b:1"))
    session = stage.session(ClientSettings(retry_times_when_send_failed=retries))

    with pytest.raises(SendFailed):
        send_sync(stage, session)

    assert len(sends(stage)) == tries


@pytest.mark.row("SM-08")
@pytest.mark.parametrize("code", RETRIED)
def test_these_refusals_are_tried_at_another_broker(stage: Stage, session: Session, code: int) -> None:
    stage.brokers["a:1"] = refuses(code)

    assert send_sync(stage, session).queue.broker_name == "b"


@pytest.mark.row("QS-02", "QS-18")
@pytest.mark.parametrize(
    "settings",
    [
        ClientSettings(),
        ClientSettings(send_latency_fault_enable=True),
        ClientSettings(send_least_latency_enable=True),
    ],
    ids=["default", "slow brokers avoided", "least latency"],
)
def test_with_one_broker_each_further_try_takes_another_queue(stage: Stage, settings: ClientSettings) -> None:
    stage.routes["orders"] = route_of("a", queues=3)
    stage.brokers["a:1"] = refuses(ResponseCode.SYSTEM_ERROR)

    with pytest.raises(SendFailed):
        send_sync(stage, stage.session(settings))

    tried = [
        read_header(SendMessageV2, call.command.ext).queue_id
        for call in stage.calls
        if call.command.code == RequestCode.SEND_MESSAGE_V2
    ]
    assert sorted(tried) == [0, 1, 2]


@pytest.mark.row("SM-08", "SM-12")
@pytest.mark.parametrize("code", RETRIED)
def test_a_refusal_by_all_keeps_its_code(stage: Stage, session: Session, code: int) -> None:
    stage.brokers.update({"a:1": refuses(code), "b:1": refuses(code)})

    with pytest.raises(SendFailed) as caught:
        send_sync(stage, session)

    assert caught.value.code == code
    assert len(sends(stage)) == 3


@pytest.mark.row("SM-08")
@pytest.mark.parametrize("code", FINAL)
def test_any_other_refusal_is_final(stage: Stage, session: Session, code: int) -> None:
    stage.brokers["a:1"] = refuses(code, "because")

    with pytest.raises(Refused, match="because") as caught:
        send_sync(stage, session)

    assert caught.value.code == code
    assert sends(stage) == ["a:1"]


@pytest.mark.row("SM-09")
def test_a_status_that_is_not_ok_is_tried_elsewhere_only_on_request(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = stores(ResponseCode.FLUSH_DISK_TIMEOUT)
    insisting = starting_at_a(stage.session(ClientSettings(retry_another_broker_when_not_store_ok=True)))

    assert send_sync(stage, session).status is SendStatus.FLUSH_DISK_TIMEOUT
    assert send_sync(stage, insisting).status is SendStatus.SEND_OK


@pytest.mark.row("SM-09")
def test_when_no_broker_says_ok_the_last_status_is_the_result(stage: Stage) -> None:
    unsafe = stores(ResponseCode.SLAVE_NOT_AVAILABLE)
    stage.brokers.update({"a:1": unsafe, "b:1": unsafe})
    session = stage.session(ClientSettings(retry_another_broker_when_not_store_ok=True))

    assert send_sync(stage, session).status is SendStatus.SLAVE_NOT_AVAILABLE
    assert len(sends(stage)) == 3


@pytest.mark.row("SM-10", "PR-22")
def test_all_tries_share_one_time_budget(stage: Stage, session: Session) -> None:
    stage.silent.update(("a:1", "b:1"))
    before = stage.clock.now_ms()

    with pytest.raises(RequestTimeout, match="3000 ms"):
        send_sync(stage, session)

    assert stage.clock.now_ms() - before == 3_000
    assert sends(stage) == ["a:1"]


@pytest.mark.row("PR-22")
def test_a_send_has_three_seconds_unless_told_otherwise() -> None:
    assert ClientSettings().send_msg_timeout == 3_000


@pytest.mark.row("SM-10")
def test_a_retry_gets_what_is_left_of_the_time(stage: Stage, session: Session) -> None:
    def slow_refusal(command: object) -> object:
        stage.clock.advance(2_000)
        return refuses(ResponseCode.SYSTEM_ERROR)(command)  # type: ignore[arg-type]

    stage.brokers["a:1"] = slow_refusal  # type: ignore[assignment]

    send_sync(stage, session)

    assert stage.calls[-1].address == "b:1"
    assert stage.calls[-1].timeout_s == pytest.approx(1.0)


@pytest.mark.row("SM-10")
def test_asking_for_the_route_counts_too(stage: Stage, session: Session) -> None:
    stage.silent.update(NAME_SERVERS)

    with pytest.raises(RequestTimeout):
        send_sync(stage, session, timeout_ms=500)

    assert sends(stage) == []


@pytest.mark.row("QS-03")
def test_the_next_send_knows_nothing_of_the_last_one_s_failure(stage: Stage, session: Session) -> None:
    stage.routes["orders"] = route_of("a", "b", queues=1)
    stage.down.add("a:1")

    for _ in range(2):
        send_sync(stage, session)

    assert sends(stage) == ["a:1", "b:1", "a:1", "b:1"]


@pytest.mark.row("SM-05", "SM-06", "SM-07")
def test_an_asynchronous_send_is_tried_at_another_broker_when_no_answer_comes(
    stage: Stage, session: Session
) -> None:
    stage.down.add("a:1")

    assert send_as_async(stage, session).queue.broker_name == "b"


@pytest.mark.row("SM-05")
def test_an_asynchronous_send_is_tried_three_times(stage: Stage, session: Session) -> None:
    stage.down.update(("a:1", "b:1"))

    with pytest.raises(SendFailed):
        send_as_async(stage, session)

    assert len(sends(stage)) == 3


@pytest.mark.row("SM-06")
@pytest.mark.parametrize("code", [*RETRIED, *FINAL])
def test_an_asynchronous_send_takes_every_refusal_as_final(stage: Stage, session: Session, code: int) -> None:
    stage.brokers["a:1"] = refuses(code)

    with pytest.raises(Refused):
        send_as_async(stage, session)

    assert sends(stage) == ["a:1"]


@pytest.mark.row("QS-14", "SM-14")
@pytest.mark.parametrize("send_it", [send_sync, send_as_async])
def test_a_message_for_a_selected_queue_is_tried_once(stage: Stage, session: Session, send_it) -> None:
    stage.down.add("a:1")

    with pytest.raises(ConnectFailed, match="--advertise"):
        send_it(stage, session, target=SendTarget(selector=lambda queues, _message: queues[1]))

    assert sends(stage) == ["a:1"]


@pytest.mark.row("PR-17", "QS-14")
def test_a_selector_sees_the_writable_queues_and_the_message(stage: Stage, session: Session) -> None:
    seen = []

    def select(queues, message):
        seen.append((len(queues), message))
        return queues[5]

    result = send_sync(stage, session, target=SendTarget(selector=select))

    assert seen == [(8, ORDER)]
    assert result.queue == MessageQueue("orders", "b", 1)


def test_a_selector_that_returns_no_queue_is_told_so(stage: Stage, session: Session) -> None:
    with pytest.raises(MessageIllegal, match=r"the selector returned 3 .* one of the 8 queues"):
        send_sync(stage, session, target=SendTarget(selector=lambda _queues, _message: 3))  # type: ignore[arg-type, return-value]


@pytest.mark.row("PR-17")
def test_a_message_goes_to_the_queue_it_is_given(stage: Stage, session: Session) -> None:
    queue = MessageQueue("orders", "b", 3)

    assert send_sync(stage, session, target=SendTarget(queue)).queue == queue


def test_a_queue_of_another_topic_is_refused(stage: Stage, session: Session) -> None:
    with pytest.raises(MessageIllegal, match="'bills'"):
        send_sync(stage, session, target=SendTarget(MessageQueue("bills", "a", 0)))


def test_a_queue_of_a_broker_that_nobody_knows_is_refused_by_name(stage: Stage, session: Session) -> None:
    with pytest.raises(NoRoute, match="'c'"):
        send_sync(stage, session, target=SendTarget(MessageQueue("orders", "c", 0)))


def test_a_queue_and_a_selector_are_one_too_many() -> None:
    with pytest.raises(TypeError):
        SendTarget(MessageQueue("orders", "a", 0), select_by_hash("key"))


@pytest.mark.row("SM-03", "SM-04")
def test_a_oneway_send_wants_no_answer_and_is_not_tried_again(stage: Stage, session: Session) -> None:
    outgoing = prepare(ORDER, "UNIQ", session.settings)
    plan = send_plans.send_oneway(session, outgoing, send_plans.NEXT_IN_TURN, Deadline(stage.clock, 3_000))

    stage.run(plan)

    assert [(call.address, call.oneway) for call in stage.calls[1:]] == [("a:1", True)]


@pytest.mark.row("SM-15")
def test_a_oneway_message_that_a_broker_does_not_take_is_lost_without_a_word(
    stage: Stage, session: Session
) -> None:
    stage.brokers["a:1"] = refuses(ResponseCode.SERVICE_NOT_AVAILABLE)
    outgoing = prepare(ORDER, "UNIQ", session.settings)

    stage.run(
        send_plans.send_oneway(session, outgoing, send_plans.NEXT_IN_TURN, Deadline(stage.clock, 3_000))
    )

    assert sends(stage) == ["a:1"]


@pytest.mark.row("SM-15")
def test_an_asynchronous_message_that_a_broker_does_not_take_is_lost_unless_the_error_is_read(
    stage: Stage, session: Session
) -> None:
    stage.brokers["a:1"] = refuses(ResponseCode.SERVICE_NOT_AVAILABLE)

    with pytest.raises(Refused):
        send_as_async(stage, session)

    assert sends(stage) == ["a:1"]


@pytest.mark.row("SM-04")
def test_a_oneway_send_that_cannot_leave_says_so(stage: Stage, session: Session) -> None:
    stage.down.add("a:1")
    outgoing = prepare(ORDER, "UNIQ", session.settings)

    with pytest.raises(ConnectFailed, match="--advertise"):
        stage.run(
            send_plans.send_oneway(session, outgoing, send_plans.NEXT_IN_TURN, Deadline(stage.clock, 3_000))
        )

    assert len(sends(stage)) == 1


@pytest.mark.row("BA-07", "SM-18")
def test_a_batch_is_one_request_whose_ids_are_joined_by_commas(stage: Stage, session: Session) -> None:
    outgoing = prepare_batch(
        [Message("orders", b"1"), Message("orders", b"2")], ["U1", "U2"], session.settings
    )
    plan = send_plans.send(
        session,
        outgoing,
        send_plans.NEXT_IN_TURN,
        send_plans.sync_rule(session),
        Deadline(stage.clock, 3_000),
    )

    result = stage.run(plan)

    assert result.message_id == "U1,U2"
    assert stage.asked(RequestCode.SEND_BATCH_MESSAGE) == ["a:1"]
    assert read_header(SendMessageV2, stage.calls[-1].command.ext).batch


@pytest.mark.row("SM-16")
def test_a_retried_message_keeps_its_id(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = refuses(ResponseCode.SYSTEM_ERROR, "stored it, then fell over")

    send_sync(stage, session)

    properties = [
        read_header(SendMessageV2, call.command.ext).properties
        for call in stage.calls
        if call.command.code == RequestCode.SEND_MESSAGE_V2
    ]
    assert len(properties) == 2
    assert properties[0] == properties[1]


def test_a_failure_makes_the_route_stale_for_the_next_send(stage: Stage, session: Session) -> None:
    stage.down.add("a:1")
    send_sync(stage, session)
    stage.clock.advance(1_000)
    stage.routes["orders"] = route_of("b")

    send_sync(stage, session)

    assert stage.topics_asked() == ["orders", "orders"]
    assert sends(stage) == ["a:1", "b:1", "b:1"]


def test_an_ordered_topic_whose_broker_is_away_is_sent_to_the_other(stage: Stage, session: Session) -> None:
    stage.routes["orders"] = route_of("b", order="a:2;b:2")

    assert send_sync(stage, session).queue.broker_name == "b"


@pytest.mark.row("SM-12")
def test_brokers_that_no_name_server_knows_have_a_code_of_their_own(stage: Stage, session: Session) -> None:
    stage.routes["orders"] = route_of("b", order="x:2;y:2")

    with pytest.raises(SendFailed) as caught:
        send_sync(stage, session)

    assert caught.value.code == ClientCode.BROKER_UNKNOWN


@pytest.mark.row("SM-12")
def test_a_topic_without_a_route_has_a_code_of_its_own(stage: Stage, session: Session) -> None:
    stage.routes.clear()

    with pytest.raises(NoRoute) as caught:
        send_sync(stage, session)

    assert caught.value.code == ClientCode.NO_ROUTE == 10005


@pytest.mark.row("SM-12")
def test_a_send_that_gives_up_says_how_often_how_long_and_where(stage: Stage, session: Session) -> None:
    def slow_refusal(command: object) -> object:
        stage.clock.advance(40)
        return refuses(ResponseCode.SYSTEM_ERROR, "no luck")(command)  # type: ignore[arg-type]

    stage.brokers.update({"a:1": slow_refusal, "b:1": slow_refusal})  # type: ignore[dict-item]

    with pytest.raises(
        SendFailed, match=r"failed 3 times in 120 ms, on a, b, a; the last failure: .*no luck"
    ):
        send_sync(stage, session)


@pytest.mark.row("SM-12")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConnectFailed, 10001),
        (ConnectionLost, 10001),
        (RequestTimeout, 10002),
        (NoNameServerKnown, 10004),
        (NoRoute, 10005),
        (NoReply, 10006),
    ],
)
def test_what_no_server_answered_has_the_code_of_rocketmq_s_clients(
    error: type[ConnectFailed], code: int
) -> None:
    assert error("text").code == code


@pytest.mark.row("PR-24")
def test_the_vip_port_is_two_below_and_off_unless_asked_for(stage: Stage, session: Session) -> None:
    stage.routes["orders"] = route_of("a")
    stage.brokers["a:8"] = stores()
    for broker in stage.routes["orders"].broker_datas:
        broker.broker_addrs[0] = "a:10"
    vip = stage.session(ClientSettings(vip_channel_enabled=True))

    send_sync(stage, vip)

    assert sends(stage) == ["a:8"]
    assert not ClientSettings().vip_channel_enabled


@pytest.mark.row("PR-19")
def test_the_queues_to_publish_to_are_the_writable_ones(stage: Stage, session: Session) -> None:
    plan = send_plans.publish_queues(session, "orders", Deadline(stage.clock, 3_000))

    queues = stage.run(plan)

    assert queues == [MessageQueue("orders", broker, number) for broker in "ab" for number in range(4)]


def test_a_busy_broker_has_an_error_of_its_own(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = refuses(ResponseCode.SYSTEM_BUSY, "too many requests")

    with pytest.raises(SystemBusy):
        send_sync(stage, session)
