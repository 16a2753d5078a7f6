"""What of a queue is here and not finished, and so how far its group got."""

import hypothesis.strategies as st
import pytest
from hypothesis import given
from push_messages import QUEUE, received, several

from pyromq.client.push.process_queue import ProcessQueue
from pyromq.codes import SysFlag

NOW = 1_000


@pytest.fixture
def state() -> ProcessQueue:
    return ProcessQueue(QUEUE, NOW)


def offsets(messages) -> list[int]:
    return [message.queue_offset for message in messages]


@pytest.mark.row("OF-08")
def test_progress_is_the_first_offset_that_is_not_finished(state: ProcessQueue) -> None:
    messages = several(4, 5, 6, 7)
    state.put(messages)

    assert state.remove(messages[1:3], NOW) == 4
    assert state.remove(messages[:1], NOW) == 7


def test_progress_is_one_past_the_last_when_all_are_finished(state: ProcessQueue) -> None:
    messages = several(4, 5, 9)
    state.put(messages)

    assert state.remove(messages[2:], NOW) == 4
    assert state.remove(messages[:2], NOW) == 10


def test_an_empty_queue_says_nothing_of_progress(state: ProcessQueue) -> None:
    assert state.remove(several(1), NOW) is None


def test_a_message_that_comes_twice_counts_once(state: ProcessQueue) -> None:
    state.put(several(1, 2))
    state.put(several(2, 3))

    assert (state.count, state.bytes) == (3, 300)


def test_offsets_that_come_in_disorder_are_kept_in_order(state: ProcessQueue) -> None:
    state.put(several(5, 7))
    state.put(several(6, 4))

    assert offsets(state.take(9, NOW)) == [4, 5, 6, 7]


def test_count_and_bytes_fall_to_nothing(state: ProcessQueue) -> None:
    messages = several(1, 2)
    state.put(messages)
    state.remove(messages[:1], NOW)
    assert (state.count, state.bytes) == (1, 100)
    state.remove(messages, NOW)
    assert (state.count, state.bytes) == (0, 0)


def test_a_body_that_was_compressed_weighs_what_it_is_here(state: ProcessQueue) -> None:
    state.put([received(1, body=b"x" * 5_000, sys_flag=int(SysFlag.COMPRESSED))])

    assert state.bytes == 5_000


def test_the_span_is_from_the_first_unfinished_to_the_last(state: ProcessQueue) -> None:
    messages = several(10, 11, 30)
    state.put(messages)
    assert state.span == 20
    state.remove(messages[:1], NOW)
    assert state.span == 19
    state.remove(messages[2:], NOW)
    assert state.span == 0


def test_only_the_first_message_can_be_overdue(state: ProcessQueue) -> None:
    messages = several(1, 2)
    state.put(messages)
    state.start(messages[1:], NOW)
    assert state.overdue(NOW + 1_000, 500) is None

    state.start(messages[:1], NOW + 600)
    assert state.overdue(NOW + 1_100, 500) is None
    assert state.overdue(NOW + 1_101, 500) is messages[0]


def test_a_message_that_waits_for_its_listener_is_not_overdue(state: ProcessQueue) -> None:
    state.put(several(1))

    assert state.overdue(NOW + 10**9, 500) is None


@pytest.mark.parametrize("in_order", [True, False])
def test_a_finished_message_leaves_nothing_behind(state: ProcessQueue, *, in_order: bool) -> None:
    messages = several(1, 2)
    state.put(messages)
    state.start(messages, NOW)
    if in_order:
        state.take(2, NOW)
        state.commit()
    else:
        state.remove(messages, NOW)

    assert not any((state._waiting, state._taken, state._started, state.first_offset))


def test_what_was_taken_counts_until_it_is_committed(state: ProcessQueue) -> None:
    state.put(several(1, 2, 3))

    assert offsets(state.take(2, NOW)) == [1, 2]
    assert (state.count, len(state._waiting), sorted(state._taken)) == (3, 1, [1, 2])
    assert state.commit() == 3
    assert (state.count, state.bytes, state._taken) == (1, 100, {})


def test_committing_nothing_says_nothing(state: ProcessQueue) -> None:
    assert state.commit() is None


@pytest.mark.row("OR-04")
def test_what_is_put_back_is_the_next_to_be_taken(state: ProcessQueue) -> None:
    state.put(several(1, 2, 3))
    taken = state.take(2, NOW)
    state.put_back(taken)

    assert offsets(state.take(3, NOW)) == [1, 2, 3]
    assert state.count == 3


def test_a_rollback_puts_back_all_that_was_taken(state: ProcessQueue) -> None:
    state.put(several(1, 2, 3))
    state.take(1, NOW)
    state.take(1, NOW)
    state.put_back()

    assert offsets(state.take(9, NOW)) == [1, 2, 3]


def test_a_message_that_found_another_place_is_not_put_back(state: ProcessQueue) -> None:
    state.put(several(1, 2))
    taken = state.take(2, NOW)
    state.forget(taken[:1])
    state.put_back(taken)

    assert offsets(state.take(9, NOW)) == [2]
    assert state.count == 1


@pytest.mark.row("OR-03")
def test_a_lock_is_trusted_for_its_life_only(state: ProcessQueue) -> None:
    assert not state.holds_lock(NOW, 30_000)
    state.lock(NOW)

    assert state.holds_lock(NOW + 30_000, 30_000)
    assert not state.holds_lock(NOW + 30_001, 30_000)


def test_a_queue_that_is_not_pulled_is_noticed(state: ProcessQueue) -> None:
    assert not state.is_pull_idle(NOW + 120_000, 120_000)
    assert state.is_pull_idle(NOW + 120_001, 120_000)


@pytest.mark.row("OF-08")
@given(st.lists(st.integers(0, 30), unique=True, min_size=1), st.randoms(use_true_random=False))
def test_progress_never_passes_an_unfinished_message(numbers: list[int], chance) -> None:
    messages = several(*sorted(numbers))
    state = ProcessQueue(QUEUE, NOW)
    state.put(messages)
    left = set(numbers)
    chance.shuffle(messages)
    for message in messages:
        progress = state.remove([message], NOW)
        left.discard(message.queue_offset)
        assert progress == (min(left) if left else max(numbers) + 1)
