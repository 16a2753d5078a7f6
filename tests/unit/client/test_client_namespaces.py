import pytest
from client_stage import Stage, two_brokers

from pyromq.client.client_session import Session, new_session
from pyromq.client.namespaces import unwrap, unwrap_queue, wrap, wrap_queue
from pyromq.client.plans import send_plans
from pyromq.client.plans.send_plans import SendTarget
from pyromq.client.producer.outgoing import prepare, prepare_batch
from pyromq.client.steps import Deadline
from pyromq.codes import RequestCode
from pyromq.config.settings import ClientSettings
from pyromq.model import Message, MessageQueue
from pyromq.wire import properties as names
from pyromq.wire.header import read_header
from pyromq.wire.headers.send_headers import SendMessageV2

IN_SHOP = ClientSettings(namespace="shop")


@pytest.fixture
def stage() -> Stage:
    stage = two_brokers()
    stage.routes["shop%orders"] = stage.routes.pop("orders")
    return stage


@pytest.fixture
def session(stage: Stage) -> Session:
    return stage.session(IN_SHOP)


def headers(stage: Stage) -> list[SendMessageV2]:
    return [
        read_header(SendMessageV2, call.command.ext)
        for call in stage.calls
        if call.command.code == RequestCode.SEND_MESSAGE_V2
    ]


@pytest.mark.row("PR-23")
@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("orders", "shop%orders"),
        ("%RETRY%group", "%RETRY%shop%group"),
        ("%DLQ%group", "%DLQ%shop%group"),
    ],
)
def test_a_name_is_wrapped_behind_its_prefix_and_unwrapped_again(name: str, wrapped: str) -> None:
    assert wrap("shop", name) == wrapped
    assert wrap("shop", wrapped) == wrapped
    assert unwrap("shop", wrapped) == name


@pytest.mark.row("PR-23")
@pytest.mark.parametrize(
    "name", ["TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_x", "CID_RMQ_SYS_TRANS", ""]
)
def test_names_of_rocketmq_itself_are_in_no_namespace(name: str) -> None:
    assert wrap("shop", name) == name


def test_without_a_namespace_names_stay_as_they_are() -> None:
    assert wrap("", "orders") == "orders"
    assert unwrap("", "shop%orders") == "shop%orders"


def test_a_name_of_another_namespace_is_not_unwrapped() -> None:
    assert unwrap("shop", "store%orders") == "store%orders"


@pytest.mark.parametrize("namespace", ["", "shop"])
def test_a_queue_is_wrapped_and_unwrapped_as_its_topic_is(namespace: str) -> None:
    queue = MessageQueue("orders", "a", 3)

    assert wrap_queue(namespace, queue) == MessageQueue(wrap(namespace, "orders"), "a", 3)
    assert unwrap_queue(namespace, wrap_queue(namespace, queue)) == queue


@pytest.mark.row("PR-23")
def test_a_client_s_group_is_in_its_namespace() -> None:
    assert new_session("pg", ("ns:1",), IN_SHOP).group == "shop%pg"


@pytest.mark.row("PR-23")
def test_a_message_travels_in_its_namespace_and_the_application_sees_its_own_names(
    stage: Stage, session: Session
) -> None:
    outgoing = prepare(Message("orders", b"x"), "U", IN_SHOP)

    sent = stage.run(
        send_plans.send(
            session, outgoing, SendTarget(), send_plans.sync_rule(session), Deadline(stage.clock, 3_000)
        )
    )

    (header,) = headers(stage)
    assert header.topic == "shop%orders"
    assert names.decode(header.properties or "")[names.INSTANCE_ID] == "shop"
    assert sent.queue.topic == "orders"


@pytest.mark.row("SM-20")
def test_a_message_that_is_sent_again_is_still_in_its_namespace(stage: Stage, session: Session) -> None:
    stage.down.update({"a:1"})
    outgoing = prepare(Message("orders", b"x"), "U", IN_SHOP)

    for _ in range(8):
        stage.run(
            send_plans.send(
                session, outgoing, SendTarget(), send_plans.sync_rule(session), Deadline(stage.clock, 3_000)
            )
        )

    assert len(headers(stage)) > 8
    assert {header.topic for header in headers(stage)} == {"shop%orders"}


@pytest.mark.row("PR-23")
def test_queues_and_selectors_use_the_application_s_names(stage: Stage, session: Session) -> None:
    deadline = Deadline(stage.clock, 3_000)
    outgoing = prepare(Message("orders", b"x"), "U", IN_SHOP)

    queues = stage.run(send_plans.publish_queues(session, "orders", deadline))
    given = stage.run(
        send_plans.send(session, outgoing, SendTarget(queues[5]), send_plans.sync_rule(session), deadline)
    )
    seen: list[MessageQueue] = []

    def select(among, message):
        seen.extend(among)
        assert message.topic == "orders"
        return among[6]

    selected = stage.run(
        send_plans.send(
            session, outgoing, SendTarget(selector=select), send_plans.sync_rule(session), deadline
        )
    )

    assert {queue.topic for queue in queues} == {"orders"}
    assert given.queue == queues[5]
    assert seen == queues
    assert selected.queue == queues[6]
    assert {header.topic for header in headers(stage)} == {"shop%orders"}


def test_a_batch_is_in_its_namespace() -> None:
    assert prepare_batch([Message("orders", b"x")], ["U"], IN_SHOP).topic == "shop%orders"
