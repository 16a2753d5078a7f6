"""Which files go, and when: by age and hour, and by how full the disk is."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from retention_stage import (
    HOUR_MS,
    LOOK_MS,
    MESSAGES_PER_FILE,
    RetentionStage,
    local_ms,
    retention_stage,
)

from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import StoreSettings
from pyromq.testing.waiting import aeventually

MINUTE_MS = 60_000


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[RetentionStage]:
    """A broker with RocketMQ's settings: three days, at four in the morning. It is noon."""
    async with retention_stage(tmp_path) as stage:
        yield stage


def until(stage: RetentionStage, hour: int, days: int) -> int:
    """Return the milliseconds until ten past an hour, some days on."""
    return local_ms(hour, 10) + days * 24 * HOUR_MS - stage.clock.now_ms()


@pytest.mark.row("CL-01")
async def test_messages_that_everybody_has_read_stay(stage: RetentionStage) -> None:
    await stage.fill(3)
    end = await stage.max_offset()
    fields = {"consumerGroup": "readers", "topic": "orders", "queueId": 0, "commitOffset": end}
    await stage.client.request(RequestCode.UPDATE_CONSUMER_OFFSET, fields)

    assert await stage.look(after_ms=until(stage, 4, days=3)) == 0
    assert stage.log_files() == [0, 1, 2]


@pytest.mark.row("CL-02", "CL-03")
async def test_after_three_days_files_go_at_four_in_the_morning(stage: RetentionStage) -> None:
    await stage.fill(3)
    # Three days are over at noon; at four that day they were not.
    assert await stage.look(after_ms=until(stage, 4, days=3)) == 0
    assert await stage.look(after_ms=until(stage, 12, days=3)) == 0
    assert await stage.look(after_ms=until(stage, 3, days=4)) == 0

    assert await stage.look(after_ms=until(stage, 4, days=4)) == 2 * MESSAGES_PER_FILE

    # The last file is being written, however old it is.
    await aeventually(lambda: stage.log_files() == [2])


@pytest.mark.row("CL-02")
async def test_the_hours_to_delete_may_be_several(tmp_path: Path) -> None:
    async with retention_stage(tmp_path, delete_when="04;16", file_reserved_time=1) as stage:
        await stage.fill(3)
        assert await stage.look(after_ms=until(stage, 15, days=0)) == 0

        assert await stage.look(after_ms=until(stage, 16, days=0)) == 2 * MESSAGES_PER_FILE


@pytest.mark.row("CL-02")
async def test_how_long_files_are_kept_can_be_set(tmp_path: Path) -> None:
    async with retention_stage(tmp_path, file_reserved_time=24 * 7) as stage:
        await stage.fill(2)
        assert await stage.look(after_ms=until(stage, 4, days=7)) == 0

        assert await stage.look(after_ms=until(stage, 4, days=8)) == MESSAGES_PER_FILE


@pytest.mark.row("CL-01")
async def test_a_file_goes_as_a_whole_when_its_youngest_message_is_old(stage: RetentionStage) -> None:
    await stage.client.send("orders", b"x" * 1000, properties={"KEYS": "key"})
    stage.clock.advance(24 * HOUR_MS)
    await stage.fill(2)
    stage.files.percent_used = 80

    # The first message is three days old, but its file was filled a day later.
    assert await stage.look(after_ms=48 * HOUR_MS + MINUTE_MS) == 0
    assert await stage.look(after_ms=24 * HOUR_MS) == MESSAGES_PER_FILE


@pytest.mark.row("CL-04")
async def test_over_seventy_five_percent_old_files_go_at_any_hour(stage: RetentionStage) -> None:
    await stage.fill(3)
    stage.files.percent_used = 75
    assert await stage.look(after_ms=73 * HOUR_MS) == 0

    stage.files.percent_used = 76
    assert await stage.look() == 2 * MESSAGES_PER_FILE


@pytest.mark.row("CL-04")
async def test_over_seventy_five_percent_young_files_stay(stage: RetentionStage) -> None:
    await stage.fill(3)
    stage.files.percent_used = 85

    assert await stage.look(after_ms=70 * HOUR_MS) == 0


@pytest.mark.row("CL-05")
async def test_over_eighty_five_percent_the_oldest_files_go_however_young(stage: RetentionStage) -> None:
    await stage.fill(3)
    stage.files.percent_used = 86

    assert await stage.look() == 2 * MESSAGES_PER_FILE

    await aeventually(lambda: stage.log_files() == [2])


@pytest.mark.row("CL-05")
async def test_young_files_stay_when_the_settings_forbid_to_force_them_out(tmp_path: Path) -> None:
    async with retention_stage(tmp_path, clean_file_forcibly_enable=False) as stage:
        await stage.fill(3)
        stage.files.percent_used = 89

        assert await stage.look() == 0


@pytest.mark.row("CL-07")
async def test_dead_letters_live_as_long_as_all_others(stage: RetentionStage) -> None:
    retried = await stage.client.send("%RETRY%readers", b"dead", reconsumeTimes=16, maxReconsumeTimes=16)
    assert retried.code == ResponseCode.SUCCESS
    await stage.fill(3)
    stage.files.percent_used = 80
    dead = "%DLQ%readers"
    assert [record.body for record in await stage.client.stored(dead)] == [b"dead"]

    await stage.look(after_ms=71 * HOUR_MS)
    assert await stage.min_offset(dead) == 0
    await stage.look(after_ms=HOUR_MS)

    assert await stage.min_offset(dead) == await stage.max_offset(dead) == 1


