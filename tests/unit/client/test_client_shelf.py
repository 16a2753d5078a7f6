"""What waits between pulls and the application, without any I/O."""

import pytest

from pyromq.client.shelf import Batch, ReadQueue, Shelf, to_commit
from pyromq.errors import ConfigError, RequestTimeout
from pyromq.model import MessageQueue, PullResult, PullStatus, ReceivedMessage

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


def placed(shelf: Shelf, queue: MessageQueue, offset: int = 0) -> ReadQueue:
    (reader,) = shelf.add([queue])
    reader.place(offset, offset)
    return reader


def taken(shelf: Shelf) -> Batch:
    (batch,) = shelf.take()
    return batch


def offsets(messages: list[ReceivedMessage]) -> list[int]:
    return [each.queue_offset for each in messages]


def commits(shelf: Shelf) -> list[tuple[MessageQueue, int]]:
    return [(reader.queue, reader.finished) for reader in to_commit(shelf.readers)]


def test_batches_are_taken_in_the_order_in_which_they_came() -> None:
    shelf = Shelf()
    one, other = placed(shelf, A), placed(shelf, B)
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
    shelf = Shelf()
    shelf.put(placed(shelf, A), pulled(A, 0, 1, next_offset=5))

    taken(shelf).rest()
    assert commits(shelf) == []

    shelf.finish()
    assert commits(shelf) == [(A, 5)]


@pytest.mark.row("OF-08")
def test_an_iterated_message_is_finished_when_the_next_is_asked_for() -> None:
    shelf = Shelf()
    shelf.put(placed(shelf, A), pulled(A, 3, 4, next_offset=9))
    batch = taken(shelf)

    assert batch.next_message() is not None
    assert commits(shelf) == []
    assert batch.next_message() is not None
    assert commits(shelf) == [(A, 4)]
    assert batch.next_message() is None
    assert commits(shelf) == [(A, 9)]


def test_what_an_iteration_left_is_taken_next() -> None:
    shelf = Shelf()
    reader = placed(shelf, A)
    shelf.put(reader, pulled(A, 0, 1, 2))
    shelf.put(reader, pulled(A, 3))
    left = taken(shelf)
    left.next_message()

    shelf.give_back([left])

    assert offsets(taken(shelf).rest()) == [1, 2]


def test_what_filters_passed_over_is_finished_when_nothing_is_under_way() -> None:
    shelf = Shelf()
    reader = placed(shelf, A)
    shelf.put(reader, pulled(A, 0))
    shelf.put(reader, pulled(A, next_offset=50))
    assert commits(shelf) == []

    taken(shelf).rest()
    shelf.put(reader, pulled(A, next_offset=60))
    assert commits(shelf) == []

    shelf.finish()
    shelf.put(reader, pulled(A, next_offset=70))
    assert commits(shelf) == [(A, 70)]


def test_several_batches_are_taken_at_once_and_given_back_in_their_order() -> None:
    shelf = Shelf()
    one, other = placed(shelf, A), placed(shelf, B)
    for reader, result in ((one, pulled(A, 0, 1)), (other, pulled(B, 0)), (one, pulled(A, 2))):
        shelf.put(reader, result)
    batches = shelf.take(2)
    assert [batch.reader for batch in batches] == [one, other]
    batches[0].next_message()

    shelf.give_back(batches)

    assert [offsets(batch.rest()) for batch in shelf.take(9)] == [[1], [0], [2]]


def test_a_batch_that_was_given_back_is_handed_out_by_nobody_until_it_is_taken_again() -> None:
    shelf = Shelf()
    shelf.put(placed(shelf, A), pulled(A, 0, 1))
    batch = taken(shelf)

    shelf.give_back([batch])

    assert batch.next_message() is None
    assert offsets(taken(shelf).rest()) == [0, 1]


