"""Looking for certain records in the log without reading all of them."""

from hypothesis import given
from hypothesis import strategies as st
from store_story import HOST, SETTINGS

from pyromq.store.store import Draft, MessageStore
from pyromq.testing.disk import SimulatedDisk
from pyromq.testing.manual_clock import ManualClock

MARK = b"REAL_TOPIC\x01"


def draft(size: int, *, is_marked: bool) -> Draft:
    return Draft(
        "orders", 0, bytes(size), "REAL_TOPIC\x01a" if is_marked else "TAGS\x01a", 0, 0, 0, HOST, HOST
    )


@given(
    messages=st.lists(st.tuples(st.integers(0, 1500), st.booleans()), max_size=40),
    start=st.integers(0, 40),
)
def test_the_marked_records_are_those_of_a_whole_walk_that_have_the_mark(
    messages: list[tuple[int, bool]], start: int
) -> None:
    store = MessageStore(SETTINGS, clock=ManualClock(), files=SimulatedDisk())
    store.open()
    ends = [0, *(store.put(draft(size, is_marked=marked)).end for size, marked in messages)]
    position = ends[min(start, len(ends) - 1)]

    found = [record.position for record in store.log.walk_marked(position, MARK)]

    walked = store.log.walk(position, check_crc=False)
    assert found == [record.position for record in walked if MARK.decode() in record.properties]
    store.close()


def test_bytes_in_a_body_make_a_record_marked_too() -> None:
    store = MessageStore(SETTINGS, clock=ManualClock(), files=SimulatedDisk())
    store.open()
    store.put(Draft("orders", 0, MARK, "", 0, 0, 0, HOST, HOST))

    assert [record.body for record in store.log.walk_marked(0, MARK)] == [MARK]
    store.close()


def test_a_position_where_no_record_begins_has_nothing() -> None:
    store = MessageStore(SETTINGS, clock=ManualClock(), files=SimulatedDisk())
    store.open()
    store.put(draft(10, is_marked=True))
    store.put(draft(10, is_marked=True))

    assert list(store.log.walk_marked(7, MARK)) == []
    assert list(store.log.walk_marked(store.max_position, MARK)) == []
    store.close()
