"""The settings of flush and commit, and what holds with the defaults."""

from pathlib import Path

import pytest
from kinds_stage import running_stage
from slave_stage import running_pair
from staged_files import StagedFiles

from pyromq.codes import ResponseCode
from pyromq.config.load import load, read_assignments
from pyromq.config.settings import BrokerProcess
from pyromq.testing.waiting import aeventually


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


@pytest.mark.row("FL-05", "HA-04")
async def test_with_asynchronous_flush_and_a_synchronous_master_the_answer_waits_for_the_slave_and_no_disk(
    tmp_path: Path,
) -> None:
    """The recommended pair of settings: a message is in two memories, and one of the machines may be lost."""
    files = StagedFiles()
    async with running_pair(tmp_path, files=files, broker_role="SYNC_MASTER") as pair:
        with files.held_syncs():
            client = pair.master.connect()

            async def is_safe() -> bool:
                return (await client.send("orders", b"hello")).code == ResponseCode.SUCCESS

            await aeventually(is_safe, what="the slave follows, and has a message")
            master, slave = pair.master.broker.store, pair.slave.broker.store
            end = master.max_position
            assert slave.max_position == end
            assert master.flushed_position < end
            assert slave.flushed_position < end
        await pair.stop(pair.master)
        await pair.promote()

        # The topic's table is copied every ten seconds; a new master knows the topics of its log.
        assert (await pair.master.connect().stored("orders"))[-1].body == b"hello"


@pytest.mark.row("FL-05", "HA-02")
async def test_without_a_slave_the_recommended_pair_says_so_and_waits_for_no_disk(tmp_path: Path) -> None:
    files = StagedFiles()
    async with running_stage(tmp_path, files=files, broker_role="SYNC_MASTER") as stage:
        with files.held_syncs():
            answer = await stage.connect().send("orders")

        assert answer.code == ResponseCode.SLAVE_NOT_AVAILABLE
        assert (answer.ext or {})["queueOffset"] == "0"
