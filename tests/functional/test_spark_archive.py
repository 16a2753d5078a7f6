"""Archives, without Spark: what is written, what is read of them together with a topic, what is verified."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("pyspark")

from archive_stage import (
    BETWEEN_MS,
    BODY_BYTES,
    archive_here,
    forgetful_cluster,
    let_messages_go,
    verify_here,
)
from spark_stage import make_topic, numbers, read_batch, send_numbers, source, tasks_of

from pyromq import Message, Producer
from pyromq.errors import ConfigError
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.manual_clock import ManualClock
from pyspark_rocketmq.cold.archive_manifest import ArchiveFault, ArchiveManifest
from pyspark_rocketmq.cold.folder import ArchiveFolder
from pyspark_rocketmq.cold.seam import ColdTask
from pyspark_rocketmq.failures import MessagesLost, ReadFailed
from pyspark_rocketmq.jobs.verify import RangeVerdict
from pyspark_rocketmq.source.planning import RangeTask

COUNT = 60


@pytest.fixture(scope="module")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_cluster(data_dir=Path(tmp_path_factory.mktemp("archive"))) as cluster:
        make_topic(cluster.namesrv_address, "orders")
        with Producer("archive-test", cluster.namesrv_address) as producer:
            for number in range(COUNT):
                message = Message("orders", b"%d" % number, tags="even" if number % 2 == 0 else "odd")
                message.properties["square"] = str(number * number)
                producer.send(message)
        yield cluster.namesrv_address


@pytest.fixture(scope="module")
def archived(name_server: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of all that the topic has."""
    folder = Path(tmp_path_factory.mktemp("archive")) / "orders"
    archive_here(name_server, folder, "orders", round_messages=25)
    return folder


class Story:
    """A topic of which a broker has dropped the oldest messages, and an archive of it."""

    def __init__(self, folder: Path, cluster: ThreadCluster, clock: ManualClock) -> None:
        self.archive = folder / "archive"
        self.name_server = cluster.namesrv_address
        self.begin_ms = clock.now_ms()
        self._cluster, self._clock = cluster, clock
        self.seam = 0

    def send(self, first: int, count: int) -> None:
        with Producer("archive-test", self.name_server) as producer:
            for number in range(first, first + count):
                message = Message("orders", b"%d" % number, tags="even" if number % 2 == 0 else "odd")
                message.properties["padding"] = "x" * BODY_BYTES
                producer.send(message)
                self._clock.advance(BETWEEN_MS)

    def let_go(self) -> None:
        self.seam = let_messages_go(self._cluster, self._clock, "orders", self.begin_ms)

    def read(self, **options: object) -> list[int]:
        rows = read_batch(nameServer=self.name_server, subscribe="orders", archive=self.archive, **options)
        return numbers(rows)


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    with forgetful_cluster(tmp_path / "data") as (cluster, clock):
        yield Story(tmp_path, cluster, clock)


def test_an_archive_has_every_message_with_all_of_its_columns(name_server: str, archived: Path) -> None:
    hot = read_batch(nameServer=name_server, subscribe="orders")

    cold = read_batch(archive=archived, subscribe="orders")

    assert len(cold) == COUNT
    place = lambda row: (row["queue_id"], row["queue_offset"])  # noqa: E731
    assert sorted(cold, key=place) == sorted(hot, key=place)


def test_a_second_run_adds_only_what_is_new(name_server: str, tmp_path: Path) -> None:
    make_topic(name_server, "growing")
    send_numbers(name_server, "growing", 0, 10)
    first = archive_here(name_server, tmp_path, "growing")
    idle = archive_here(name_server, tmp_path, "growing")
    send_numbers(name_server, "growing", 10, 7)

    second = archive_here(name_server, tmp_path, "growing")

    assert (first.row_count, idle.row_count, idle.file_count, second.row_count) == (10, 0, 0, 7)
    assert numbers(read_batch(archive=tmp_path, subscribe="growing")) == list(range(17))


def test_files_that_no_commit_names_do_not_exist(name_server: str, tmp_path: Path) -> None:
    make_topic(name_server, "torn", queue_count=1)
    send_numbers(name_server, "torn", 0, 10)
    archive_here(name_server, tmp_path, "torn", round_messages=4)
    # As if the job had been killed before its last commit.
    last = max((tmp_path / "_manifest").iterdir())
    last.unlink()
    assert numbers(read_batch(archive=tmp_path, subscribe="torn")) == list(range(8))

    archive_here(name_server, tmp_path, "torn")

    assert numbers(read_batch(archive=tmp_path, subscribe="torn")) == list(range(10))
    assert (
        len(list(tmp_path.rglob("*.parquet")))
        == len(ArchiveManifest.load(ArchiveFolder(str(tmp_path))).files()) + 1
    )


