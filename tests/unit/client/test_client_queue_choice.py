from concurrent.futures import ThreadPoolExecutor

import pytest

from pyromq.client.producer.queue_choice import RoundRobin, select_by_hash
from pyromq.model import Message, MessageQueue

MESSAGE = Message("t", b"x")


def queues(*brokers: str, count: int = 2) -> list[MessageQueue]:
    return [MessageQueue("t", broker, queue_id) for broker in brokers for queue_id in range(count)]


@pytest.mark.row("QS-01", "QS-15")
def test_queues_are_taken_in_turn_and_then_from_the_start_again() -> None:
    four_on_two = queues("a", "b", count=4)
    turn = RoundRobin(start=0)

    chosen = [turn.choose(four_on_two) for _ in range(9)]

    assert chosen == [*four_on_two, four_on_two[0]]


@pytest.mark.row("QS-01")
def test_the_turn_begins_anywhere() -> None:
    among = queues("a", count=64)

    starts = {RoundRobin().choose(among) for _ in range(64)}

    # All 64 at one queue by chance: once in 64^63.
    assert len(starts) > 1


@pytest.mark.row("QS-02")
def test_a_retry_skips_the_queues_of_the_broker_that_failed() -> None:
    turn = RoundRobin(start=0)

    chosen = {turn.choose(queues("a", "b", "c"), avoid="b").broker_name for _ in range(12)}

    assert chosen == {"a", "c"}


@pytest.mark.row("QS-02")
def test_when_only_the_failed_broker_has_queues_its_next_one_is_taken() -> None:
    only = queues("a", count=3)
    turn = RoundRobin(start=1)

    first = turn.choose(only)
    retries = [turn.choose(only, avoid="a") for _ in range(3)]

    assert [queue.queue_id for queue in (first, *retries)] == [1, 2, 0, 1]


@pytest.mark.row("QS-01")
def test_a_thread_takes_the_queues_in_turn_whatever_other_threads_send() -> None:
    among = queues("a", count=4)
    turn = RoundRobin()

    def take() -> list[int]:
        return [turn.choose(among).queue_id for _ in range(3)]

    mine = take()
    with ThreadPoolExecutor(1) as other:
        theirs = other.submit(take).result()
        mine += take()
        theirs += other.submit(take).result()
        mine += take()

    assert mine == [(mine[0] + at) % 4 for at in range(9)]
    assert theirs == [(theirs[0] + at) % 4 for at in range(6)]


@pytest.mark.row("QS-01")
def test_each_thread_begins_anywhere() -> None:
    among = queues("a", count=64)
    turn = RoundRobin()
    starts = set()

    for _ in range(64):
        with ThreadPoolExecutor(1) as thread:
            starts.add(thread.submit(turn.choose, among).result())

    # In turn, as one shared count would give, or all at one queue by chance: once in 64^63.
    assert 1 < len(starts) < 64


@pytest.mark.row("QS-17")
@pytest.mark.parametrize(
    ("key", "count", "index"),
    [
        ("hello", 4, 99162322 % 4),
        ("polygenelubricants", 7, 2),  # its hash is Integer.MIN_VALUE, and abs(MIN_VALUE % 7) == 2
        ("", 4, 0),
        (7, 4, 3),
        (-7, 4, 2),  # Long.hashCode(-7) == 6
        (2**40 + 5, 7, (5 ^ 256) % 7),
    ],
)
def test_a_key_goes_to_the_queue_that_java_chooses(key: str | int, count: int, index: int) -> None:
    among = queues("a", count=count)

    assert select_by_hash(key)(among, MESSAGE) == among[index]


@pytest.mark.row("QS-17")
def test_one_key_always_goes_to_one_queue_and_keys_spread() -> None:
    among = queues("a", "b", count=4)

    chosen = {key: {select_by_hash(key)(among, MESSAGE) for _ in range(3)} for key in map(str, range(100))}

    assert all(len(found) == 1 for found in chosen.values())
    assert len(set.union(*chosen.values())) == len(among)
