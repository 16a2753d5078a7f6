"""What waits between pulls and the application, without any I/O."""

import pytest

from pyromq.client.consumer.allocation import average
from pyromq.client.consumer.batch_shelf import BatchShelf, PulledBatch, ReadQueue, common_refusal
from pyromq.client.consumer.flow_limits import FlowLimits, why_full
from pyromq.client.consumer.poll_outlet import PollOutlet
from pyromq.client.consumer.pull_terms import pull_terms
from pyromq.errors import ConfigError, RequestTimeout
from pyromq.model import ConsumeFrom, MessageQueue, PullResult, PullStatus, ReceivedMessage

A, B = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1)


def message(queue: MessageQueue, offset: int, size: int = 100) -> ReceivedMessage:
    return ReceivedMessage(
        topic=queue.topic,
        body=b"x",
        queue=queue,
        queue_offset=offset,
        position=0,
        message_id="",
        offset_message_id="",
        properties={},
        flag=0,
        sys_flag=0,
        born_at_ms=0,
        born_host="",
        stored_at_ms=0,
        store_host="",
        reconsume_times=0,
        prepared_position=0,
        body_crc=0,
        size=size,
    )


def pulled(queue: MessageQueue, *offsets: int, next_offset: int | None = None, size: int = 100) -> PullResult:
    messages = [message(queue, offset, size) for offset in offsets]
    after = next_offset if next_offset is not None else offsets[-1] + 1
    return PullResult(PullStatus.FOUND if offsets else PullStatus.NO_NEW_MESSAGE, after, 0, 100, messages)


def placed(queue: MessageQueue, offset: int = 0) -> ReadQueue:
    reader = ReadQueue(queue, 0)
    reader.progress.place(offset, finished=offset, committed=offset)
    return reader


def new_outlet() -> PollOutlet:
    """An outlet whose name server is not there."""
    how = {"start_from": ConsumeFrom.FIRST_OFFSET, "start_at_ms": 0, "auto_commit": True}
    terms = pull_terms("g", "127.0.0.1:1", None, allocate=average, model="clustering", **how)
    return PollOutlet(terms)


def taken(shelf: BatchShelf) -> PulledBatch:
    (batch,) = shelf.take()
    return batch


def offsets(messages: list[ReceivedMessage]) -> list[int]:
    return [each.queue_offset for each in messages]


def commits(*readers: ReadQueue) -> list[tuple[MessageQueue, int]]:
    return [(reader.queue, due) for reader in readers if (due := reader.progress.due) is not None]


def test_batches_are_taken_in_the_order_in_which_they_came() -> None:
    shelf = BatchShelf()
    one, other = placed(A), placed(B)
    shelf.put(one, pulled(A, 0, 1))
    shelf.put(other, pulled(B, 0))
    shelf.put(one, pulled(A, 2))

    batches = [taken(shelf) for _ in range(3)]

    assert [(batch.reader.queue, offsets(batch.rest())) for batch in batches] == [
        (A, [0, 1]),
        (B, [0]),
        (A, [2]),
    ]
    assert shelf.take() == []


@pytest.mark.row("OF-08")
def test_what_was_handed_out_is_committed_only_when_it_is_finished() -> None:
    shelf = BatchShelf()
    reader = placed(A)
    shelf.put(reader, pulled(A, 0, 1, next_offset=5))

    taken(shelf).rest()
    assert commits(reader) == []

    reader.progress.finish()
    assert commits(reader) == [(A, 5)]


@pytest.mark.row("OF-08")
def test_an_iterated_message_is_finished_when_the_next_is_asked_for() -> None:
    shelf = BatchShelf()
    reader = placed(A)
    shelf.put(reader, pulled(A, 3, 4, next_offset=9))
    batch = taken(shelf)

    assert batch.next_message() is not None
    assert commits(reader) == []
    assert batch.next_message() is not None
    assert commits(reader) == [(A, 4)]
    assert batch.next_message() is None
    assert commits(reader) == [(A, 9)]


def test_what_an_iteration_left_is_taken_next() -> None:
    shelf = BatchShelf()
    reader = placed(A)
    shelf.put(reader, pulled(A, 0, 1, 2))
    shelf.put(reader, pulled(A, 3))
    left = taken(shelf)
    left.next_message()

    shelf.give_back([left])

    assert offsets(taken(shelf).rest()) == [1, 2]


def test_what_filters_passed_over_is_finished_when_nothing_is_under_way() -> None:
    shelf = BatchShelf()
    reader = placed(A)
    shelf.put(reader, pulled(A, 0))
    shelf.put(reader, pulled(A, next_offset=50))
    assert commits(reader) == []

    taken(shelf).rest()
    shelf.put(reader, pulled(A, next_offset=60))
    assert commits(reader) == []

    reader.progress.finish()
    shelf.put(reader, pulled(A, next_offset=70))
    assert commits(reader) == [(A, 70)]


