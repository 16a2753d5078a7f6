"""What a partition and its segments are here: one log for all queues, and a short row for each of them."""

from pathlib import Path

import pytest
from retention_stage import LOG_FILE_BYTES, RetentionStage, retention_stage

from pyromq.testing.waiting import aeventually
from pyromq.wire.record import Record

TOPICS = ("orders", "other")


async def fill_in_turn(stage: RetentionStage, file_count: int) -> None:
    """Send to two topics in turn until the log has so many files."""
    while len(stage.log_files()) < file_count:
        for topic in TOPICS:
            await stage.client.send(topic, b"x" * 1000)
    await stage.restart()


def files_of(records: list[Record]) -> set[int]:
    return {record.position // LOG_FILE_BYTES for record in records}


@pytest.mark.row("ST-26", "ST-05")
async def test_all_topics_share_the_files_of_one_log_and_each_queue_has_a_row_of_its_own(
    tmp_path: Path,
) -> None:
    """Where Kafka has a folder of segments for each partition, a queue has twenty bytes a message."""
    async with retention_stage(tmp_path) as stage:
        await fill_in_turn(stage, 3)
        stored = {topic: await stage.client.stored(topic) for topic in TOPICS}

        assert {0, 1} <= files_of(stored["orders"]) & files_of(stored["other"])
        assert stage.log_files() == [0, 1, 2]
        for topic in TOPICS:
            row = tmp_path / "consumequeue" / topic / "0"
            entries = b"".join(path.read_bytes() for path in sorted(row.iterdir()))
            places = [
                int.from_bytes(entries[at : at + 8], "big") for at in range(0, 20 * len(stored[topic]), 20)
            ]
            assert places == [record.position for record in stored[topic]]


@pytest.mark.row("ST-26", "CL-01")
async def test_a_file_of_the_log_is_the_segment_that_goes_and_takes_part_of_every_queue(
    tmp_path: Path,
) -> None:
    async with retention_stage(tmp_path) as stage:
        await fill_in_turn(stage, 3)
        stored = {topic: await stage.client.stored(topic) for topic in TOPICS}
        stage.files.percent_used = 86

        await stage.look()

        await aeventually(lambda: stage.log_files() == [2])
        for topic in TOPICS:
            left = [record for record in stored[topic] if record.position >= 2 * LOG_FILE_BYTES]
            low = await stage.min_offset(topic)
            assert low == (left[0].queue_offset if left else len(stored[topic]))
