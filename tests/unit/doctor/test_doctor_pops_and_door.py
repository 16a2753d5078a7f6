"""What the doctor makes of groups that pop, and of gRPC ports, in surveys that are hard to provoke."""

import pytest

from pyromq.client.observation.snapshot import BrokerSnapshot, ClusterSnapshot, NameServerSnapshot
from pyromq.doctor.checks.door_check import door
from pyromq.doctor.checks.pop_check import PATIENCE_MS, pops
from pyromq.doctor.finding import Severity
from pyromq.doctor.group_seen import GroupLook, GroupSeen
from pyromq.doctor.survey import Survey
from pyromq.model import MessageQueue
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.bodies.offset_bodies import GroupProgress
from pyromq.wire.bodies.topic_bodies import TopicConfig

QUEUE = MessageQueue("orders", "broker-a", 3)
OURS = {"pyromqVersion": "0.1.0"}


def broker(
    name: str = "broker-a",
    figures: dict[str, str] | None = None,
    settings: dict[str, str] | None = None,
) -> BrokerSnapshot:
    return BrokerSnapshot(
        "DefaultCluster",
        name,
        0,
        f"127.0.0.1:{10_900 + len(name)}",
        figures=OURS | (figures or {}),
        settings=settings or {},
    )


def survey_of(*brokers: BrokerSnapshot, group: GroupSeen | None = None, kind: str = "NORMAL") -> Survey:
    config = TopicConfig(topic_name="orders", attributes={"message.type": kind})
    survey = Survey(
        before=ClusterSnapshot(
            name_servers=[NameServerSnapshot("127.0.0.1:9876")],
            brokers=list(brokers),
            topics={"orders": {"broker-a": config}},
        )
    )
    if group is not None:
        survey.groups.seen[group.name] = group
    return survey


def progress(next_offset: int, in_flight: int, end: int = 50_000) -> dict[MessageQueue, GroupProgress]:
    return {
        QUEUE: GroupProgress(
            broker_offset=end,
            consumer_offset=next_offset - in_flight,
            pull_offset=next_offset,
            in_flight=in_flight,
        )
    }


def group_of(
    before: dict[MessageQueue, GroupProgress],
    after: dict[MessageQueue, GroupProgress] | None = None,
    waits_ms: int = PATIENCE_MS,
    *,
    is_orderly: bool = False,
) -> GroupSeen:
    config = SubscriptionGroupConfig(group_name="billing", consume_message_orderly=is_orderly)
    return GroupSeen(
        "billing",
        {"broker-a": config},
        before=GroupLook(progress=before),
        after=None if after is None else GroupLook(progress=after),
        waits_ms={QUEUE: waits_ms},
    )


# Groups that pop


def test_a_queue_with_as_many_in_flight_as_may_be_is_a_problem() -> None:
    survey = survey_of(broker(), group=group_of(progress(20_000, 10_000)))

    (finding,) = pops(survey)

    assert (finding.severity, finding.subject) == (Severity.PROBLEM, "group billing")
    assert finding.message == (
        "group billing has 10,000 messages in flight in orders broker-a:3: as many as a queue may have "
        "(10,000, popInflightMessageThreshold)"
    )
    assert "pyromq cluster set popInflightMessageThreshold 20000" in finding.do.splitlines()


@pytest.mark.parametrize(
    ("settings", "is_found"),
    [
        ({"popInflightMessageThreshold": "5"}, True),
        ({"popInflightMessageThreshold": "6"}, False),
        ({"popInflightMessageThreshold": "5", "enablePopMessageThreshold": "false"}, False),
    ],
)
def test_the_limit_is_the_brokers_own(settings: dict[str, str], is_found: bool) -> None:
    survey = survey_of(broker(settings=settings), group=group_of(progress(20, 5)))

    assert bool(list(pops(survey))) is is_found


def test_nothing_is_found_where_messages_are_acknowledged() -> None:
    # Twenty more were popped, and as many acknowledged.
    assert not list(pops(survey_of(broker(), group=group_of(progress(100, 10), progress(120, 10)))))


def test_a_group_that_acknowledges_nothing_is_a_warning() -> None:
    survey = survey_of(broker(), group=group_of(progress(100, 10), progress(120, 30)))

    (finding,) = pops(survey)

    assert finding.severity is Severity.WARNING
    assert finding.message == (
        "group billing has 30 messages of orders in flight and acknowledged none while the doctor watched. "
        "The oldest waits for 60 seconds"
    )


def test_a_listener_may_work_for_a_minute() -> None:
    group = group_of(progress(100, 10), progress(100, 10), waits_ms=PATIENCE_MS - 1)

    assert not list(pops(survey_of(broker(), group=group)))


def test_without_a_watch_nobody_knows_whether_something_is_acknowledged() -> None:
    assert not list(pops(survey_of(broker(), group=group_of(progress(100, 10)))))


def test_a_fifo_topic_that_is_popped_in_no_order_is_a_warning() -> None:
    survey = survey_of(broker(), group=group_of(progress(100, 0)), kind="FIFO")
    survey.groups.topics.add("orders")

    (finding,) = pops(survey)

    assert finding.message == "group billing pops orders, which is FIFO, and is not orderly itself"
    assert "pyromq admin updateSubGroup -g billing -c DefaultCluster -o true" in finding.do.splitlines()


def test_a_fifo_topic_that_an_orderly_group_pops_is_well() -> None:
    group = group_of(progress(100, 0), is_orderly=True)

    assert not list(pops(survey_of(broker(), group=group, kind="FIFO")))


def test_a_group_that_does_not_pop_a_fifo_topic_is_no_matter() -> None:
    group = group_of({QUEUE: GroupProgress(broker_offset=9, consumer_offset=5)})

    assert not list(pops(survey_of(broker(), group=group, kind="FIFO")))


# The gRPC port


def test_a_port_that_could_not_be_opened_is_a_warning_with_its_cause() -> None:
    why = "RocketMQ 5's SDKs cannot connect: port 8081 is taken; set grpcServerPort to another, or to 0"

    (finding,) = door(survey_of(broker(figures={"whyNoGrpc": why})))

    assert finding.severity is Severity.WARNING
    assert finding.message.endswith("has no gRPC port: RocketMQ 5's SDKs cannot connect: port 8081 is taken")
    assert finding.do.splitlines() == ["set grpcServerPort to another, or to 0", "then restart broker-a"]


def test_a_broker_without_a_port_beside_one_that_has_one_is_a_warning() -> None:
    survey = survey_of(broker(figures={"grpcAddress": "10.0.0.5:8081"}), broker("broker-bb"))

    (finding,) = door(survey)

    assert finding.subject == "broker-bb"
    assert "broker-bb has no gRPC port, and broker-a of the same cluster has one" in finding.message


def test_a_cluster_that_wants_no_port_is_well() -> None:
    assert not list(door(survey_of(broker(), broker("broker-bb"))))


def test_brokers_of_apaches_are_not_asked_for_a_port() -> None:
    theirs = BrokerSnapshot("DefaultCluster", "broker-c", 0, "127.0.0.1:1", figures={"bootTimestamp": "1"})

    assert not list(door(survey_of(broker(figures={"grpcAddress": "10.0.0.5:8081"}), theirs)))