def test_several_batches_are_taken_at_once_and_given_back_in_their_order() -> None:
    shelf = BatchShelf()
    one, other = placed(A), placed(B)
    for reader, result in ((one, pulled(A, 0, 1)), (other, pulled(B, 0)), (one, pulled(A, 2))):
        shelf.put(reader, result)
    batches = shelf.take(2)
    assert [batch.reader for batch in batches] == [one, other]
    batches[0].next_message()

    shelf.give_back(batches)

    assert [offsets(batch.rest()) for batch in shelf.take(9)] == [[1], [0], [2]]


def test_a_batch_that_was_given_back_is_handed_out_by_nobody_until_it_is_taken_again() -> None:
    shelf = BatchShelf()
    shelf.put(placed(A), pulled(A, 0, 1))
    batch = taken(shelf)

    shelf.give_back([batch])

    assert batch.next_message() is None
    assert offsets(taken(shelf).rest()) == [0, 1]


def test_an_iteration_stops_in_a_queue_that_is_paused() -> None:
    shelf = BatchShelf()
    reader = placed(A)
    shelf.put(reader, pulled(A, 0, 1))
    batch = taken(shelf)
    assert batch.next_message() is not None

    reader.is_paused = True

    assert batch.next_message() is None
    assert commits(reader) == [(A, 1)]


@pytest.mark.row("CO-07")
def test_a_queue_with_too_many_messages_or_bytes_is_not_pulled() -> None:
    def may_pull(reader: ReadQueue) -> bool:
        return why_full(reader, FlowLimits(messages=2, mib=1, span=0), is_orderly=True) is None

    shelf = BatchShelf()
    one, other = placed(A), placed(B)
    shelf.put(one, pulled(A, 0, 1, 2))
    shelf.put(other, pulled(B, 0, size=(1 << 20) + 1))
    assert [may_pull(one), may_pull(other)] == [False, False]

    taken(shelf)
    assert [may_pull(one), may_pull(other)] == [True, False]
    taken(shelf)
    assert may_pull(other)


def test_nothing_of_a_paused_queue_is_handed_out() -> None:
    shelf = BatchShelf()
    one, other = placed(A), placed(B)
    shelf.put(one, pulled(A, 0))
    shelf.put(other, pulled(B, 0))

    one.is_paused = True
    assert taken(shelf).reader is other
    assert shelf.take() == []

    one.is_paused = False
    assert taken(shelf).reader is one


def test_nothing_of_a_queue_that_was_let_go_is_handed_out_or_kept() -> None:
    shelf = BatchShelf()
    reader = placed(A)
    shelf.put(reader, pulled(A, 0, 1))
    shelf.put(reader, pulled(A, 2))
    batch = taken(shelf)
    batch.next_message()

    reader.is_dropped = True
    shelf.forget_dropped()
    shelf.put(reader, pulled(A, 3))
    shelf.give_back([batch])

    assert batch.next_message() is None
    assert shelf.take() == []


def test_after_a_seek_only_what_is_pulled_from_there_comes_and_that_is_committed() -> None:
    shelf = BatchShelf()
    old, new = placed(A, 10), ReadQueue(A, 0)
    shelf.put(old, pulled(A, 10, 11))
    old.is_paused = True

    old.is_dropped = True
    shelf.forget_dropped()
    new.follow(old, 3)
    shelf.put(old, pulled(A, 12))

    assert (new.progress.next_offset, new.is_paused) == (3, True)
    new.is_paused = False
    assert shelf.take() == []
    assert commits(new) == [(A, 3)]


async def test_a_seek_in_a_queue_of_another_member_is_an_error() -> None:
    outlet = new_outlet()
    with pytest.raises(ConfigError, match="not assigned to this consumer"):
        await outlet.seek(A, 0)
    await outlet.start()
    outlet.assign([B], "*", None)

    with pytest.raises(ConfigError, match="not assigned to this consumer"):
        await outlet.seek(A, 0)
    await outlet.end(is_finished=True)


async def test_a_queue_is_taken_on_once() -> None:
    outlet = new_outlet()
    await outlet.start()
    outlet.assign([A], "*", None)
    reader = outlet._owned(A)

    outlet.assign([A, B, B], "*", None)

    assert outlet._owned(A) is reader
    assert outlet.assignment == [A, B]
    outlet.assign([B], "*", None)
    assert reader.is_dropped
    assert outlet.assignment == [B]
    await outlet.end(is_finished=True)


def test_nothing_can_come_when_the_last_pull_of_every_queue_failed() -> None:
    one, other = placed(A), placed(B)
    assert common_refusal([one, other]) is None

    one.failure = RequestTimeout("too late")
    assert common_refusal([one, other]) is None
    other.failure = one.failure
    assert common_refusal([one, other]) is one.failure

    other.failure = None
    other.is_paused = True
    assert common_refusal([one, other]) is one.failure


def test_a_queue_whose_begin_is_not_known_yet_is_not_committed() -> None:
    reader = ReadQueue(A, 0)
    reader.progress.finish()

    assert commits(reader) == []


def test_an_offset_that_the_application_committed_is_known_and_never_taken_back() -> None:
    shelf = BatchShelf()
    reader = placed(A)
    shelf.put(reader, pulled(A, 0, 1))
    taken(shelf).rest()

    reader.progress.note_committed(1)
    assert commits(reader) == []

    reader.progress.finish()
    assert commits(reader) == [(A, 2)]
