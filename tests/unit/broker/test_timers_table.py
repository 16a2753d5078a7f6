"""The waiting messages on disk."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pyromq.broker.timers.near import DUE_MS_MAX, NEVER
from pyromq.broker.timers.table import Changes, Progress, WaitingTable
from pyromq.errors import CorruptRecord, DiskFull, StoreError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "timers" / "waiting.db"


def opened(path: Path | None) -> WaitingTable:
    table = WaitingTable(path)
    table.open()
    return table


def changes(*new: tuple[int, int, int], done: tuple[int, ...] = (), position: int = 1000) -> Changes:
    return Changes(new, done, Progress(len(new), position, (1, 2, 3)))


def test_a_new_table_has_no_progress(path: Path) -> None:
    table = WaitingTable(path)
    assert not table.exists

    assert table.open() is None

    assert (table.exists, table.is_open, table.count, table.oldest) == (True, True, 0, None)
    table.close()


def test_what_was_applied_is_there_again(path: Path) -> None:
    table = opened(path)
    table.apply(changes((50, 100, 9), (40, 200, 9), (60, 300, 9), done=(200,)))
    table.close()

    table = WaitingTable(path)

    assert table.open() == Progress(3, 1000, (1, 2, 3))
    assert (table.count, table.oldest) == (2, 100)
    assert table.next_due(NEVER, DUE_MS_MAX, count=10) == [(50, 100, 9), (60, 300, 9)]
    table.close()


def test_what_was_applied_before_changes_nothing(path: Path) -> None:
    table = opened(path)
    for _ in range(2):
        table.apply(changes((50, 100, 9), (40, 200, 9), done=(300,)))

    assert table.count == 2
    table.close()


def test_rows_come_in_the_order_of_their_times_and_in_pages(path: Path) -> None:
    table = opened(path)
    table.apply(changes((50, 300, 9), (50, 200, 9), (40, 900, 9), (70, 100, 9)))

    assert table.next_due(NEVER, 50, count=2) == [(40, 900, 9), (50, 200, 9)]
    assert table.next_due((50, 200), 50, count=2) == [(50, 300, 9)]
    assert table.next_due((50, 300), 69, count=2) == []
    table.close()


def test_rows_are_found_by_their_positions(path: Path) -> None:
    table = opened(path)
    table.apply(changes((50, 300, 9), (40, 900, 9), (70, 100, 9)))

    assert table.within(0, 900, count=5) == [(70, 100, 9), (50, 300, 9)]
    assert table.within(101, 1000, count=1) == [(50, 300, 9)]
    assert (table.find(900), table.find(901)) == ((40, 900, 9), None)
    table.close()


def test_what_the_log_let_go_is_forgotten(path: Path) -> None:
    table = opened(path)
    table.apply(changes((50, 300, 9), (40, 900, 9), (70, 100, 9)))

    table.forget_before(300)
    table.close()

    table = opened(path)
    assert (table.count, table.oldest) == (2, 300)
    table.close()


def test_a_change_that_fails_is_not_there_in_part(path: Path) -> None:
    table = opened(path)
    table.apply(changes((50, 300, 9)))
    connection = table._connection
    assert connection is not None
    # SQLite says the same of a disk without room.
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(DiskFull):
        table.apply(changes(*((60 + number, 1000 + number, 9) for number in range(5000)), done=(300,)))

    assert (table.count, table.find(300)) == (1, (50, 300, 9))
    table.close()


@pytest.mark.parametrize("data", [b"no database" * 1000, b"SQLite format 3\0" + bytes(5000)])
def test_a_damaged_file_is_told_and_can_be_made_again(path: Path, data: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(data)
    table = WaitingTable(path)

    with pytest.raises(CorruptRecord):
        table.open()

    table.remove()
    assert table.open() is None
    table.close()


def test_a_file_of_a_later_version_is_not_read(path: Path) -> None:
    opened(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 9")

    with pytest.raises(CorruptRecord, match="version 9"):
        opened(path)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "timers").write_bytes(b"")

    with pytest.raises(StoreError):
        opened(tmp_path / "timers" / "waiting.db")


def test_without_a_path_it_is_in_memory() -> None:
    table = WaitingTable(None)
    assert not table.exists

    table.open()
    table.apply(changes((50, 300, 9)))

    assert table.count == 1
    table.close()


def test_a_hundred_thousand_take_little_memory(path: Path) -> None:
    table = opened(path)
    before = _anonymous_bytes()
    for start in range(0, 100_000, 10_000):
        rows = [
            (1_700_000_000_000 + number * 7919 % 1_000_003, number * 100, 90)
            for number in range(start, start + 10_000)
        ]
        table.apply(Changes(rows, (), Progress(start, start * 100)))

    assert table.count == 100_000
    assert _anonymous_bytes() - before < 32 << 20
    table.close()


def _anonymous_bytes() -> int:
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon")
    )
    return int(line.split()[1]) * 1024
