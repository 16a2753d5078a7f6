"""Up to where enough followers have the log, and which of them are near."""

from math import inf

import pytest

from pyromq.broker.replication.followers import ConnectedSlave, Followers
from pyromq.config.settings import StoreSettings
from pyromq.testing.manual_clock import ManualClock


class GrowingLog:
    """A log that is only its end."""

    def __init__(self) -> None:
        self.committed_position = 0


class Group:
    """Followers of a log that grows by hand."""

    def __init__(self, in_sync: frozenset[int] | None = None, **settings: int) -> None:
        self.log = GrowingLog()
        self.clock = ManualClock()
        self.told: list[int] = []
        self.followers = Followers(
            self.log,
            StoreSettings(**settings),  # type: ignore[arg-type]  # the tests' own keywords
            self.clock,
            in_sync=in_sync,
            on_confirmed=self.told.append,
        )

    def grow(self, end: int) -> None:
        self.log.committed_position = end
        self.followers.appended()

    def follower(self, id_: int | None = None, acked: int = 0) -> ConnectedSlave:
        follower = self.followers.connected("10.0.0.1:5000", id_)
        self.followers.acknowledged(follower, acked)
        return follower


@pytest.mark.row("HA-03")
def test_one_slave_of_several_is_enough() -> None:
    group = Group()
    group.grow(100)
    slow, fast = group.follower(), group.follower()
    group.followers.acknowledged(fast, 80)
    group.followers.acknowledged(slow, 10)
    assert group.followers.confirmed == 80
    assert group.told == [80]


def test_with_three_in_sync_replicas_two_slaves_must_have_it() -> None:
    group = Group(in_sync_replicas=3)
    group.grow(100)
    group.follower(acked=90)
    assert group.told == []
    second = group.follower(acked=20)
    group.follower(acked=50)
    assert group.followers.confirmed == 50
    group.followers.acknowledged(second, 95)
    assert group.told == [20, 50, 90]


def test_what_was_confirmed_stays_confirmed_when_the_slave_is_gone() -> None:
    group = Group()
    group.grow(100)
    follower = group.follower(acked=100)
    group.followers.gone(follower)
    group.follower(acked=5)
    assert group.followers.confirmed == 100
    assert group.told == [100]


@pytest.mark.row("HA-02")
def test_nobody_is_near_without_a_slave() -> None:
    group = Group()
    assert not group.followers.is_anyone_near(1)
    follower = group.follower()
    assert group.followers.is_anyone_near(1)
    group.followers.gone(follower)
    assert not group.followers.is_anyone_near(1)


@pytest.mark.row("HA-02")
def test_a_slave_too_far_behind_is_not_near() -> None:
    group = Group(ha_slave_fallbehind_max=1000)
    group.follower(acked=0)
    assert group.followers.is_anyone_near(999)
    assert not group.followers.is_anyone_near(1000)


def test_fewer_near_slaves_than_are_needed_are_not_enough() -> None:
    group = Group(in_sync_replicas=3)
    group.follower()
    assert not group.followers.is_anyone_near(1)
    group.follower()
    assert group.followers.is_anyone_near(1)


def test_all_members_of_the_in_sync_set_must_have_it() -> None:
    group = Group(frozenset({1, 2}))
    group.grow(100)
    one, two = group.follower(1, acked=60), group.follower(2, acked=40)
    group.follower(3, acked=0)
    assert group.followers.confirmed == 40
    group.followers.acknowledged(two, 100)
    assert group.followers.confirmed == 60
    group.followers.acknowledged(one, 100)
    assert group.told == [40, 60, 100]


def test_a_member_that_was_never_seen_holds_everything_up() -> None:
    group = Group(frozenset({1, 2}))
    group.grow(100)
    group.follower(1, acked=100)
    assert group.followers.confirmed == 0


def test_a_member_that_is_gone_holds_up_what_follows_until_the_set_changes() -> None:
    group = Group(frozenset({1, 2}))
    group.grow(100)
    one, two = group.follower(1, acked=30), group.follower(2, acked=30)
    group.followers.gone(two)
    group.followers.acknowledged(one, 100)
    assert group.followers.confirmed == 30
    assert two in group.followers.members
    group.followers.in_sync = frozenset({1})
    assert group.followers.confirmed == 100
    assert group.followers.members == (one,)


