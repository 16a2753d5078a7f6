import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest

from pyromq.broker.groups.clients import ClientChannel
from pyromq.broker.groups.subscription_conflicts import TOLD_MAX, Ruling, SubscriptionConflicts
from pyromq.config.settings import BrokerSettings
from pyromq.net.link import Link
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, Subscription

GROUP = "readers"
GRACE_MS = 60_000


class FakeLink:
    def __init__(self, name: str) -> None:
        self.name = name


@dataclass
class Stage:
    """Conflicts with members that are named by letters."""

    clock: ManualClock
    conflicts: SubscriptionConflicts
    told: list[tuple[list[str], str]]
    links: dict[str, FakeLink] = field(default_factory=dict)

    def beat(self, name: str, expression: str = "*", version: int = 1) -> Ruling:
        link = self.links.setdefault(name, FakeLink(name))
        wanted = [Subscription(topic="orders", sub_string=expression, sub_version=version)]
        part = ConsumerPart(group_name=GROUP, subscriptions=wanted)
        return self.conflicts.note(ClientChannel(cast(Link, link), name, 0, 0, 0), part)

    def leave(self, name: str) -> Ruling:
        return self.conflicts.leave(GROUP, cast(Link, self.links[name]))

    def refused(self) -> set[str]:
        return {
            name
            for name, link in self.links.items()
            if self.conflicts.refusal(GROUP, cast(Link, link)) is not None
        }

    def look(self, later_ms: int = 0) -> None:
        self.clock.advance(later_ms)
        self.conflicts.look()

    @property
    def difference(self) -> str | None:
        found = self.conflicts.conflict(GROUP)
        return None if found is None else str(found[0])


def new_stage(**changes: bool) -> Stage:
    clock, told = ManualClock(), list[tuple[list[str], str]]()

    def warn(_group: str, links: Sequence[Link], text: str) -> None:
        told.append(([cast(FakeLink, link).name for link in links], text))

    settings = BrokerSettings(subscription_conflict_grace=GRACE_MS, **changes)
    return Stage(clock, SubscriptionConflicts(settings, clock, warn), told)


@pytest.fixture
def stage() -> Stage:
    return new_stage()


@pytest.fixture
def strict() -> Stage:
    return new_stage(reject_inconsistent_subscription=True)


def names(links: Iterable[Link]) -> list[str]:
    return [cast(FakeLink, link).name for link in links]


def admitted(ruling: Ruling) -> list[str]:
    return [client.client_id for client, _ in ruling.admitted]