def test_what_the_broker_dropped_comes_from_the_archive_and_the_rest_from_the_log(story: Story) -> None:
    story.send(0, 60)
    archive_here(story.name_server, story.archive, "orders", round_messages=13)
    story.send(60, 10)
    story.let_go()

    made = source(nameServer=story.name_server, subscribe="orders", archive=story.archive)
    tasks = tasks_of(made.reader(made.schema()))

    assert 0 < story.seam < 60
    assert story.read() == list(range(70))
    cold = [one for task in tasks if isinstance(task, ColdTask) for one in task.ranges]
    hot = [one for task in tasks if isinstance(task, RangeTask) for one in task.ranges]
    assert (cold[0].start, cold[-1].end) == (0, story.seam)
    assert (hot[0].start, hot[-1].end) == (story.seam, 70)


def test_offsets_and_times_before_the_seam_mean_messages_of_the_archive(story: Story) -> None:
    story.send(0, 60)
    archive_here(story.name_server, story.archive, "orders")
    story.send(60, 10)
    story.let_go()

    def at(offset: int) -> str:
        return json.dumps({"orders": {"0": offset}})

    assert story.read(startingOffsets=at(3)) == list(range(3, 70))
    assert story.read(startingOffsets=at(2), endingOffsets=at(5)) == [2, 3, 4]
    assert story.read(startingOffsets=at(story.seam - 1), endingOffsets=at(story.seam + 1)) == [
        story.seam - 1,
        story.seam,
    ]
    assert story.read(startingTimestamp=story.begin_ms + 3 * BETWEEN_MS) == list(range(3, 70))
    assert story.read(endingTimestamp=story.begin_ms + 3 * BETWEEN_MS) == [0, 1, 2]
    late = story.begin_ms + BETWEEN_MS * (story.seam + 2)
    assert story.read(startingTimestamp=late) == list(range(story.seam + 2, 70))


def test_a_gap_between_archive_and_broker_is_a_loss_that_the_option_decides_about(story: Story) -> None:
    story.send(0, 5)
    archive_here(story.name_server, story.archive, "orders")
    story.send(5, 60)
    story.let_go()

    with pytest.raises(MessagesLost, match=r"queue 0 of broker-a, offset 5: no broker has them any more"):
        story.read()
    assert story.read(failOnDataLoss="false") == [*range(5), *range(story.seam, 65)]


def test_messages_dropped_before_they_were_archived_are_noted_as_a_gap(story: Story) -> None:
    story.send(0, 5)
    archive_here(story.name_server, story.archive, "orders")
    story.send(5, 60)
    story.let_go()

    with pytest.raises(ArchiveFault, match="--accept-gaps"):
        archive_here(story.name_server, story.archive, "orders")
    archive_here(story.name_server, story.archive, "orders", accepts_gaps=True)

    gaps = ArchiveManifest.load(ArchiveFolder(str(story.archive))).gaps()
    assert [(gap.start, gap.end) for gap in gaps] == [(5, story.seam)]
    assert story.read(failOnDataLoss="false") == [*range(5), *range(story.seam, 65)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tags": "even"}, range(0, COUNT, 2)),
        ({"sql": "square > 100 and square < 200"}, range(11, 15)),
        ({"tags": "none"}, range(0)),
    ],
)
def test_filters_mean_the_same_in_an_archive(
    archived: Path, options: dict[str, str], expected: range
) -> None:
    rows = read_batch(archive=archived, subscribe="orders", **options)

    assert numbers(rows) == list(expected)


def test_columns_can_be_chosen_in_any_order(archived: Path) -> None:
    rows = read_batch("body binary, queue_id int", archive=archived, subscribe="orders", tags="odd")

    assert numbers(rows) == list(range(1, COUNT, 2))
    assert set(rows[0]) == {"body", "queue_id"}


def test_an_archive_has_kafka_s_columns_too(name_server: str, archived: Path) -> None:
    hot = read_batch(nameServer=name_server, subscribe="orders", schema="kafka")

    cold = read_batch(archive=archived, subscribe="orders", schema="kafka")

    place = lambda row: (row["partition"], row["offset"])  # noqa: E731
    assert sorted(cold, key=place) == sorted(hot, key=place)


def test_what_an_archive_does_not_have_or_cannot_do_is_said(archived: Path, tmp_path: Path) -> None:
    with pytest.raises(ReadFailed, match=r"has none of that; it has orders"):
        read_batch(archive=archived, subscribe="payments")
    with pytest.raises(ReadFailed, match=r"has none of that; it has nothing"):
        read_batch(archive=tmp_path / "nowhere", subscribe="payments")
    with pytest.raises(ConfigError, match=r"archive is for batch reads"):
        source(archive=archived, subscribe="orders").streamReader(source().schema())
    with pytest.raises(ConfigError, match=r"archive does not go with keys"):
        read_batch(archive=archived, subscribe="orders", keys="a")
    with pytest.raises(ReadFailed, match=r"'group' asks brokers"):
        read_batch(archive=archived, subscribe="orders", startingOffsets="group", groupId="g")


