from collections.abc import Callable

import pytest
from client_stage import Stage, answer, refuses, two_brokers

from pyromq.client.client_session import Session
from pyromq.client.plans import presence_plans
from pyromq.client.plans.route_plans import publish_route
from pyromq.client.steps import Deadline, Plan
from pyromq.codes import RequestCode, ResponseCode
from pyromq.wire.bodies.heartbeat_bodies import decode_heartbeat
from pyromq.wire.header import read_header
from pyromq.wire.headers.group_headers import UnregisterClient


class Enough(Exception):
    """The test has seen enough of an endless plan."""


@pytest.fixture
def stage() -> Stage:
    stage = two_brokers()
    stage.brokers.update({"a:1": lambda _: answer(), "b:1": lambda _: answer()})
    return stage


@pytest.fixture
def session(stage: Stage) -> Session:
    session = stage.session(group="pg")
    stage.run(publish_route(session, "orders", Deadline(stage.clock, 3_000)))
    return session


def run_for(stage: Stage, seconds: int, plan: Plan[None]) -> None:
    end_ms = stage.clock.now_ms() + seconds * 1_000

    def stop(_seconds: float) -> None:
        if stage.clock.now_ms() > end_ms:
            raise Enough

    stage.on_pause = stop
    with pytest.raises(Enough):
        stage.run(plan)


@pytest.mark.row("PR-20", "PR-05")
def test_a_producer_tells_every_master_every_thirty_seconds(stage: Stage, session: Session) -> None:
    stage.routes["orders"].broker_datas[0].broker_addrs[1] = "slave:1"

    run_for(stage, 62, presence_plans.keep_producer_known(session))

    # After 1, 31 and 61 seconds, to each of two.
    assert stage.asked(RequestCode.HEART_BEAT) == ["a:1", "b:1"] * 3
    beat = decode_heartbeat(stage.calls[-1].command.body)
    assert beat.client_id == "client"
    assert [producer.group_name for producer in beat.producers] == ["pg"]
    assert beat.consumers == []


@pytest.mark.row("PR-07", "NS-14")
@pytest.mark.parametrize("upkeep", [presence_plans.keep_producer_known, presence_plans.keep_routes_fresh])
def test_routes_are_asked_for_again_every_thirty_seconds(
    stage: Stage, session: Session, upkeep: Callable[[Session], Plan[None]]
) -> None:
    run_for(stage, 95, upkeep(session))

    # Once by the first send, then after 30, 60 and 90 seconds.
    assert stage.topics_asked() == ["orders"] * 4


def test_a_broker_that_is_away_does_not_keep_the_others_from_hearing(stage: Stage, session: Session) -> None:
    stage.down.add("a:1")

    stage.run(presence_plans.heartbeat(session))

    assert stage.asked(RequestCode.HEART_BEAT) == ["a:1", "b:1"]


def test_a_pull_consumer_sends_no_heartbeat(stage: Stage, session: Session) -> None:
    run_for(stage, 95, presence_plans.keep_routes_fresh(session))

    assert stage.asked(RequestCode.HEART_BEAT) == []


def test_a_farewell_goes_to_every_master_and_never_fails(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = refuses(ResponseCode.SYSTEM_ERROR)
    stage.down.add("b:1")

    stage.run(presence_plans.farewell(session))

    assert stage.asked(RequestCode.UNREGISTER_CLIENT) == ["a:1", "b:1"]
    header = read_header(UnregisterClient, stage.calls[-1].command.ext)
    assert (header.client_id, header.producer_group) == ("client", "pg")


def test_a_producer_that_no_broker_knows_leaves_without_a_word(stage: Stage, session: Session) -> None:
    asked = len(stage.calls)

    stage.run(presence_plans.leave_silently(session))

    assert len(stage.calls) == asked
