"""The waiting messages on disk."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pyromq.broker.kinds.timers.due_rows import ROW
from pyromq.broker.kinds.timers.near import DUE_MS_MAX, NEVER, POSITION_MAX
from pyromq.broker.kinds.timers.timer_table import Changes, TimerProgress, WaitingTable
from pyromq.errors import CorruptRecord, DiskFull, StoreError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "timers" / "waiting.db"


def opened(path: Path | None) -> WaitingTable:
    table = WaitingTable(path)
    table.open()
    return table


def rows(*rows: tuple[int, int, int]) -> bytes:
    return b"".join(ROW.pack(*row) for row in rows)


def changes(
    *new: tuple[int, int, int], done: tuple[tuple[int, int, int], ...] = (), position: int = 1000
) -> Changes:
    return Changes(rows(*new), rows(*done), TimerProgress(len(new), position, (1, 2, 3)))


def test_a_new_table_has_no_progress(path: Path) -> None:
    table = WaitingTable(path)
    assert not table.exists

    assert table.open() is None

    assert (table.exists, table.is_open, table.count) == (True, True, 0)
    table.close()


def test_what_was_applied_is_there_again(path: Path) -> None:
    table = opened(path)
    table.apply(changes((50, 100, 9), (40, 200, 9), (60, 300, 9), done=((40, 200, 9),)))
    table.close()

    table = WaitingTable(path)

    assert table.open() == TimerProgress(3, 1000, (1, 2, 3))
    assert table.count == 2
    assert table.next_due(NEVER, DUE_MS_MAX, count=10) == [(50, 100, 9), (60, 300, 9)]
    table.close()


def test_what_was_applied_before_changes_nothing(path: Path) -> None:
    table = opened(path)
    for _ in range(2):
        table.apply(changes((50, 100, 9), (40, 200, 9), done=((60, 300, 9), (40, 100, 9))))

    assert table.count == 2
    table.close()


def test_an_open_table_can_be_opened_again(path: Path) -> None:
    table = opened(path)
    table.apply(changes((50, 100, 9)))

    assert table.open() == TimerProgress(1, 1000, (1, 2, 3))

    table.close()


def test_rows_come_in_the_order_of_their_times_and_in_pages(path: Path) -> None:
    table = opened(path)
    table.apply(changes((50, 300, 9), (50, 200, 9), (40, 900, 9), (70, 100, 9)))

    assert table.next_due(NEVER, 50, count=2) == [(40, 900, 9), (50, 200, 9)]
    assert table.next_due((50, 200), 50, count=2) == [(50, 300, 9)]
    assert table.next_due((50, 300), 69, count=2) == []
    assert table.next_due((40, -1), 50, count=1) == [(40, 900, 9)]
    assert table.next_due((DUE_MS_MAX + 1, POSITION_MAX + 1), DUE_MS_MAX, count=2) == []
    assert table.next_due(NEVER, -5, count=2) == []
    table.close()


def test_the_old_ones_are_found_in_steps(path: Path) -> None:
    table = opened(path)
    table.apply(changes((50, 300, 9), (40, 900, 9), (70, 100, 9), (80, 200, 9), (90, 990, 9)))
    found, after = [], NEVER

    for _ in range(4):
        old, until = table.old_ones(300, after, look_at=2)
        found.append(old)
        after = until or after

    assert found == [[], [(70, 100, 9), (80, 200, 9)], [], []]
    assert table.old_ones(300, (90, 990), look_at=2) == ([], None)
    table.close()


def test_one_is_found_by_its_time_and_its_position(path: Path) -> None:
    table = opened(path)
    table.apply(changes((50, 300, 9)))

    assert table.has(50, 300)
    assert not table.has(51, 300)
    assert not table.has(50, 301)
    assert not table.has(50, 299)
    table.close()


def test_a_new_table_that_is_filled_in_any_order_is_sorted(path: Path) -> None:
    table = opened(path)
    table.begin_filling()
    table.apply(changes((50, 300, 9), (40, 900, 9), (70, 100, 9)))
    table.apply(changes((20, 950, 9), (30, 960, 9), done=((0, 900, 0), (0, 950, 0))))
    assert (table.count, table.next_due(NEVER, DUE_MS_MAX, count=9)) == (0, [])

    table.end_filling(TimerProgress(5, 1000, (7, 8, 9)))
    table.close()

    table = WaitingTable(path)
    assert table.open() == TimerProgress(5, 1000, (7, 8, 9))
    assert table.next_due(NEVER, DUE_MS_MAX, count=9) == [(30, 960, 9), (50, 300, 9), (70, 100, 9)]
    assert table.count == 3
    table.close()


def test_a_table_that_was_not_filled_to_the_end_is_new(path: Path) -> None:
    table = opened(path)
    table.begin_filling()
    table.apply(changes((50, 300, 9), (40, 900, 9)))
    table.close()

    table = WaitingTable(path)
    assert table.open() is None
    table.begin_filling()
    table.end_filling(TimerProgress(0, 0))

    assert table.count == 0
    table.close()


def test_what_nobody_wrote_is_damage(path: Path) -> None:
    table = opened(path)
    assert table._connection is not None
    table._connection.execute("INSERT INTO waiting VALUES (x'00112233')")

    with pytest.raises(CorruptRecord, match="nobody wrote"):
        table.next_due(NEVER, DUE_MS_MAX, count=9)
    table.close()


def test_what_the_log_let_go_is_forgotten(path: Path) -> None:
    table = opened(path)
    table.apply(changes((50, 300, 9), (40, 900, 9), (70, 100, 9)))

    table.forget_before(300)
    table.close()

    table = opened(path)
    assert (table.count, table.old_ones(300, NEVER, look_at=9)[0]) == (2, [])
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
        table.apply(
            changes(*((60 + number, 1000 + number, 9) for number in range(5000)), done=((50, 300, 9),))
        )

    assert (table.count, table.has(50, 300)) == (1, True)
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


@pytest.mark.parametrize("version", [1, 9])
def test_a_file_of_another_version_is_not_read(path: Path, version: int) -> None:
    opened(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")

    with pytest.raises(CorruptRecord, match=f"version {version}"):
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
        new = rows(
            *(
                (1_700_000_000_000 + number * 7919 % 1_000_003, number * 100, 90)
                for number in range(start, start + 10_000)
            )
        )
        table.apply(Changes(new, b"", TimerProgress(start, start * 100)))

    assert table.count == 100_000
    assert _anonymous_bytes() - before < 32 << 20
    table.close()


def _anonymous_bytes() -> int:
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon")
    )
    return int(line.split()[1]) * 1024
