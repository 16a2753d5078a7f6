"""While a broker writes, rolls files and lets old ones go, a look at its files finds no fault."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

from pyromq.store.files import DiskUse
from pyromq.store.inspect.dump import Selection, dump
from pyromq.store.inspect.findings import StoreFinding
from pyromq.store.inspect.store_survey import Layout, take_survey
from pyromq.store.inspect.store_verification import Verification
from pyromq.store.store import Draft, MessageStore
from pyromq.testing.waiting import eventually

LOOKS = 25


def write(store: MessageStore, box: Any, draft: Callable[..., Draft], is_enough: Event) -> None:
    """Store messages in busy and in rare queues, sync now and then, and let all but the newest files go."""
    for number in count():
        topic = "orders" if number % 20 else f"rare-{number % 7}"
        properties = f"KEYS\x01k{number}\x02UNIQ_KEY\x01{number:032X}"
        store.put(draft(topic, number % 3, b"x" * (number * 37 % 500), properties))
        box.clock.advance(10)
        if number % 50 == 49:
            store.queue_sync().run()
        if number % 150 == 149:
            box.disk.use = DiskUse(used_bytes=88, usable_bytes=12)
            store.sweep().remove()
            box.disk.use = DiskUse(used_bytes=10, usable_bytes=90)
            store.check_disk()
            if is_enough.is_set():
                return


def test_a_store_that_is_being_written_has_no_faults(box: Any, draft: Callable[..., Draft]) -> None:
    root: Path = box.root
    layout = Layout(root, root / "commitlog", slots=50, entries_max=200, delays_ms={})
    store = box.open()
    is_enough = Event()
    faults: list[StoreFinding | str] = []

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write, store, box, draft, is_enough)
        eventually(lambda: store.min_position > 0 or writing.done(), 30, what="the first files are gone")
        for _ in range(LOOKS):
            faults += Verification(layout, piece_bytes=3000).run().faults
            faults += [fault for one in dump(take_survey(layout), Selection()) for fault in one.faults]
        is_enough.set()
        writing.result()

    assert faults == []