def test_a_topic_that_was_created_again_is_not_read_together_with_its_archive(tmp_path: Path) -> None:
    with running_cluster(data_dir=tmp_path / "one", default_topic_queue_nums=1) as cluster:
        send_numbers(cluster.namesrv_address, "orders", 0, 10)
        archive_here(cluster.namesrv_address, tmp_path / "archive", "orders")
    with running_cluster(data_dir=tmp_path / "two", default_topic_queue_nums=1) as cluster:
        options = {
            "nameServer": cluster.namesrv_address,
            "subscribe": "orders",
            "archive": tmp_path / "archive",
        }
        send_numbers(cluster.namesrv_address, "orders", 0, 5)
        with pytest.raises(ReadFailed, match=r"offset 9: the broker's queue ends at 5"):
            read_batch(**options)
        send_numbers(cluster.namesrv_address, "orders", 5, 20)
        with pytest.raises(ReadFailed, match=r"offset 9: the broker has message .* created again"):
            read_batch(**options)
        with pytest.raises(ArchiveFault, match=r"archive what is there now to another folder"):
            archive_here(cluster.namesrv_address, tmp_path / "archive", "orders")


def test_an_archive_that_is_as_it_was_written_is_verified(name_server: str, archived: Path) -> None:
    found = verify_here(name_server, archived)

    assert {one.verdict for one in found.findings} == {RangeVerdict.SAME}
    assert sum(one.file.row_count for one in found.findings) == COUNT
    assert (found.is_good, found.not_archived) == (True, 0)
    assert {one.verdict for one in verify_here(None, archived).findings} == {RangeVerdict.WHOLE}


def test_what_the_broker_no_longer_has_is_told_apart(story: Story) -> None:
    story.send(0, 60)
    archive_here(story.name_server, story.archive, "orders", round_messages=5)
    story.send(60, 3)
    story.let_go()

    found = verify_here(story.name_server, story.archive)

    verdicts = {one.file.start: one for one in found.findings}
    assert verdicts[0].verdict is RangeVerdict.GONE
    assert verdicts[55].verdict is RangeVerdict.SAME
    partly = next(one for one in found.findings if one.file.start <= story.seam < one.file.end)
    assert (partly.verdict, partly.compared_from) == (RangeVerdict.SAME, story.seam)
    assert (found.is_good, found.not_archived) == (True, 3)


def test_a_missing_file_and_one_with_a_flipped_bit_are_named(name_server: str, tmp_path: Path) -> None:
    archive_here(name_server, tmp_path, "orders")
    files = ArchiveManifest.load(ArchiveFolder(str(tmp_path))).files()
    missing, flipped = tmp_path / files[0].path, tmp_path / files[1].path
    missing.unlink()
    damaged = bytearray(flipped.read_bytes())
    damaged[Random().randrange(len(damaged))] ^= 1
    flipped.write_bytes(damaged)

    found = verify_here(name_server, tmp_path)

    bad = {one.file.path for one in found.findings if one.verdict is RangeVerdict.DAMAGED}
    assert bad == {files[0].path, files[1].path}
    assert not found.is_good


def test_a_broker_with_other_messages_is_told_with_the_columns(name_server: str, tmp_path: Path) -> None:
    make_topic(name_server, "changed", queue_count=1)
    send_numbers(name_server, "changed", 0, 8)
    archive_here(name_server, tmp_path, "changed", round_messages=4)
    with running_cluster(data_dir=tmp_path / "data", default_topic_queue_nums=1) as other:
        with Producer("archive-test", other.namesrv_address) as producer:
            for row in sorted(
                read_batch(archive=tmp_path, subscribe="changed"), key=lambda row: row["queue_offset"]
            ):
                body = b"other" if row["queue_offset"] == 6 else row["body"]
                message = Message("changed", body)
                message.properties["UNIQ_KEY"] = row["msg_id"]
                producer.send(message)

        found = verify_here(other.namesrv_address, tmp_path)

    assert [one.verdict for one in found.findings] == [RangeVerdict.DIFFERS, RangeVerdict.DIFFERS]
    first, second = found.findings
    assert "body" not in first.why
    assert "body" in second.why


def test_times_of_an_archive_are_those_of_the_broker(archived: Path) -> None:
    files = ArchiveManifest.load(ArchiveFolder(str(archived))).files()
    rows = read_batch(archive=archived, subscribe="orders")

    stored = [row["store_timestamp"] for row in rows]
    assert min(stored) == datetime.fromtimestamp(min(one.first_stored_ms for one in files) / 1_000, UTC)
    assert max(stored) == datetime.fromtimestamp(max(one.last_stored_ms for one in files) / 1_000, UTC)
