"""Shares of queues. `java_allocations.jsonl` is what Allocations.java prints for seed 7 and 40 groups."""

import json
import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from java_allocations import Case, our_shares

from pyromq.client.consumer.allocation import (
    Allocate,
    average,
    average_by_circle,
    by_config,
    by_machine_room,
    consistent_hash,
    machine_room_nearby,
)
from pyromq.errors import ConfigError
from pyromq.model import MessageQueue

RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parent / "java_allocations.jsonl").read_text(encoding="utf-8").splitlines()
]
SHARING = {"average": average, "circle": average_by_circle, "hash": consistent_hash()}


def queues_of(*brokers: str, count: int = 4) -> list[MessageQueue]:
    return [MessageQueue("topic", broker, number) for broker in brokers for number in range(count)]


def ids(shares: list[MessageQueue]) -> list[int]:
    return [queue.queue_id for queue in shares]


@pytest.mark.row("RB-07", "RB-08", "RB-09", "RB-10", "RB-11")
@pytest.mark.parametrize("case", RECORDED, ids=range(len(RECORDED)))
def test_every_member_gets_what_rocketmq_gave_it(case: Case) -> None:
    assert our_shares(case) == case["shares"]


@pytest.mark.row("RB-01", "CO-03")
@pytest.mark.parametrize("allocate", SHARING.values(), ids=SHARING)
@settings(deadline=None, max_examples=50)
@given(queue_count=st.integers(1, 40), client_count=st.integers(1, 20))
def test_every_queue_is_one_member_s(allocate: Allocate, queue_count: int, client_count: int) -> None:
    queues = queues_of("a", count=queue_count)
    clients = sorted(f"10.0.0.{number}@{number}" for number in range(client_count))

    shares = [queue for client in clients for queue in allocate("group", client, queues, clients)]

    assert sorted(shares) == queues


@pytest.mark.row("RB-07")
def test_the_average_gives_blocks_and_the_remainder_to_the_first() -> None:
    queues, clients = queues_of("a", count=8), ["x", "y", "z"]

    assert [ids(average("group", client, queues, clients)) for client in clients] == [
        [0, 1, 2],
        [3, 4, 5],
        [6, 7],
    ]


@pytest.mark.row("RB-08")
def test_the_circle_deals_queues_out_one_by_one() -> None:
    queues, clients = queues_of("a", count=8), ["x", "y", "z"]

    assert [ids(average_by_circle("group", client, queues, clients)) for client in clients] == [
        [0, 3, 6],
        [1, 4, 7],
        [2, 5],
    ]


@pytest.mark.row("RB-05")
@pytest.mark.parametrize("allocate", [average, average_by_circle], ids=["average", "circle"])
def test_members_beyond_the_number_of_queues_get_none(allocate: Allocate) -> None:
    queues, clients = queues_of("a", count=2), ["w", "x", "y", "z"]

    assert [ids(allocate("group", client, queues, clients)) for client in clients] == [[0], [1], [], []]


@pytest.mark.row("RB-12")
@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10_000), client_count=st.integers(2, 12))
def test_with_consistent_hashing_only_the_queues_of_one_who_leaves_move(seed: int, client_count: int) -> None:
    queues = queues_of("a", "b", count=16)
    clients = sorted(f"10.0.{seed}.{number}" for number in range(client_count))
    left = clients[:-1]
    allocate = consistent_hash()

    for client in left:
        before = allocate("group", client, queues, clients)
        assert set(before) <= set(allocate("group", client, queues, left))


@pytest.mark.row("RB-12")
def test_consistent_hashing_is_less_even_than_the_average() -> None:
    queues, clients = queues_of("a", count=64), [f"10.0.0.{number}" for number in range(8)]

    sizes = {len(consistent_hash()("group", client, queues, clients)) for client in clients}

    assert {len(average("group", client, queues, clients)) for client in clients} == {8}
    assert max(sizes) > 8


@pytest.mark.row("RB-10")
def test_queues_stay_in_their_room_and_those_of_an_empty_room_are_shared_by_all() -> None:
    queues = queues_of("east", "north", "west")
    clients = ["1@east", "2@east", "3@west"]
    allocate = machine_room_nearby(
        average, lambda queue: queue.broker_name, lambda client: client.partition("@")[2]
    )

    shares = {client: allocate("group", client, queues, clients) for client in clients}

    assert [(queue.broker_name, queue.queue_id) for queue in shares["1@east"]] == [
        ("east", 0),
        ("east", 1),
        ("north", 0),
        ("north", 1),
    ]
    assert {queue.broker_name for queue in shares["3@west"]} == {"west", "north"}
    assert sorted(queue for share in shares.values() for queue in share) == queues


@pytest.mark.row("RB-10")
def test_a_room_that_is_unknown_is_an_error() -> None:
    allocate = machine_room_nearby(average, lambda queue: "", lambda client: "east")

    with pytest.raises(ConfigError, match="has no machine room"):
        allocate("group", "x", queues_of("a"), ["x"])


@pytest.mark.row("RB-10")
def test_only_brokers_of_the_wanted_rooms_are_shared() -> None:
    queues = queues_of("east@a", "plain", "west@b")

    shared = by_machine_room({"east"})("group", "x", queues, ["x"])

    assert shared == queues_of("east@a")


@pytest.mark.row("RB-11")
def test_by_config_everybody_gets_what_it_was_told() -> None:
    chosen = queues_of("a", count=2)

    assert by_config(chosen)("group", "x", queues_of("a", "b"), ["x", "y"]) == chosen


@pytest.mark.parametrize("allocate", SHARING.values(), ids=SHARING)
def test_one_who_is_not_yet_a_member_gets_nothing_and_it_is_logged(
    allocate: Allocate, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "pyromq.client"):
        assert allocate("group", "stranger", queues_of("a"), ["x"]) == []

    assert "stranger is not among the members of group group" in caplog.text


@pytest.mark.parametrize("allocate", SHARING.values(), ids=SHARING)
def test_without_an_id_queues_or_members_there_is_nothing_to_share(allocate: Allocate) -> None:
    with pytest.raises(ConfigError, match="without an id"):
        allocate("group", "", queues_of("a"), ["x"])
    with pytest.raises(ConfigError, match="no queues"):
        allocate("group", "x", [], ["x"])
    with pytest.raises(ConfigError, match="no clients"):
        allocate("group", "x", queues_of("a"), [])


def test_a_ring_has_no_negative_number_of_places() -> None:
    with pytest.raises(ConfigError, match="-1 places"):
        consistent_hash(-1)
