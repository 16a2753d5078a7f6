"""Records are found by topic, queue, offset, position and key, in stores that are closed, open or damaged."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.store.delay_levels import parse_delay_levels
from pyromq.store.inspect.dump import Dumped, Selection, dump
from pyromq.store.inspect.store_survey import Layout, take_survey
from pyromq.store.store import Draft, MessageStore

LOG_FILE_BYTES = 8192


def dumped(root: Path, **wanted: Any) -> list[Dumped]:
    delays = parse_delay_levels("1s 5s")
    layout = Layout(root, root / "commitlog", slots=50, entries_max=200, delays_ms=delays)
    return list(dump(take_survey(layout), Selection(**wanted)))


def bodies(root: Path, **wanted: Any) -> list[bytes]:
    return [one.record.body for one in dumped(root, **wanted) if one.record is not None]


def fill(store: MessageStore, draft: Callable[..., Draft], begin: int = 0, end: int = 40) -> None:
    for number in range(begin, end):
        topic = "orders" if number % 2 else "bills"
        properties = f"KEYS\x01key-{number} tenth-{number % 10}\x02UNIQ_KEY\x01{number:032X}"
        store.put(draft(topic, number // 2 % 2, b"%d" % number + b"." * 300, properties))


def numbers(found: list[bytes]) -> list[int]:
    return [int(body.partition(b".")[0]) for body in found]


@pytest.fixture
def root(box: Any, draft: Callable[..., Draft]) -> Path:
    store = box.open()
    fill(store, draft)
    store.close()
    folder: Path = box.root
    return folder


def test_everything_comes_in_the_order_of_the_log(root: Path) -> None:
    found = dumped(root)

    assert numbers(bodies(root)) == list(range(40))
    assert [one.position for one in found] == sorted(one.position for one in found)
    assert len({one.file.path for one in found}) > 1
    assert not any(one.faults for one in found)


def test_a_topic_comes_in_the_order_of_the_log_across_its_queues(root: Path) -> None:
    assert numbers(bodies(root, topic="orders")) == list(range(1, 40, 2))


def test_a_queue_is_cut_by_offsets(root: Path) -> None:
    assert numbers(bodies(root, topic="orders", queue_id=1)) == list(range(3, 40, 4))
    assert numbers(bodies(root, topic="orders", queue_id=1, first=2, end=4)) == [11, 15]
    assert numbers(bodies(root, queue_id=1, first=2, end=4)) == [10, 11, 14, 15]


def test_a_limit_ends_it(root: Path) -> None:
    assert numbers(bodies(root, limit=3)) == [0, 1, 2]
    assert numbers(bodies(root, topic="bills", limit=2)) == [0, 2]


@pytest.mark.parametrize("topic", ["orders", None])
def test_a_key_is_found_with_and_without_its_topic(root: Path, topic: str | None) -> None:
    assert numbers(bodies(root, topic=topic, key="key-17")) == [17]
    assert numbers(bodies(root, topic=topic, key=f"{17:032X}")) == [17]
    assert numbers(bodies(root, topic=topic, key="tenth-7")) == [7, 17, 27, 37]
    assert bodies(root, topic=topic, key="nobody") == []


def test_a_key_of_another_topic_is_not_found(root: Path) -> None:
    assert bodies(root, topic="bills", key="key-17") == []


def test_a_position_is_where_it_begins(root: Path) -> None:
    third = dumped(root)[3]

    assert numbers(bodies(root, position=third.position, limit=2)) == [3, 4]


def test_a_position_at_which_no_record_begins_says_so(root: Path) -> None:
    found = dumped(root, position=5, limit=1)

    assert found[0].record is None
    assert "no record begins here" in found[0].faults[0]


def test_an_unknown_topic_is_empty(root: Path) -> None:
    assert dumped(root, topic="nobody") == []


@pytest.mark.parametrize("wanted", [{}, {"topic": "orders"}, {"topic": "orders", "key": "tenth-1"}])
def test_an_open_store_shows_what_is_only_in_the_log_so_far(
    box: Any, draft: Callable[..., Draft], wanted: dict[str, str]
) -> None:
    store = box.open()
    fill(store, draft, end=20)
    store.sync_queues()
    fill(store, draft, begin=20, end=25)

    found = numbers(bodies(box.root, **wanted))

    expected = {0: range(25), 1: range(1, 25, 2), 2: (1, 11, 21)}[len(wanted)]
    assert found == list(expected)


def test_damage_is_said_and_passed_over(root: Path) -> None:
    places = dumped(root)
    log = root / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[places[5].place + 4] ^= 1
    data[places[7].place + 95] ^= 1
    log.write_bytes(data)

    found = dumped(root)

    assert numbers(bodies(root)) == [number for number in range(40) if number != 5]
    assert [one.position for one in found if one.record is None] == [places[5].position]
    assert [one.position for one in found if one.record is not None and one.faults] == [places[7].position]
    assert ["magic" in one.faults[0] for one in found if one.faults] == [True, False]


def test_damage_is_said_on_the_way_along_a_queue(root: Path) -> None:
    place = dumped(root, topic="orders")[2].place
    log = root / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[place + 4] ^= 1
    log.write_bytes(data)

    found = dumped(root, topic="orders")

    assert [one.place for one in found if one.faults] == [place]
    assert len(found) == 20


def test_a_chain_of_the_index_that_turns_back_ends(root: Path) -> None:
    for path in (root / "index").iterdir():
        data = bytearray(path.read_bytes())
        for number in range(1, 200):
            at = 40 + 200 + 20 * number + 16
            data[at : at + 4] = number.to_bytes(4, "big")
        path.write_bytes(data)

    assert len(dumped(root, topic="orders", key="key-17")) <= 1


def test_an_index_of_other_settings_is_not_needed(root: Path) -> None:
    layout = Layout(root, root / "commitlog", slots=7, entries_max=9, delays_ms={})

    found = list(dump(take_survey(layout), Selection(topic="orders", key="key-17")))

    assert len(found) == 1
