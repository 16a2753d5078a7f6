"""What moved between two looks at a group, and what is said of it."""

from dataclasses import replace

import msgspec
import pytest

from pyromq.client.observation.counts import TopicFlow
from pyromq.doctor.checks.filter_check import near_misses
from pyromq.doctor.checks.listener_check import HANGS_MS, listeners
from pyromq.doctor.checks.member_check import client_ids
from pyromq.doctor.finding import Severity
from pyromq.doctor.group_seen import GroupLook, GroupSeen, GroupsSeen
from pyromq.doctor.motion import flows, still_queues, unread_queues
from pyromq.doctor.survey import Survey
from pyromq.model import MessageQueue
from pyromq.wire.bodies.connection_bodies import ConsumerConnections, MemberConnection
from pyromq.wire.bodies.heartbeat_bodies import Subscription
from pyromq.wire.bodies.offset_bodies import GroupProgress, TopicOffset
from pyromq.wire.bodies.running_info import QueueState, RunningState, TopicStatus

QUEUE = MessageQueue("orders", "broker-a", 0)
NOW_MS = 1_000_000


def look(state: QueueState, *, progress: int = 5, usual_ms: float = 0.0) -> GroupLook:
    member = RunningState(
        properties={},
        subscriptions=[],
        queues={QUEUE: state},
        topics={"orders": TopicStatus(consume_rt=usual_ms)},
    )
    said = ConsumerConnections(
        connections=[MemberConnection(client_id="c1", client_addr="10.0.0.7:4711")],
        consume_type="CONSUME_PASSIVELY",
    )
    return GroupLook(
        connections={"broker-a": said},
        states={"c1": member},
        progress={QUEUE: GroupProgress(broker_offset=9, consumer_offset=progress)},
    )


def seen(before: GroupLook, after: GroupLook, *, end: int = 9) -> tuple[GroupSeen, GroupsSeen]:
    group = GroupSeen("billing", before=before, after=after)
    ends = {QUEUE: TopicOffset(max_offset=end)}
    groups = GroupsSeen(
        seen={"billing": group}, queues=ends, queues_later=ends, watched_s=10.0, looked_at_ms=NOW_MS
    )
    return group, groups


HELD = QueueState(
    commit_offset=5,
    cached_msg_count=4,
    cached_msg_min_offset=5,
    last_consume_timestamp=NOW_MS - 90_000,
)


def test_a_head_that_stays_stands_still_since_something_was_finished_last() -> None:
    (still,) = still_queues(*seen(look(HELD), look(HELD)))

    assert (still.queue, still.head, still.in_hand, still.for_ms, still.is_busy) == (
        QUEUE,
        5,
        4,
        90_000,
        False,
    )


@pytest.mark.parametrize(
    "after",
    [
        QueueState(cached_msg_count=3, cached_msg_min_offset=6),
        QueueState(cached_msg_count=0),
        QueueState(cached_msg_count=4, cached_msg_min_offset=5, droped=True),
    ],
    ids=["another head", "nothing in hand", "given up"],
)
def test_a_queue_that_moved_or_went_does_not_stand_still(after: QueueState) -> None:
    assert still_queues(*seen(look(HELD), look(after))) == []


def test_a_message_that_takes_as_long_as_usual_is_just_being_worked_on() -> None:
    group, groups = seen(look(HELD), look(HELD, usual_ms=40_000))

    assert still_queues(group, groups) == []


def test_what_is_consumed_in_order_is_in_hand_too() -> None:
    taken = QueueState(
        transaction_msg_count=1,
        transaction_msg_min_offset=5,
        cached_msg_count=3,
        cached_msg_min_offset=6,
    )

    (still,) = still_queues(*seen(look(taken), look(taken)))

    assert (still.head, still.in_hand) == (5, 4)


