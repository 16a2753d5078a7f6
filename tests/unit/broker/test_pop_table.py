"""The table of messages in flight: what it costs, how it is searched, and what a checkpoint keeps of it."""

import tracemalloc
from random import Random

import pytest

from pyromq.broker.pop.in_flight import NO_CLIENT, InFlight
from pyromq.broker.pop.ordered import OrderedBatch
from pyromq.broker.pop.pop_snapshot import decode_snapshot, encode_snapshot, restore, take_snapshot
from pyromq.broker.pop.pop_table import PopQueue, PopTable
from pyromq.errors import BodyError


def hand_out(table: PopTable, queue: PopQueue, first: int, count: int, at_ms: int) -> None:
    table.hand_out(queue, range(first, first + count), at_ms, at_ms + 60_000, NO_CLIENT)


@pytest.mark.row("PO-26")
@pytest.mark.parametrize("batch", [1, 32])
def test_a_message_in_flight_costs_less_than_150_bytes(batch: int) -> None:
    count = 40_000
    tracemalloc.start()
    try:
        table = PopTable()
        queues = [table.make(f"group-{number % 3}", "orders", number, 0) for number in range(9)]
        for number in range(count // batch):
            queue = queues[number % len(queues)]
            hand_out(table, queue, queue.in_flight.last + 1, batch, 1_700_000_000_000 + number)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert table.count == count
    assert size / count < 150


@pytest.mark.row("PO-26")
def test_what_is_acknowledged_costs_nothing() -> None:
    table = PopTable()
    queue = table.make("readers", "orders", 0, 0)
    stuck = 7
    tracemalloc.start()
    try:
        for first in range(0, 64_000, 32):
            hand_out(table, queue, first, 32, first)
            for offset in range(first, first + 32):
                if offset != stuck:
                    table.end(queue, offset)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (table.count, queue.in_flight.first) == (1, stuck)
    assert size < 1_000_000


def test_the_columns_are_a_map_of_what_is_open() -> None:
    chance = Random(5)
    in_flight, model, end = InFlight(), dict[int, int](), 0
    for step in range(8_000):
        if chance.random() < 0.5:
            end += chance.randrange(3)
            in_flight.add([end], step, step + 10)
            model[end] = step
            end += 1
        elif model:
            offset = chance.choice(list(model)[:50])
            in_flight.end(in_flight.find(offset))
            del model[offset]
        if step % 500 == 0:
            assert {offset: in_flight.find(offset) >= 0 for offset in range(end)} == {
                offset: offset in model for offset in range(end)
            }
        assert in_flight.count == len(model)
        assert in_flight.first == (min(model) if model else None)
    places = {offset: in_flight.find(offset) for offset in model}
    assert {offset: in_flight.popped_at_ms(at) for offset, at in places.items()} == model


def test_due_messages_are_taken_in_their_time_and_moved_ones_later() -> None:
    table = PopTable()
    queue = table.make("readers", "orders", 0, 0)
    hand_out(table, queue, 0, 40, 0)
    table.move(queue, 3, 5, 90_000)
    table.end(queue, 4)

    taken: list[int] = []
    assert table.take_due(59_999) is None
    while (due := table.take_due(60_000)) is not None:
        taken += due[1]

    assert sorted(set(taken)) == [offset for offset in range(40) if offset not in (3, 4)]
    table.end(queue, 0)
    assert table.take_due(90_000) is not None


def test_many_dues_of_what_is_finished_are_forgotten() -> None:
    table = PopTable()
    queue = table.make("readers", "orders", 0, 0)
    for offset in range(20_000):
        hand_out(table, queue, offset, 1, offset)
        if offset:
            table.end(queue, offset)

    assert table.take_due(10**9) == (queue, [0])
    assert table.next_due_ms is None or table.count == 1


@pytest.mark.row("PO-26")
def test_a_checkpoint_keeps_the_table() -> None:
    table = PopTable()
    queue = table.make("readers", "orders", 3, 0)
    client = table.client_number("one", "readers")
    table.hand_out(queue, [5, 6, 9], 100, 200, client)
    table.move(queue, 6, 150, 400)
    queue.next = 10
    ordered = table.make("others", "orders", 1, 0)
    table.hand_out_in_order(
        ordered, OrderedBatch(100, 300, [1, 2], [1, 2], "attempt", NO_CLIENT, {0}, {2: 350})
    )
    data = encode_snapshot(take_snapshot(table, 4_711, 12))

    snapshot, again = decode_snapshot(data), PopTable()
    restore(snapshot, again)

    assert (snapshot.position, snapshot.journal_offset) == (4_711, 12)
    assert encode_snapshot(take_snapshot(again, 4_711, 12)) == data
    found = again.find("readers", "orders", 3)
    assert found is not None
    assert (found.next, found.committed, found.in_flight.count) == (10, 5, 3)
    assert again.clients[found.in_flight.client(found.in_flight.find(5))] == ("one", "readers")
    assert again.next_due_ms == 200
    batch = again.find("others", "orders", 1)
    assert batch is not None
    assert (batch.committed, batch.ordered) == (2, ordered.ordered)


@pytest.mark.parametrize("at", [0, 9, 14, -1])
def test_a_damaged_checkpoint_is_no_checkpoint(at: int) -> None:
    table = PopTable()
    hand_out(table, table.make("readers", "orders", 3, 0), 0, 5, 0)
    data = bytearray(encode_snapshot(take_snapshot(table, 1, 1)))
    data[at] ^= 1

    with pytest.raises(BodyError):
        decode_snapshot(bytes(data))


def test_clients_that_have_nothing_are_forgotten() -> None:
    table = PopTable()
    queue = table.make("readers", "orders", 0, 0)
    for number in range(5_000):
        client = table.client_number(f"client-{number}", "readers")
        table.hand_out(queue, [number], 0, 100, client)
        if number != 4_000:
            table.end(queue, number)

    table.forget_clients()

    assert table.clients == [("client-4000", "readers")]
    assert queue.in_flight.of_client(table.client_number("client-4000", "readers")) == [4_000]
