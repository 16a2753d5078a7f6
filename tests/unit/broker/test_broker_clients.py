from typing import cast

import pytest

from pyromq.broker.groups.clients import ClientChannel, Consumers, Producers
from pyromq.net.link import Link
from pyromq.net.routes import Caller
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart


class FakeLink:
    closed = False


def link() -> Link:
    return cast(Link, FakeLink())


def client(of: Link) -> ClientChannel:
    return ClientChannel(of, f"client-{id(of)}", 0, 0, 0)


@pytest.fixture
def consumers() -> Consumers:
    return Consumers(ManualClock())


@pytest.fixture
def producers() -> Producers:
    return Producers(ManualClock())


def test_a_closed_connection_leaves_just_the_consumer_groups_that_it_was_in(consumers: Consumers) -> None:
    one, other = link(), link()
    for name in ("a", "b"):
        consumers.register(client(one), ConsumerPart(group_name=name))
    for name in ("b", "c"):
        consumers.register(client(other), ConsumerPart(group_name=name))
    left = [name for name in consumers.names_of(one) if consumers.leave(name, one)]
    assert left == ["a", "b"]
    assert set(consumers.groups) == {"b", "c"}


def test_a_consumer_that_left_a_group_and_came_again_leaves_it_once(consumers: Consumers) -> None:
    one = link()
    consumers.register(client(one), ConsumerPart(group_name="a"))
    consumers.leave("a", one)
    for _ in range(2):
        consumers.register(client(one), ConsumerPart(group_name="a"))
    assert consumers.names_of(one) == ("a",)
    consumers.leave("a", one)
    assert consumers.names_of(one) == ()


def test_a_closed_connection_leaves_just_the_producer_groups_that_it_was_in(producers: Producers) -> None:
    one, other = link(), link()
    for name in ("a", "b"):
        producers.register(client(one), name)
    producers.register(client(other), "b")
    producers.leave_all(one)
    assert {name: list(members) for name, members in producers.groups.items()} == {"b": [other]}
    assert producers.link_of(client(one).client_id) is None


# Ids of clients ---------------------------------------------------------------------------------------------


def named(of: Link, client_id: str, account: str | None = None) -> ClientChannel:
    return ClientChannel(
        of, client_id, 0, 0, 0, None if account is None else Caller(account, is_trusted=False)
    )


def test_an_id_goes_to_the_last_connection_of_its_account(producers: Producers) -> None:
    for account in (None, "shop"):
        before, after = link(), link()
        assert producers.register(named(before, f"{account}@1", account), "a")
        assert producers.register(named(after, f"{account}@1", account), "a")
        assert producers.link_of(f"{account}@1") is after
        producers.leave_all(before)
        assert producers.link_of(f"{account}@1") is after


def test_an_id_stays_with_its_account_while_its_connection_lives(producers: Producers) -> None:
    owner, thief = link(), link()
    producers.register(named(owner, "c@1", "shop"), "a")

    assert not producers.register(named(thief, "c@1", "rival"), "a")
    assert producers.link_of("c@1") is owner
    # It left one of its groups, and is still there.
    producers.register(named(owner, "c@1", "shop"), "b")
    producers.leave("a", owner)
    assert not producers.register(named(thief, "c@1", "rival"), "a")
    producers.leave("b", owner)
    assert producers.register(named(thief, "c@1", "rival"), "a")
    assert producers.link_of("c@1") is thief


def test_a_connection_has_the_last_id_that_it_said_and_no_others(producers: Producers) -> None:
    one = link()
    for number in range(1000):
        producers.register(named(one, f"c@{number}", "shop"), "a")

    assert [producers.link_of(f"c@{number}") for number in (0, 998, 999)] == [None, None, one]
    producers.leave_all(one)
    assert producers.link_of("c@999") is None


def test_only_members_that_are_wanted_are_asked(producers: Producers) -> None:
    one, other = link(), link()
    producers.register(named(one, "1", "shop"), "a")
    producers.register(named(other, "2", "rival"), "a")

    asked = {producers.any_link("a", lambda member: member.account == "shop") for _ in range(4)}

    assert asked == {one}
