"""What a slave's word says under asynchronous flush: the message is in its memory, not on its disk."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from replication_stage import Stage

from pyromq.testing.waiting import aeventually


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with Stage(tmp_path) as stage:
        yield stage


@pytest.mark.row("HA-04")
async def test_a_message_is_confirmed_before_any_disk_has_it(stage: Stage) -> None:
    master = await stage.master()
    slave = await stage.slave(master.address)
    end = master.write(10)
    await aeventually(lambda: master.followers.confirmed == end)
    assert slave.store.max_position == end
    assert slave.store.flushed_position < end
    assert master.store.flushed_position < end
