"""Chunks leave by another thread: one at a time, in their order, and a failure is not passed over."""

import threading

import pytest

from pyromq.model import MessageQueue
from pyspark_rocketmq.sink.handing import Hand

QUEUE = MessageQueue("orders", "broker-a", 0)


def test_the_next_chunk_is_made_while_the_last_is_on_its_way_and_the_order_is_kept() -> None:
    taken: list[bytes] = []
    may_go = threading.Event()

    def put(queue: MessageQueue, units: bytes, count: int) -> None:
        assert may_go.wait(30)
        taken.append(units)

    with Hand(put) as hand:
        hand.put(QUEUE, b"first", 1)
        # Nothing has left yet, and this thread goes on.
        assert taken == []
        may_go.set()
        hand.put(QUEUE, b"second", 1)
        hand.put(QUEUE, b"third", 1)
        hand.settle()

    assert taken == [b"first", b"second", b"third"]


def test_a_failure_is_raised_by_the_next_call_and_nothing_leaves_behind_it() -> None:
    taken: list[bytes] = []

    def put(queue: MessageQueue, units: bytes, count: int) -> None:
        taken.append(units)
        raise OSError(units)

    with Hand(put) as hand:
        hand.put(QUEUE, b"first", 1)
        with pytest.raises(OSError, match="first"):
            hand.put(QUEUE, b"second", 1)

    assert taken == [b"first"]


def test_the_failure_of_the_last_chunk_is_raised_when_all_is_to_be_there() -> None:
    def put(queue: MessageQueue, units: bytes, count: int) -> None:
        raise OSError(units)

    with Hand(put) as hand:
        hand.put(QUEUE, b"last", 1)
        with pytest.raises(OSError, match="last"):
            hand.settle()
