"""A table that cannot be written: who waits for it is told, others are served, and it is written later."""

import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kinds_stage import ManualStage, Peer, running_stage, text_of
from staged_files import StagedFiles

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.waiting import aeventually

COMMIT = {"consumerGroup": "readers", "topic": "orders", "queueId": 0, "commitOffset": 1}
QUERY = {"consumerGroup": "readers", "topic": "orders", "queueId": 0}


@pytest.fixture
def files() -> StagedFiles:
    return StagedFiles()


@pytest.fixture
async def stage(tmp_path: Path, files: StagedFiles) -> AsyncIterator[ManualStage]:
    async with running_stage(tmp_path, files=files) as stage:
        await stage.connect().send("orders")
        yield stage
        files.full_name = files.sync_error = None


async def progress(client: Peer) -> dict[str, str] | None:
    return (await client.request(RequestCode.QUERY_CONSUMER_OFFSET, QUERY)).ext


@pytest.mark.row("ST-25")
async def test_a_topic_that_cannot_be_saved_is_not_acknowledged(
    stage: ManualStage, files: StagedFiles
) -> None:
    files.full_name = "topics.json"

    answer = await stage.connect().send("new")

    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert answer.remark is not None
    assert "topics.json" in answer.remark
    assert "No space left on device" in answer.remark


@pytest.mark.row("ST-25")
async def test_when_there_is_room_again_the_topic_is_saved_with_the_next_send(
    stage: ManualStage, files: StagedFiles
) -> None:
    client = stage.connect()
    files.full_name = "topics.json"
    await client.send("new")
    files.full_name = None

    assert (await client.send("new")).code == ResponseCode.SUCCESS
    assert '"new"' in (stage.folder / "config" / "topics.json").read_text()


@pytest.mark.row("ST-25")
async def test_sends_to_topics_that_are_saved_go_on_while_another_cannot_be(
    stage: ManualStage, files: StagedFiles
) -> None:
    """One topic that could not be written used to refuse the sends of all others."""
    client = stage.connect()
    files.full_name = "topics.json"
    await client.send("new")

    assert (await client.send("orders")).code == ResponseCode.SUCCESS


@pytest.mark.row("ST-25")
async def test_progress_that_could_not_be_saved_is_saved_five_seconds_later(
    stage: ManualStage, files: StagedFiles
) -> None:
    client = stage.connect()
    await client.request(RequestCode.UPDATE_CONSUMER_OFFSET, COMMIT)
    files.full_name = "consumerOffset.json"
    stage.clock.advance(5_000)
    await aeventually(lambda: "write consumerOffset.json.tmp" in files.of("consumerOffset.json"))
    files.full_name = None

    path = stage.folder / "config" / "consumerOffset.json"

    def is_saved() -> bool:
        stage.clock.advance(5_000)
        return "orders@readers" in text_of(path)

    await aeventually(is_saved)


@pytest.mark.row("ST-25", "FL-02")
async def test_a_stop_after_a_failed_sync_still_saves_the_progress(
    stage: ManualStage, files: StagedFiles
) -> None:
    """The delay levels' progress waits for a sync; when that failed, no table at all used to be saved."""
    client = stage.connect()
    await client.send("later", properties={"DELAY": "1"})
    stage.clock.advance(1_000)
    await client.await_stored("later")
    await client.request(RequestCode.UPDATE_CONSUMER_OFFSET, COMMIT)
    files.sync_error = "Input/output error"

    await stage.close()
    files.sync_error = None
    await stage.restart()

    assert await progress(stage.connect()) == {"offset": "1"}


@pytest.mark.row("ST-25")
async def test_a_stop_saves_all_tables_that_can_be_saved(stage: ManualStage, files: StagedFiles) -> None:
    client = stage.connect()
    await client.send("later", properties={"DELAY": "1"})
    stage.clock.advance(1_000)
    await client.await_stored("later")
    await client.request(RequestCode.UPDATE_CONSUMER_OFFSET, COMMIT)
    files.full_name = "delayOffset.json"

    await stage.restart()

    assert await progress(stage.connect()) == {"offset": "1"}


@pytest.mark.row("ST-25", "FL-02")
async def test_a_stop_on_a_slow_disk_saves_the_other_tables_and_says_what_it_lost(
    tmp_path: Path, files: StagedFiles, caplog: pytest.LogCaptureFixture
) -> None:
    """The delay levels' progress waits for a sync; when that took too long, no table used to be saved."""
    async with running_stage(tmp_path, files=files, sync_flush_timeout=5) as stage:
        client = stage.connect()
        await client.send("orders")
        await client.send("later", properties={"DELAY": "1"})
        stage.clock.advance(1_000)
        await client.await_stored("later")
        await client.request(RequestCode.UPDATE_CONSUMER_OFFSET, COMMIT)

        with files.held_syncs():
            # The loop itself waits for the sync in the end, so a thread must let it go.
            threading.Timer(0.5, files.let_syncs_go).start()
            await stage.close()
        await stage.restart()

        assert await progress(stage.connect()) == {"offset": "1"}
    assert "the delay levels' progress since the last write is lost with this stop: FLUSH_DISK" in caplog.text


@pytest.mark.row("ST-25")
async def test_whatever_one_table_raises_the_others_are_saved(
    stage: ManualStage, files: StagedFiles, caplog: pytest.LogCaptureFixture
) -> None:
    client = stage.connect()
    # Nothing that the disk says: a mistake of the program.
    files.broken_name = "topics.json"
    await client.send("new")
    await client.request(RequestCode.UPDATE_CONSUMER_OFFSET, COMMIT)

    await stage.close()
    files.broken_name = None
    await stage.restart()

    assert await progress(stage.connect()) == {"offset": "1"}
    assert "what changed in topics since the last write is lost with this stop" in caplog.text