def test_an_iteration_stops_in_a_queue_that_is_paused() -> None:
    shelf = Shelf()
    shelf.put(placed(shelf, A), pulled(A, 0, 1))
    batch = taken(shelf)
    assert batch.next_message() is not None

    shelf.pause([A], is_paused=True)

    assert batch.next_message() is None
    assert commits(shelf) == [(A, 1)]


@pytest.mark.row("CO-07")
def test_a_queue_with_too_many_messages_or_bytes_is_not_pulled() -> None:
    shelf = Shelf(count_max=2, mib_max=1)
    one, other = placed(shelf, A), placed(shelf, B)
    shelf.put(one, pulled(A, 0, 1, 2))
    shelf.put(other, pulled(B, 0, size=(1 << 20) + 1))
    assert [shelf.may_pull(one), shelf.may_pull(other)] == [False, False]

    taken(shelf)
    assert [shelf.may_pull(one), shelf.may_pull(other)] == [True, False]
    taken(shelf)
    assert shelf.may_pull(other)


def test_a_paused_queue_is_neither_pulled_nor_handed_out() -> None:
    shelf = Shelf()
    one, other = placed(shelf, A), placed(shelf, B)
    shelf.put(one, pulled(A, 0))
    shelf.put(other, pulled(B, 0))

    shelf.pause([A], is_paused=True)
    assert not shelf.may_pull(one)
    assert taken(shelf).reader is other
    assert shelf.take() == []

    shelf.pause([A], is_paused=False)
    assert taken(shelf).reader is one


def test_nothing_of_a_queue_that_was_let_go_is_handed_out_or_kept() -> None:
    shelf = Shelf()
    reader = placed(shelf, A)
    shelf.put(reader, pulled(A, 0, 1))
    shelf.put(reader, pulled(A, 2))
    batch = taken(shelf)
    batch.next_message()

    (gone,) = shelf.drop([A, B])
    shelf.put(reader, pulled(A, 3))
    shelf.give_back([batch])

    assert gone is reader
    assert batch.next_message() is None
    assert shelf.take() == []
    assert shelf.queues == []


def test_after_a_seek_only_what_is_pulled_from_there_comes_and_that_is_committed() -> None:
    shelf = Shelf()
    old = placed(shelf, A, 10)
    shelf.put(old, pulled(A, 10, 11))
    shelf.pause([A], is_paused=True)

    new = shelf.seek(A, 3)
    shelf.put(old, pulled(A, 12))

    assert (new.next_offset, new.is_paused, old.is_dropped) == (3, True, True)
    shelf.pause([A], is_paused=False)
    assert shelf.take() == []
    assert commits(shelf) == [(A, 3)]


def test_a_seek_in_a_queue_of_another_member_is_an_error() -> None:
    with pytest.raises(ConfigError, match="not assigned to this consumer"):
        Shelf().seek(A, 0)


def test_a_queue_is_taken_on_once() -> None:
    shelf = Shelf()
    reader = placed(shelf, A, 7)

    assert [new.queue for new in shelf.add([A, B, B])] == [B]
    assert shelf.reader(A) is reader
    assert shelf.queues == [A, B]


def test_nothing_can_come_when_the_last_pull_of_every_queue_failed() -> None:
    shelf = Shelf()
    one, other = placed(shelf, A), placed(shelf, B)
    assert shelf.refusal() is None

    one.failure = RequestTimeout("too late")
    assert shelf.refusal() is None
    other.failure = one.failure
    assert shelf.refusal() is one.failure

    other.failure = None
    shelf.pause([B], is_paused=True)
    assert shelf.refusal() is one.failure


def test_a_queue_whose_begin_is_not_known_yet_is_not_committed() -> None:
    shelf = Shelf()
    shelf.add([A])

    assert commits(shelf) == []


def test_what_the_application_committed_is_known() -> None:
    shelf = Shelf()
    shelf.put(placed(shelf, A), pulled(A, 0))
    taken(shelf).rest()
    shelf.finish()

    shelf.note_committed(A, 1)
    shelf.note_committed(B, 1)

    assert commits(shelf) == []