def test_a_difference_that_lasts_for_the_grace_is_told_to_both_sides_and_the_log(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.beat("a")
    stage.beat("b", "x")

    stage.look(GRACE_MS)

    assert stage.difference == "client b: orders tags x; client a: orders *"
    assert [sorted(who) for who, _ in stage.told] == [["a", "b"]]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "client b: orders tags x; client a: orders *" in caplog.text


def test_a_deployment_that_is_over_within_the_grace_is_not_told(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    stage.beat("a")
    stage.beat("b")
    stage.beat("a", "x")
    stage.look(GRACE_MS - 1)

    stage.beat("b", "x")
    stage.look(GRACE_MS)

    assert stage.told == []
    assert caplog.records == []


def test_a_difference_is_told_once_until_it_is_another_one(stage: Stage) -> None:
    stage.beat("a")
    stage.beat("b", "x")
    stage.look(GRACE_MS)
    for version in range(5):
        stage.beat("a", version=version)
        stage.beat("b", "x", version=version)
        stage.look(1_000)
    assert len(stage.told) == 1

    stage.beat("b", "y")
    stage.look(1_000)

    assert len(stage.told) == 2
    assert "orders tags y" in stage.told[-1][1]


def test_more_of_those_who_hold_are_no_other_difference(stage: Stage) -> None:
    stage.beat("a")
    stage.beat("b", "x")
    stage.look(GRACE_MS)
    stage.beat("c")
    stage.look(1_000)
    assert len(stage.told) == 1
    assert stage.difference == "client b: orders tags x; 2 others: orders *"


@pytest.mark.parametrize("end", ["agree", "leave"])
def test_a_conflict_ends_at_once_when_members_agree_or_leave(stage: Stage, end: str) -> None:
    stage.beat("a")
    stage.beat("b", "x")
    stage.look(GRACE_MS)

    if end == "agree":
        stage.beat("b", "*")
    else:
        stage.leave("b")

    assert stage.difference is None
    assert stage.conflicts.warning(GROUP) is None
    assert stage.conflicts.lasting == {}


def test_a_difference_that_comes_again_gets_the_grace_again(stage: Stage) -> None:
    stage.beat("a")
    stage.beat("b", "x")
    stage.look(GRACE_MS)
    stage.beat("b")
    stage.beat("b", "x")
    stage.look(GRACE_MS - 1)
    assert stage.difference is None


def test_a_group_without_members_is_forgotten(stage: Stage) -> None:
    stage.beat("a")
    stage.beat("b", "x")
    stage.leave("a")
    stage.leave("b")
    stage.beat("b", "x")
    stage.look(GRACE_MS)
    assert stage.told == []


def test_without_the_setting_everybody_is_let_in(stage: Stage) -> None:
    stage.beat("a")
    ruling = stage.beat("b", "x")
    assert admitted(ruling) == ["b"]
    assert stage.refused() == set()


def test_of_very_many_members_some_of_each_side_are_told(stage: Stage) -> None:
    for number in range(TOLD_MAX + 50):
        stage.beat(f"a{number}")
    stage.beat("b", "x")
    stage.look(GRACE_MS)
    (told,) = stage.told
    assert len(told[0]) == TOLD_MAX + 1
    assert "b" in told[0]


def test_the_smaller_side_is_refused_at_once_with_the_difference(strict: Stage) -> None:
    strict.beat("a")
    strict.beat("b")
    ruling = strict.beat("c", "x")
    assert admitted(ruling) == []
    assert strict.refused() == {"c"}
    reason = strict.conflicts.refusal(GROUP, cast(Link, strict.links["c"]))
    assert reason is not None
    assert "client c: orders tags x; 2 others: orders *" in reason


def test_with_as_many_on_each_side_those_who_came_later_are_refused(strict: Stage) -> None:
    strict.beat("a")
    strict.beat("b", "x")
    assert strict.refused() == {"b"}


def test_a_member_that_changes_its_mind_alone_has_to_go(strict: Stage) -> None:
    for name in "abc":
        strict.beat(name)
    ruling = strict.beat("a", "x")
    assert names(ruling.expelled) == ["a"]
    assert admitted(ruling) == []
    assert not ruling.is_turned


def test_a_refused_member_that_heartbeats_again_is_not_told_to_go_again(strict: Stage) -> None:
    strict.beat("a")
    strict.beat("b", "x")
    ruling = strict.beat("b", "x")
    assert (admitted(ruling), names(ruling.expelled)) == ([], [])


def test_a_refused_member_that_agrees_is_let_in(strict: Stage) -> None:
    strict.beat("a")
    strict.beat("b", "x")
    assert admitted(strict.beat("b")) == ["b"]
    assert strict.refused() == set()


def test_when_the_refused_become_the_most_the_sides_change_places(strict: Stage) -> None:
    strict.beat("a")
    strict.beat("b", "x")

    ruling = strict.beat("c", "x")

    assert ruling.is_turned
    assert sorted(admitted(ruling)) == ["b", "c"]
    assert names(ruling.expelled) == ["a"]
    assert strict.refused() == {"a"}


def test_a_deployment_from_member_to_member_turns_when_most_are_new(strict: Stage) -> None:
    for name in "abc":
        strict.beat(name)
    strict.beat("a", "x")
    assert strict.refused() == {"a"}
    ruling = strict.beat("b", "x")
    assert sorted(admitted(ruling)) == ["a", "b"]
    assert names(ruling.expelled) == ["c"]
    assert admitted(strict.beat("c", "x")) == ["c"]
    assert strict.refused() == set()


def test_when_those_who_hold_leave_the_refused_are_let_in(strict: Stage) -> None:
    strict.beat("a")
    strict.beat("b", "x")
    ruling = strict.leave("a")
    assert admitted(ruling) == ["b"]
    assert strict.refused() == set()


def test_a_refused_member_whose_connection_ends_is_forgotten(strict: Stage) -> None:
    strict.beat("a")
    strict.beat("b", "x")
    (left,) = strict.conflicts.leave_all(cast(Link, strict.links["b"]))
    assert left == (GROUP, Ruling())
    assert not strict.conflicts.has_refused(GROUP)


def test_a_lone_member_may_change_its_mind(strict: Stage) -> None:
    strict.beat("a", version=2)
    ruling = strict.beat("a", "x", version=1)
    assert admitted(ruling) == ["a"]
    assert ruling.is_turned


def test_members_that_were_sent_away_and_said_nothing_since_are_let_in_when_they_do(strict: Stage) -> None:
    strict.beat("a")
    strict.beat("b", "x")
    strict.beat("c", "x")
    assert strict.refused() == {"a"}
    strict.leave("b")
    strict.leave("c")
    assert strict.refused() == set()
    assert admitted(strict.beat("a")) == ["a"]
