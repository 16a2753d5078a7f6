"""The timer queue: its entries say when messages are due, and files wait for whoever needs them."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.errors import DiskFull
from pyromq.store.delay_levels import parse_delay_levels
from pyromq.store.files import DiskUse
from pyromq.store.inspect.findings import StoreReport
from pyromq.store.inspect.store_survey import Layout
from pyromq.store.inspect.store_verification import Verification
from pyromq.store.store import Draft

TIMER = "rmq_sys_wheel_timer"
FULL = DiskUse(used_bytes=95, usable_bytes=5)


def timed(due_ms: int) -> str:
    return f"UNIQ_KEY\x01{due_ms:032X}\x02TAGS\x01paid\x02TIMER_OUT_MS\x01{due_ms}\x02REAL_TOPIC\x01orders"


def verify(box: Any) -> StoreReport:
    settings, root = box.settings, Path(box.root)
    layout = Layout(
        root,
        root / "commitlog",
        slots=settings.max_hash_slot_num,
        entries_max=settings.max_index_num,
        delays_ms=parse_delay_levels(settings.message_delay_level),
    )
    return Verification(layout, piece_bytes=3000).run()


@pytest.mark.row("DE-10")
def test_entries_hold_the_times_and_verify(box: Any, draft: Callable[..., Draft]) -> None:
    store = box.open()
    for due_ms in (900, 500, 700) * 7:
        store.put(draft(topic=TIMER, properties=timed(due_ms)))
    store.put(draft(topic=TIMER, properties="TIMER_DEL_UNIQKEY\x01orders+1"))

    assert [entry.tags_code for entry in store.entries(TIMER, 0, 0, 4)] == [900, 500, 700, 900]
    assert store.entries(TIMER, 0, 21, 1)[0].tags_code == 0
    store.close()
    assert verify(box).listed == []


@pytest.mark.row("DE-10")
def test_a_time_that_is_damaged_is_found(box: Any, draft: Callable[..., Draft]) -> None:
    store = box.open()
    store.put(draft(topic=TIMER, properties=timed(900)))
    store.close()
    path = Path(box.root) / "consumequeue" / TIMER / "0" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[19] ^= 1
    path.write_bytes(data)

    (fault,) = verify(box).faults

    assert fault.file == str(path)


@pytest.mark.row("DE-10")
def test_the_queue_made_again_from_the_log_is_the_same(box: Any, draft: Callable[..., Draft]) -> None:
    store = box.open()
    for due_ms in (900, 500):
        store.put(draft(topic=TIMER, properties=timed(due_ms)))
    before = store.entries(TIMER, 0, 0, 9)
    store.close()
    shutil.rmtree(Path(box.root) / "consumequeue")

    again = box.open()

    assert again.entries(TIMER, 0, 0, 9) == before
    again.close()


def test_a_topic_that_no_table_knows_keeps_its_queue(box: Any, draft: Callable[..., Draft]) -> None:
    store = box.open()
    store.put(draft(topic=TIMER, properties=timed(900)))

    assert store.clean_unused([]) == []
    store.close()


@pytest.mark.row("CL-06")
def test_files_that_somebody_needs_do_not_go(box: Any, draft: Callable[..., Draft]) -> None:
    store = box.open()
    for _ in range(40):
        store.put(draft(body=b"x" * 900))
    store.sync_queues()
    ends = [segment.end for segment in store.log.segments]
    box.clock.advance(5 * 24 * 3_600_000)
    box.disk.use = DiskUse(used_bytes=80, usable_bytes=20)
    asked: list[int] = []

    def may_go_before(position: int) -> int:
        asked.append(position)
        return ends[1] + 5

    store.may_go_before = may_go_before
    store.sweep()

    assert store.min_position == ends[1]
    assert asked == [ends[-2]]
    store.close()


def test_messages_that_make_room_are_taken_by_a_full_disk(box: Any, draft: Callable[..., Draft]) -> None:
    store = box.open()
    box.disk.use = FULL
    store.check_disk()

    with pytest.raises(DiskFull):
        store.put_batch([draft()])

    assert len(store.put_batch([draft(), draft()], is_for_room=True)) == 2
    assert not store.is_writable
    store.close()
