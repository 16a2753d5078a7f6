"""Asking brokers and members about a group: who is there, and whether they want the same."""

import json
from collections.abc import Callable

import pytest
from client_stage import Stage, answer, refuses, route_of

from pyromq.client.consumer.topic_subscription import subscription
from pyromq.client.plans.admin.consumer_status_plans import ConsumerStatus, StatusQuery, consumer_status
from pyromq.client.plans.membership_plans import heartbeat
from pyromq.client.steps import Deadline
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import Refused
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart
from pyromq.wire.bodies.running_info import RunningState, encode_running_state
from pyromq.wire.command import Command
from pyromq.wire.header import read_header
from pyromq.wire.headers.group_headers import GetConsumerRunningInfo

GROUP = "group"
BROKERS = ("a:1", "b:1")


def member(tags: str, started_ms: int = 1, **properties: str) -> bytes:
    """What a member answers that wants these tags."""
    return encode_running_state(
        RunningState(
            properties={"PROP_CONSUMER_START_TIMESTAMP": str(started_ms), **properties},
            subscriptions=[subscription("orders", tags, version=started_ms)],
            queues={},
            topics={},
        )
    )


def broker(members: dict[str, bytes], **fields: object) -> Callable[[Command], Command]:
    """A broker to which these members are connected; what each says is passed on."""

    def play(command: Command) -> Command:
        if command.code == RequestCode.GET_CONSUMER_CONNECTION_LIST:
            connections = [{"clientId": name, "language": "JAVA", "version": 409} for name in members]
            body = {"connectionSet": connections, "messageModel": "CLUSTERING", **fields}
            return answer(body=json.dumps(body).encode())
        said = members[read_header(GetConsumerRunningInfo, command.ext).client_id]
        return answer(body=said) if said else answer(ResponseCode.SYSTEM_ERROR, remark="too old")

    return play


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.routes[f"%RETRY%{GROUP}"] = route_of("a", "b")
    for address in BROKERS:
        stage.brokers[address] = refuses(ResponseCode.CONSUMER_NOT_ONLINE)
    return stage


def ask(stage: Stage, **query: object) -> ConsumerStatus:
    plan = consumer_status(stage.session(), StatusQuery(GROUP, **query), Deadline(stage.clock, 6_000))
    return stage.run(plan)


@pytest.mark.row("MM-11")
def test_members_of_all_brokers_are_compared(stage: Stage) -> None:
    stage.brokers["a:1"] = broker({"one": member("x"), "two": member("y", 2)})
    stage.brokers["b:1"] = broker({"one": member("x"), "three": member("x", 3)})

    status = ask(stage)

    assert [(one.connection.client_id, one.brokers) for one in status.members] == [
        ("one", ["a", "b"]),
        ("two", ["a"]),
        ("three", ["b"]),
    ]
    assert str(status.conflict) == "client two: orders tags y; 2 others: orders tags x"
    assert stage.asked(RequestCode.GET_CONSUMER_RUNNING_INFO) == ["a:1", "a:1", "b:1"]


def test_of_two_members_that_differ_the_older_one_holds(stage: Stage) -> None:
    stage.brokers["a:1"] = broker({"new": member("x", 9), "old": member("y", 3)})
    conflict = ask(stage).conflict
    assert conflict is not None
    assert conflict.holding.named == ("old",)


def test_the_model_is_compared_too(stage: Stage) -> None:
    stage.brokers["a:1"] = broker({"one": member("*"), "two": member("*", 2, messageModel="BROADCASTING")})
    assert str(ask(stage).conflict) == "client two: BROADCASTING; client one: CLUSTERING"


def test_where_members_begin_is_told_and_is_no_conflict(stage: Stage) -> None:
    stage.brokers["a:1"] = broker(
        {"one": member("*", consumeFromWhere="FIRST"), "two": member("*", 2, consumeFromWhere="LAST")}
    )
    status = ask(stage)
    assert status.is_consistent
    assert status.told_apart_by("consumeFromWhere") == {"FIRST": ["one"], "LAST": ["two"]}


def test_a_member_that_does_not_answer_takes_no_side(stage: Stage) -> None:
    stage.brokers["a:1"] = broker({"one": member("x"), "two": b""})
    status = ask(stage)
    assert status.is_consistent
    assert {one.connection.client_id: one.failure for one in status.members}[
        "two"
    ] == "SYSTEM_ERROR (1): too old"


def test_what_a_broker_of_ours_reports_is_a_conflict(stage: Stage) -> None:
    report = {"difference": "client x: …", "since": 5, "refused": [{"clientId": "x"}]}
    stage.brokers["a:1"] = broker({"one": member("x")}, subscriptionConflict=report)
    status = ask(stage)
    assert not status.is_consistent
    assert [refused.client_id for refused in status.reports["a"].refused] == ["x"]


def test_only_the_member_that_is_meant_is_asked_what_it_does(stage: Stage) -> None:
    stage.brokers["a:1"] = broker({"one": member("x"), "two": member("y")})
    status = ask(stage, client_id="two")
    assert [one.connection.client_id for one in status.members if one.state is not None] == ["two"]


def test_only_the_broker_that_is_meant_is_asked_who_is_there(stage: Stage) -> None:
    stage.brokers["b:1"] = broker({"one": member("x")})
    ask(stage, broker_address="b:1")
    assert stage.asked(RequestCode.GET_CONSUMER_CONNECTION_LIST) == ["b:1"]


def test_a_broker_that_is_away_is_told_and_the_others_are_asked(stage: Stage) -> None:
    stage.down.add("a:1")
    stage.brokers["b:1"] = broker({"one": member("x")})
    status = ask(stage)
    assert list(status.silent) == ["a"]
    assert len(status.members) == 1


def test_a_group_that_nobody_is_in_is_an_error_with_its_brokers(stage: Stage) -> None:
    with pytest.raises(Refused, match="no consumer of group group is connected to a, b"):
        ask(stage)


def beat(stage: Stage, said: Command) -> tuple[bool, str | None]:
    stage.brokers["a:1"] = lambda _command: said
    session = stage.session()
    return stage.run(heartbeat(session, ConsumerPart(group_name=GROUP), "a:1")), session.subscription_conflict


def test_a_heartbeats_answer_may_say_that_members_differ(stage: Stage) -> None:
    assert beat(stage, answer(remark="they differ")) == (True, "they differ")


def test_a_heartbeat_may_be_refused_because_members_differ(stage: Stage) -> None:
    refusal = answer(ResponseCode.NO_PERMISSION, remark="you differ")
    assert beat(stage, refusal) == (False, "you differ")


def test_a_broker_that_says_nothing_has_nothing_to_say(stage: Stage) -> None:
    assert beat(stage, answer()) == (True, None)


def test_what_was_said_once_is_logged_once_and_forgotten_when_it_is_over(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    session = stage.session()
    for said in ("they differ", "they differ", None):
        stage.brokers["a:1"] = lambda _command, said=said: answer(remark=said)
        stage.run(heartbeat(session, ConsumerPart(group_name=GROUP), "a:1"))
    assert [record.message for record in caplog.records] == ["broker a:1: they differ"]
    assert session.subscription_conflict is None
