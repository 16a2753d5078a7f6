"""Ranges are packed into tasks, and a limit is shared among queues."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyromq.model import MessageQueue
from pyspark_rocketmq.source.admitting import share, share_bytes
from pyspark_rocketmq.source.planning import MESSAGES_PER_TASK, MESSAGES_PER_TASK_MAX, QueueRange, pack
from pyspark_rocketmq.source.source_options import Tasks


def queue(number: int) -> MessageQueue:
    return MessageQueue("orders", "broker-a", number)


ANY = Tasks()
RANGES = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 5000)), max_size=20).map(
    lambda pairs: [QueueRange(queue(n), at, at + count) for n, (at, count) in enumerate(pairs)]
)


@given(RANGES, st.integers(1, 40), st.integers(1, 16))
def test_tasks_have_every_message_once_and_are_of_one_length(
    ranges: list[QueueRange], least: int, at_once: int
) -> None:
    tasks = pack(ranges, Tasks(least), at_once)

    found = [(one.queue, at) for task in tasks for one in task.ranges for at in range(one.start, one.end)]
    wanted = [(one.queue, at) for one in ranges for at in range(one.start, one.end)]
    assert sorted(found) == sorted(wanted)
    lengths = [sum(one.end - one.start for one in task.ranges) for task in tasks]
    assert not lengths or max(lengths) - min(lengths) <= 1
    assert len(tasks) >= min(least, len(wanted))


def test_the_number_of_tasks_follows_the_work() -> None:
    def count(messages: int, tasks: Tasks = ANY, at_once: int = 4) -> int:
        return len(pack([QueueRange(queue(0), 0, messages)], tasks, at_once))

    assert count(10) == 1
    assert count(2 * MESSAGES_PER_TASK) == 2
    assert count(100 * MESSAGES_PER_TASK) == 4
    assert count(10 * MESSAGES_PER_TASK_MAX) == 10
    assert count(100 * MESSAGES_PER_TASK, Tasks(None, 50)) == 50
    assert count(100 * MESSAGES_PER_TASK, Tasks(None, 2)) == 2
    assert count(3, Tasks(10)) == 3


def test_only_the_piece_with_the_last_message_has_the_mark() -> None:
    whole = QueueRange(queue(0), 0, 10, mark=99, is_new=True)

    first, last = (task.ranges[0] for task in pack([whole], Tasks(2), 1))

    assert (first.mark, first.is_new, last.mark, last.is_new) == (None, True, 99, False)


@given(st.dictionaries(st.integers(0, 30).map(queue), st.integers(0, 1000)), st.integers(1, 2000))
def test_a_limit_is_used_up_and_every_queue_gets_something(
    waiting: dict[MessageQueue, int], most: int
) -> None:
    taken = share(waiting, most)

    assert sum(taken.values()) == min(most, sum(waiting.values()))
    assert all(1 <= count <= waiting[one] for one, count in taken.items())
    behind = [one for one, count in waiting.items() if count]
    assert len(taken) == min(most, len(behind))


def test_a_queue_that_is_far_behind_gets_more() -> None:
    taken = share({queue(0): 900, queue(1): 100}, 100)

    assert taken[queue(0)] > 5 * taken[queue(1)]


def test_bytes_are_shared_by_the_size_of_messages() -> None:
    taken = share_bytes({queue(0): 100, queue(1): 100}, {queue(0): 1000.0, queue(1): 10.0}, 50_500)

    assert taken == {queue(0): 50, queue(1): 50}
    assert share_bytes({queue(0): 100}, {queue(0): 1000.0}, 10) == {queue(0): 1}
    assert share_bytes({queue(0): 100}, {}, 10**9) == {queue(0): 100}
