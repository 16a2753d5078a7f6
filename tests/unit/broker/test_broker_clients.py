from typing import cast

import pytest

from pyromq.broker.clients import Client, Consumers, Producers
from pyromq.net.link import Link
from pyromq.testing.clock import ManualClock
from pyromq.wire.bodies.heartbeat import ConsumerPart


class FakeLink:
    closed = False


def link() -> Link:
    return cast(Link, FakeLink())


def client(of: Link) -> Client:
    return Client(of, f"client-{id(of)}", 0, 0, 0)


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
