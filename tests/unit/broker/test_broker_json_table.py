import asyncio
from pathlib import Path

import pytest

from pyromq.broker.json_table import JsonTable
from pyromq.errors import StoreError


class Counter:
    """A table that is one number."""

    def __init__(self) -> None:
        self.value = 0
        self.writes = 0

    def encode(self) -> bytes:
        self.writes += 1
        return str(self.value).encode()


async def test_a_change_is_on_disk_when_save_returns(tmp_path: Path) -> None:
    counter = Counter()
    table = JsonTable(tmp_path / "n.json", counter.encode)
    counter.value = 7
    table.changed()

    await table.save()

    assert (tmp_path / "n.json").read_bytes() == b"7"


async def test_changes_during_a_write_share_the_next_one(tmp_path: Path) -> None:
    counter = Counter()
    table = JsonTable(tmp_path / "n.json", counter.encode)
    table.changed()
    await asyncio.sleep(0)
    for _ in range(100):
        counter.value += 1
        table.changed()

    await table.save()

    assert (tmp_path / "n.json").read_bytes() == b"100"
    assert counter.writes == 2


async def test_nothing_changed_is_not_written(tmp_path: Path) -> None:
    counter = Counter()
    await JsonTable(tmp_path / "n.json", counter.encode).save()
    assert counter.writes == 0


async def test_one_who_gives_up_waiting_does_not_stop_the_write(tmp_path: Path) -> None:
    counter = Counter()
    table = JsonTable(tmp_path / "n.json", counter.encode)
    counter.value = 7
    table.changed()
    impatient = asyncio.ensure_future(table.save())
    await asyncio.sleep(0)

    impatient.cancel()
    await table.save()

    assert (tmp_path / "n.json").read_bytes() == b"7"


async def test_a_folder_that_cannot_be_written_is_said_and_mended_later(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    folder.write_bytes(b"a file where a folder should be")
    counter = Counter()
    table = JsonTable(folder / "n.json", counter.encode)
    table.changed_unsaved()
    with pytest.raises(StoreError, match=r"n\.json cannot be written"):
        await table.save()

    folder.unlink()
    await table.save()

    assert (folder / "n.json").read_bytes() == b"0"
