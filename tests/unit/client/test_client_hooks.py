import logging

import pytest
from client_stage import Stage, two_brokers

from pyromq.client.client_session import Session
from pyromq.client.hooks import (
    ConsumeHook,
    Consuming,
    SendHook,
    Sending,
    after_consume,
    before_consume,
)
from pyromq.client.plans import send_plans
from pyromq.client.plans.send_plans import SendTarget
from pyromq.client.producer.outgoing import prepare
from pyromq.client.producer.queue_choice import RoundRobin
from pyromq.client.steps import Deadline
from pyromq.client.tracing.trace_format import MessageKind
from pyromq.codes import RequestCode
from pyromq.config.settings import ClientSettings
from pyromq.errors import NoPermission, RequestTimeout
from pyromq.model import CommunicationMode, Message, MessageQueue, SendResult

ORDER = Message("orders", b"x", tags="paid")


class Witness(SendHook):
    """Notes what it is called with."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.sendings: list[Sending] = []

    def check(self, sending: Sending) -> None:
        self.seen.append(f"check {sending.queue.broker_name}")

    def before(self, sending: Sending) -> None:
        self.seen.append(f"before {sending.broker_address}")

    def after(self, sending: Sending) -> None:
        outcome = "stored" if sending.result else type(sending.error).__name__
        self.seen.append(f"after {outcome}")
        self.sendings.append(sending)


class Forbidding(SendHook):
    def check(self, sending: Sending) -> None:
        raise NoPermission(16, f"not to {sending.topic}")


class Broken(SendHook):
    def before(self, sending: Sending) -> None:
        raise ValueError("before")

    def after(self, sending: Sending) -> None:
        raise ValueError("after")


@pytest.fixture
def stage() -> Stage:
    return two_brokers()


def begun(stage: Stage, *hooks: SendHook) -> Session:
    session = stage.session(send_hooks=hooks)
    session._turns["orders"] = RoundRobin(start=0)
    return session


def send_one(stage: Stage, session: Session, message: Message = ORDER) -> SendResult:
    outgoing = prepare(message, "U", session.settings)
    deadline = Deadline(stage.clock, 3_000)
    return stage.run(
        send_plans.send(session, outgoing, SendTarget(), send_plans.sync_rule(session), deadline)
    )


@pytest.mark.row("SM-13")
def test_hooks_are_called_before_and_after_a_send(stage: Stage) -> None:
    witness = Witness()

    sent = send_one(stage, begun(stage, witness))

    assert witness.seen == ["check a", "before a:1", "after stored"]
    (sending,) = witness.sendings
    assert (sending.group, sending.message, sending.topic) == ("group", ORDER, "orders")
    assert sending.result == sent


@pytest.mark.row("SM-13")
def test_hooks_are_called_after_a_failure_and_again_for_the_next_try(stage: Stage) -> None:
    witness = Witness()
    stage.down.add("a:1")

    send_one(stage, begun(stage, witness))

    assert witness.seen == [
        "check a", "before a:1", "after ConnectFailed", "check b", "before b:1", "after stored",
    ]  # fmt: skip


@pytest.mark.row("HK-01", "MM-09")
@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (ORDER, MessageKind.NORMAL),
        (Message("orders", b"x", delay_level=3), MessageKind.DELAY),
        (Message("orders", b"x", properties={"__STARTDELIVERTIME": "1893456000000"}), MessageKind.DELAY),
        (Message("orders", b"x", properties={"TRAN_MSG": "true"}), MessageKind.HALF),
        (Message("orders", b"x", properties={"TRAN_MSG": "false"}), MessageKind.NORMAL),
    ],
)
def test_hooks_know_what_kind_of_message_is_sent(stage: Stage, message: Message, kind: MessageKind) -> None:
    witness = Witness()

    send_one(stage, begun(stage, witness), message)

    assert [sending.kind for sending in witness.sendings] == [kind]


@pytest.mark.row("HK-01")
def test_hooks_know_how_a_message_is_sent(stage: Stage) -> None:
    witness = Witness()
    session = begun(stage, witness)
    outgoing = prepare(ORDER, "U", session.settings)

    for target in (SendTarget(), SendTarget(MessageQueue("orders", "a", 0))):
        for rule in (send_plans.sync_rule(session), send_plans.async_rule(session)):
            stage.run(send_plans.send(session, outgoing, target, rule, Deadline(stage.clock, 3_000)))
    stage.run(send_plans.send_oneway(session, outgoing, SendTarget(), Deadline(stage.clock, 3_000)))

    sync, later, oneway = CommunicationMode.SYNC, CommunicationMode.ASYNC, CommunicationMode.ONEWAY
    assert [sending.mode for sending in witness.sendings] == [sync, later, sync, later, oneway]


@pytest.mark.row("HK-01")
def test_hooks_know_the_namespace(stage: Stage) -> None:
    witness = Witness()
    settings = ClientSettings(namespace="shop")
    stage.routes["shop%orders"] = stage.routes["orders"]

    send_one(stage, stage.session(settings, send_hooks=(witness,)))
    send_one(stage, begun(stage, witness))

    assert [(sending.namespace, sending.topic) for sending in witness.sendings] == [
        ("shop", "shop%orders"),
        ("", "orders"),
    ]


@pytest.mark.row("SM-13")
def test_what_a_check_raises_ends_the_send_before_anything_is_sent(stage: Stage) -> None:
    witness = Witness()
    session = begun(stage, witness, Forbidding())
    outgoing = prepare(ORDER, "U", session.settings)

    with pytest.raises(NoPermission, match="not to orders"):
        stage.run(
            send_plans.send_once(
                session, outgoing, MessageQueue("orders", "a", 0), Deadline(stage.clock, 3_000)
            )
        )

    assert stage.asked(RequestCode.SEND_MESSAGE_V2) == []
    assert witness.seen == ["check a"]


@pytest.mark.row("SM-13")
def test_a_hook_that_fails_is_logged_and_changes_nothing(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    witness = Witness()

    with caplog.at_level(logging.ERROR, "pyromq.client"):
        send_one(stage, begun(stage, Broken(), witness))

    assert witness.seen == ["check a", "before a:1", "after stored"]
    assert [record.message.split(" failed ")[0] for record in caplog.records] == ["the hook Broken"] * 2


@pytest.mark.row("SM-13")
def test_hooks_are_called_around_a_oneway_send_too(stage: Stage) -> None:
    witness = Witness()
    session = begun(stage, witness)
    outgoing = prepare(ORDER, "U", session.settings)

    stage.run(send_plans.send_oneway(session, outgoing, SendTarget(), Deadline(stage.clock, 3_000)))

    assert witness.seen == ["check a", "before a:1", "after NoneType"]


@pytest.mark.row("SM-13")
def test_a_hook_learns_that_no_answer_came(stage: Stage) -> None:
    witness = Witness()
    stage.silent.update({"a:1", "b:1"})

    with pytest.raises(RequestTimeout):
        send_one(stage, begun(stage, witness))

    assert witness.seen[:3] == ["check a", "before a:1", "after RequestTimeout"]


def test_a_hook_that_only_wants_one_moment_leaves_the_others_out(stage: Stage) -> None:
    send_one(stage, begun(stage, SendHook()))

    assert stage.asked(RequestCode.SEND_MESSAGE_V2) == ["a:1"]


def test_hooks_of_consumers_are_called_around_a_listener(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    class Listening(ConsumeHook):
        def before(self, consuming: Consuming) -> None:
            seen.append("before")

        def after(self, consuming: Consuming) -> None:
            seen.append(f"after {consuming.is_success}")

    class BrokenListening(ConsumeHook):
        def before(self, consuming: Consuming) -> None:
            raise ValueError("before")

        def after(self, consuming: Consuming) -> None:
            raise ValueError("after")

    hooks = (BrokenListening(), ConsumeHook(), Listening())
    consuming = Consuming("group", MessageQueue("orders", "a", 0), [])

    before_consume(hooks, consuming)
    consuming.is_success = True
    after_consume(hooks, consuming)

    assert seen == ["before", "after True"]
    assert len(caplog.records) == 2