@pytest.mark.parametrize(("ago_ms", "severity"), [(HANGS_MS, Severity.PROBLEM), (5_000, Severity.WARNING)])
def test_a_listener_that_did_nothing_for_a_minute_hangs(ago_ms: int, severity: Severity) -> None:
    state = msgspec.structs.replace(HELD, last_consume_timestamp=NOW_MS - ago_ms)
    _, groups = seen(look(state), look(state))

    (finding,) = listeners(Survey(groups=groups))

    assert finding.severity is severity
    assert "member c1 of group billing, at 10.0.0.7:4711," in finding.message


def test_messages_that_nobody_fetches_are_unread_and_those_that_just_came_are_not() -> None:
    idle = QueueState(commit_offset=5)

    (unread,) = unread_queues(*seen(look(idle), look(idle)))
    assert (unread.reached, unread.end) == (5, 9)
    assert unread_queues(*seen(look(idle), look(idle), end=5)) == []


def test_a_members_word_on_its_progress_is_newer_than_its_brokers() -> None:
    group, groups = seen(look(QueueState(commit_offset=6)), look(QueueState(commit_offset=8)))

    assert flows(group, groups) == {
        "orders": TopicFlow("orders", came=0, went=2, lag_before=3, lag=1, lags={QUEUE: 1}, seconds=10.0)
    }


def test_how_long_it_takes_to_catch_up_follows_from_how_much_less_is_left() -> None:
    flow = TopicFlow("orders", came=10, went=30, lag_before=120, lag=100, lags={}, seconds=10.0)

    assert flow.catches_up_in_s == 50.0
    assert replace(flow, lag=120).catches_up_in_s is None


def test_a_clock_of_a_member_that_is_wrong_does_not_make_it_hang() -> None:
    behind_ms = 3_600_000
    state = msgspec.structs.replace(
        HELD, last_consume_timestamp=NOW_MS - behind_ms - 4_000, last_pull_timestamp=NOW_MS - behind_ms
    )

    (still,) = still_queues(*seen(look(state), look(state)))

    assert still.for_ms == 10_000


def connected(*addresses: tuple[str, str]) -> GroupLook:
    return GroupLook(
        connections={
            broker: ConsumerConnections(
                connections=[
                    MemberConnection(client_id="c1", client_addr=address)
                    for at, address in addresses
                    if at == broker
                ]
            )
            for broker, _ in addresses
        }
    )


@pytest.mark.parametrize(
    ("addresses", "severities"),
    [
        ([("broker-a", "10.0.0.7:1"), ("broker-b", "10.0.0.7:2")], []),
        ([("broker-a", "10.0.0.7:1"), ("broker-b", "10.0.0.8:2")], [Severity.WARNING]),
        ([("broker-a", "10.0.0.7:1"), ("broker-a", "10.0.0.7:2")], [Severity.PROBLEM]),
    ],
    ids=["one client of two brokers", "two machines", "two connections"],
)
def test_an_id_is_used_twice_if_it_has_two_connections_or_two_machines(
    addresses: list[tuple[str, str]], severities: list[Severity]
) -> None:
    group = GroupSeen("billing", before=connected(*addresses), after=connected(*addresses))

    found = client_ids(Survey(groups=GroupsSeen(seen={"billing": group})))

    assert [finding.severity for finding in found] == severities


def test_an_id_that_was_used_twice_only_for_a_moment_is_none() -> None:
    group = GroupSeen(
        "billing",
        before=connected(("broker-a", "10.0.0.7:1"), ("broker-a", "10.0.0.7:2")),
        after=connected(("broker-a", "10.0.0.7:2")),
    )

    assert list(client_ids(Survey(groups=GroupsSeen(seen={"billing": group})))) == []


@pytest.mark.parametrize("wanted", ["Paid", "paid,sent", "paid|sent", "sent || PAID ", "paid sent"])
def test_a_tag_that_only_looks_different_is_the_one_that_is_meant(wanted: str) -> None:
    assert near_misses(Subscription(topic="orders", sub_string=wanted), ["paid", "refunded"]) == ["paid"]


def test_a_tag_that_is_another_one_is_not_meant() -> None:
    assert near_misses(Subscription(topic="orders", sub_string="unpaid"), ["paid"]) == []