def test_a_master_alone_confirms_what_it_appends() -> None:
    group = Group(frozenset())
    group.grow(10)
    group.grow(25)
    assert group.told == [10, 25]
    group.followers.in_sync = frozenset({4})
    group.grow(30)
    assert group.followers.confirmed == 25
    group.followers.in_sync = frozenset()
    assert group.followers.confirmed == 30


def test_a_member_that_joins_does_not_take_back_what_was_confirmed() -> None:
    group = Group(frozenset())
    group.grow(50)
    group.follower(1, acked=20)
    group.followers.in_sync = frozenset({1})
    assert group.followers.confirmed == 50


def test_members_of_the_in_sync_set_are_waited_for_even_if_they_are_gone() -> None:
    assert Group(frozenset({1})).followers.is_anyone_near(1 << 40)


def test_a_broker_that_connects_again_is_one_follower_with_what_it_says_that_it_has() -> None:
    group = Group(frozenset({1}))
    group.grow(100)
    first = group.follower(1, acked=70)
    second = group.followers.connected("10.0.0.1:6000", 1)
    assert group.followers.members == (second,)
    # It may have lost some of what it had, and says so next; what was confirmed stays so.
    assert second.acked == 0
    assert group.followers.confirmed == 70
    group.followers.gone(first)
    assert group.followers.members == (second,)
    assert second.is_connected


def test_a_stranger_that_is_gone_is_forgotten() -> None:
    group = Group(frozenset({1}))
    for id_ in range(10, 30):
        group.followers.gone(group.follower(id_))
    assert group.followers.members == ()


class TestHowLongAFollowerIsBehind:
    def test_one_that_never_had_everything_is_behind_forever(self) -> None:
        group = Group(frozenset())
        group.grow(100)
        assert group.followers.behind_s(group.follower(1, acked=10)) == inf

    def test_one_that_has_everything_is_not_behind_however_long_nothing_comes(self) -> None:
        group = Group(frozenset())
        follower = group.follower(1, acked=0)
        group.clock.advance(60_000)
        assert group.followers.behind_s(follower) == 0

    def test_it_is_behind_from_the_first_append_that_it_does_not_have(self) -> None:
        group = Group(frozenset())
        follower = group.follower(1, acked=0)
        group.clock.advance(60_000)
        group.grow(10)
        group.clock.advance(500)
        group.grow(20)
        group.clock.advance(500)
        assert group.followers.behind_s(follower) == 1.0
        group.followers.acknowledged(follower, 20)
        assert group.followers.behind_s(follower) == 0

    def test_with_messages_all_the_time_it_is_behind_by_as_much_as_it_is_late(self) -> None:
        group = Group(frozenset())
        follower = group.follower(1, acked=0)
        for end in range(10, 1000, 10):
            group.grow(end)
            group.clock.advance(100)
            group.followers.acknowledged(follower, end - 10)
        assert group.followers.behind_s(follower) <= 0.3

    def test_one_that_stops_falls_behind(self) -> None:
        group = Group(frozenset())
        follower = group.follower(1, acked=0)
        for end in range(10, 100, 10):
            group.grow(end)
            group.clock.advance(1000)
        assert group.followers.behind_s(follower) == 9.0

    def test_one_that_is_gone_is_behind_from_then_on(self) -> None:
        group = Group(frozenset({1}))
        follower = group.follower(1, acked=0)
        group.clock.advance(5_000)
        group.followers.gone(follower)
        group.clock.advance(700)
        assert group.followers.behind_s(follower) == pytest.approx(0.7)

    def test_one_that_connects_again_is_behind_as_long_as_before(self) -> None:
        group = Group(frozenset({1}))
        first = group.follower(1, acked=0)
        group.grow(10)
        group.followers.gone(first)
        group.clock.advance(700)
        second = group.followers.connected("10.0.0.1:6000", 1)
        assert group.followers.behind_s(second) == pytest.approx(0.7)


def test_the_lag_of_a_follower_is_told_in_bytes() -> None:
    group = Group()
    group.grow(100)
    follower = group.follower(acked=30)
    assert group.followers.lag_bytes(follower) == 70
    assert group.followers.connected_count == 1
    assert "acked 30" in repr(follower)
