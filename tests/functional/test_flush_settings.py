"""The settings of flush and commit, and what holds with the defaults."""

from pathlib import Path

import pytest
from kinds_stage import running_stage
from staged_files import StagedFiles

from pyromq.codes import ResponseCode
from pyromq.config.load import load, read_assignments
from pyromq.config.settings import BrokerProcess


@pytest.mark.row("FL-04", "ST-15")
def test_the_settings_of_the_write_buffer_are_those_of_rocketmq_and_it_is_off() -> None:
    store = load(BrokerProcess, read_assignments([])).process.store

    assert not store.transient_store_pool_enable
    assert store.transient_store_pool_size == 5
    assert store.commit_interval_commit_log == store.commit_commit_log_thorough_interval == 200
    assert store.commit_commit_log_least_pages == 4


def test_a_lack_of_buffers_that_cannot_be_is_said_to_have_no_effect() -> None:
    loaded = load(BrokerProcess, read_assignments(["fastFailIfNoBufferInStorePool=true"]))

    assert [one.setting.key for one in loaded.unheeded] == ["fastFailIfNoBufferInStorePool"]


@pytest.mark.row("FL-04")
async def test_a_message_that_was_acknowledged_is_in_its_file_and_not_in_a_buffer(tmp_path: Path) -> None:
    """With the pool, RocketMQ commits to the file every 200 ms, and a kill before that loses the message."""
    files = StagedFiles()
    async with running_stage(tmp_path, files=files) as stage:
        await stage.connect().send("orders", b"in the page cache")

        (log,) = (tmp_path / "commitlog").iterdir()
        assert b"in the page cache" in log.read_bytes()
        assert files.log_syncs == 0


@pytest.mark.row("FL-05")
async def test_a_master_with_asynchronous_flush_that_wants_a_slave_waits_for_no_disk_and_says_none_is_there(
    tmp_path: Path,
) -> None:
    """The recommended pair of settings; without a slave each answer says what it lacks."""
    files = StagedFiles()
    settings = {"broker_role": "SYNC_MASTER", "flush_disk_type": "ASYNC_FLUSH"}
    async with running_stage(tmp_path, files=files, **settings) as stage:
        with files.held_syncs():
            answer = await stage.connect().send("orders")

        assert answer.code == ResponseCode.SLAVE_NOT_AVAILABLE
        assert (answer.ext or {})["queueOffset"] == "0"
