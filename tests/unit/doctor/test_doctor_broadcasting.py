"""What is made of what members of broadcasting groups say."""

import pytest

from pyromq.doctor.checks.broadcasting_check import members_lag, untold
from pyromq.doctor.finding import Severity
from pyromq.doctor.group_seen import GroupLook, GroupSeen, GroupsSeen
from pyromq.doctor.motion import reached_by, unread_queues
from pyromq.doctor.survey import Survey
from pyromq.model import MessageQueue
from pyromq.wire.bodies.connection_bodies import ConsumerConnections, MemberConnection
from pyromq.wire.bodies.heartbeat_bodies import MessageModel, Subscription
from pyromq.wire.bodies.offset_bodies import TopicOffset
from pyromq.wire.bodies.running_info import QueueState, RunningState

QUEUE = MessageQueue("ticks", "broker-a", 0)


def look(*, tags: str = "*", **states: QueueState) -> GroupLook:
    """Return a look at members by their names, each with one queue."""
    said = ConsumerConnections(
        connections=[MemberConnection(client_id=name, client_addr="10.0.0.7:4711") for name in states],
        message_model=MessageModel.BROADCASTING,
        subscriptions={"ticks": Subscription(topic="ticks", sub_string=tags)},
    )
    return GroupLook(
        connections={"broker-a": said},
        states={
            name: RunningState(properties={}, subscriptions=[], queues={QUEUE: state}, topics={})
            for name, state in states.items()
        },
    )


def survey_of(
    before: GroupLook, after: GroupLook, *, ends: tuple[int, int], waits: dict[int, int] | None = None
) -> Survey:
    group = GroupSeen("prices", before=before, after=after)
    groups = GroupsSeen(
        seen={"prices": group},
        queues={QUEUE: TopicOffset(max_offset=ends[0])},
        queues_later={QUEUE: TopicOffset(max_offset=ends[1])},
        waits_ms={(QUEUE, at): ms for at, ms in (waits or {}).items()},
        watched_s=10.0,
    )
    return Survey(groups=groups)


def at(offset: int) -> QueueState:
    return QueueState(commit_offset=offset)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (at(5), {QUEUE: 5}),
        (QueueState(cached_msg_count=2, cached_msg_min_offset=7), {QUEUE: 7}),
        (QueueState(), {}),
    ],
    ids=["finished", "in hand", "nothing"],
)
def test_a_member_is_where_it_says_or_at_the_first_that_it_has(
    state: QueueState, expected: dict[MessageQueue, int]
) -> None:
    assert reached_by(look(one=state), "one") == expected


def test_each_member_is_held_against_its_own_progress() -> None:
    survey = survey_of(look(quick=at(50), stuck=at(20)), look(quick=at(100), stuck=at(20)), ends=(60, 100))

    (unread,) = unread_queues(survey.groups.seen["prices"], survey.groups)

    assert (unread.client_id, unread.reached, unread.end) == ("stuck", 20, 100)


def test_members_that_lose_and_members_that_gain_are_told_apart() -> None:
    survey = survey_of(
        look(losing=at(20), gaining=at(20), quick=at(60)),
        look(losing=at(30), gaining=at(58), quick=at(100)),
        ends=(60, 90),
        waits={30: 15_000, 58: 11_000},
    )

    found = {one.severity: one.message for one in members_lag(survey, survey.groups.seen["prices"])}

    assert found == {
        Severity.NOTE: "member gaining of broadcasting group prices is 32 messages behind in ticks and "
        "catches up in about 40 seconds: 3.0 a second come in, 3.8 go out. The oldest waits for 11 seconds",
        Severity.WARNING: "member losing of broadcasting group prices is 60 messages behind in ticks and "
        "falls back further: 3.0 a second come in, 1.0 go out. The oldest waits for 15 seconds",
    }


def test_what_waits_for_a_moment_only_is_no_lag() -> None:
    survey = survey_of(look(one=at(58)), look(one=at(59)), ends=(60, 90), waits={59: 9_000})

    assert list(members_lag(survey, survey.groups.seen["prices"])) == []


def test_a_member_that_says_nothing_of_a_queue_is_noted_once_messages_come_that_it_wants() -> None:
    quiet = survey_of(look(one=QueueState()), look(one=QueueState()), ends=(60, 60))
    busy = survey_of(look(one=QueueState()), look(one=QueueState()), ends=(60, 90))
    filtered = survey_of(look(one=QueueState()), look(one=QueueState(), tags="up"), ends=(60, 90))

    assert [len(list(untold(survey))) for survey in (quiet, busy, filtered)] == [0, 1, 0]
    (note,) = untold(busy)
    assert note.severity is Severity.NOTE
    assert "one of group prices (it says nothing of 1 queue into which messages come)" in note.message


def test_a_group_whose_members_share_queues_is_not_asked_so() -> None:
    survey = survey_of(look(one=QueueState()), look(one=QueueState()), ends=(60, 90))
    group = survey.groups.seen["prices"]
    for each in (group.before, group.after):
        assert each is not None
        each.connections = {name: replace_model(said) for name, said in each.connections.items()}

    assert list(untold(survey)) == []


def replace_model(said: ConsumerConnections) -> ConsumerConnections:
    return ConsumerConnections(
        connections=said.connections, message_model=MessageModel.CLUSTERING, subscriptions=said.subscriptions
    )