@pytest.mark.row("CL-08")
async def test_the_broker_looks_every_ten_seconds(stage: RetentionStage) -> None:
    await stage.fill(2)
    stage.files.percent_used = 86
    looks = stage.files.disk_looks
    stage.clock.advance(LOOK_MS - 1)
    assert await stage.min_offset() == 0
    assert stage.files.disk_looks == looks

    assert await stage.look(after_ms=1) == MESSAGES_PER_FILE


@pytest.mark.row("CL-08")
async def test_at_most_ten_files_go_at_a_look(stage: RetentionStage) -> None:
    await stage.fill(14)
    stage.files.percent_used = 86

    assert await stage.look() == 10 * MESSAGES_PER_FILE
    await aeventually(lambda: stage.log_files() == [10, 11, 12, 13])
    assert await stage.look() == 13 * MESSAGES_PER_FILE
    await aeventually(lambda: stage.log_files() == [13])


#: RocketMQ's deleteCommitLogFilesInterval and deleteConsumeQueueFilesInterval.
DEFAULTS = StoreSettings()
PAUSES: dict[str, object] = {
    "delete_commit_log_files_interval": DEFAULTS.delete_commit_log_files_interval,
    "delete_consume_queue_files_interval": DEFAULTS.delete_consume_queue_files_interval,
}


def is_there(path: Path) -> bool:
    return path.exists()


async def ms_until_gone(stage: RetentionStage, path: Path) -> int:
    """Move the clock little by little until a file is gone; return by how much."""
    moved_ms = 0
    while is_there(path):
        stage.clock.advance(10)
        moved_ms += 10
        await stage.max_offset()
    return moved_ms


@pytest.mark.row("CL-08")
async def test_files_of_the_log_are_removed_a_hundred_milliseconds_apart(tmp_path: Path) -> None:
    async with retention_stage(tmp_path, **PAUSES) as stage:
        await stage.fill(4)
        first, second, third, _ = sorted((tmp_path / "commitlog").iterdir())
        stage.files.percent_used = 86
        assert await stage.look() == 3 * MESSAGES_PER_FILE
        stage.files.percent_used = 10

        await aeventually(lambda: not first.exists(), what="the oldest file goes at once")
        assert await ms_until_gone(stage, second) >= 100
        assert await ms_until_gone(stage, third) >= 100


@pytest.mark.row("CL-08")
async def test_queues_lose_their_files_a_hundred_milliseconds_apart(tmp_path: Path) -> None:
    async with retention_stage(tmp_path, **PAUSES) as stage:
        for number in range(6 * MESSAGES_PER_FILE):
            await stage.client.send("orders", b"x" * 1000, queue_id=number % 2)
        await stage.restart()
        one, other = (tmp_path / "consumequeue" / "orders" / name / f"{0:020d}" for name in "01")
        stage.files.percent_used = 86
        *old, _newest = sorted((tmp_path / "commitlog").iterdir())
        await stage.look()
        stage.files.percent_used = 10
        for file in old:
            await ms_until_gone(stage, file)

        await aeventually(lambda: one.exists() != other.exists(), what="one queue loses its oldest file")
        assert await ms_until_gone(stage, other if other.exists() else one) >= 100


@pytest.mark.row("CL-08")
async def test_a_file_that_cannot_be_removed_is_tried_again(stage: RetentionStage) -> None:
    """It used to stay until a restart, and with it all others of its round, on a disk that was full."""
    await stage.fill(4)
    stage.files.percent_used = 86
    stage.files.remove_error = "Device or resource busy"
    assert await stage.look() == 3 * MESSAGES_PER_FILE
    await aeventually(lambda: any(what.startswith("remove ") for what in stage.files.of("commitlog")))
    assert stage.log_files() == [0, 1, 2, 3]

    stage.files.remove_error = None
    stage.files.percent_used = 10
    await stage.look()

    await aeventually(lambda: stage.log_files() == [3])


async def test_a_queue_keeps_its_file_until_the_files_of_the_log_are_gone(tmp_path: Path) -> None:
    async with retention_stage(tmp_path, **PAUSES) as stage:
        for number in range(6 * MESSAGES_PER_FILE):
            await stage.client.send("orders", b"x" * 1000, queue_id=number % 2)
        await stage.restart()
        queue_files = [tmp_path / "consumequeue" / "orders" / name / f"{0:020d}" for name in "01"]
        *old, _newest = sorted((tmp_path / "commitlog").iterdir())
        stage.files.percent_used = 86
        await stage.look()
        stage.files.percent_used = 10

        for file in old:
            await ms_until_gone(stage, file)
        await aeventually(lambda: not all(one.exists() for one in queue_files))

    operations = [path for kind, path in stage.files.operations if kind == "remove"]
    removed = [path.parent.name for path in operations if path.name.isdigit()]
    log_count = removed.count("commitlog")
    assert log_count == len(old)
    assert removed[:log_count] == ["commitlog"] * log_count
