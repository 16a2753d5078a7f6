"""Which files of an archive count."""

from pathlib import Path

import pytest

from pyromq.errors import ConfigError
from pyromq.model import MessageQueue
from pyromq.wire.bodies.offset_bodies import TopicOffset
from pyspark_rocketmq.cold.archive_manifest import ArchivedFile, ArchiveFault, ArchiveManifest, Gap
from pyspark_rocketmq.cold.folder import ArchiveFolder, FolderTaken
from pyspark_rocketmq.jobs.archive import plan

QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.fixture
def folder(tmp_path: Path) -> ArchiveFolder:
    return ArchiveFolder(str(tmp_path / "archive"))


def file(start: int, end: int, queue: MessageQueue = QUEUE) -> ArchivedFile:
    return ArchivedFile(
        queue, start, end, f"{queue.queue_id}/{start}.parquet", 1, "00", 2, 3, "id", {"body": "00"}
    )


def edges(start: int, end: int) -> dict[MessageQueue, TopicOffset]:
    return {QUEUE: TopicOffset(min_offset=start, max_offset=end)}


def test_a_folder_without_commits_is_an_empty_archive(folder: ArchiveFolder) -> None:
    manifest = ArchiveManifest.load(folder)

    assert (manifest.files(), manifest.end(QUEUE), manifest.commit_count) == ([], None, 0)


def test_what_was_committed_is_read_again_in_the_order_of_messages(folder: ArchiveFolder) -> None:
    other = MessageQueue("orders", "broker-a", 1)
    written = ArchiveManifest.load(folder)
    written.commit([file(5, 9), file(0, 5), file(7, 8, other)])
    written.commit([file(12, 20)], [Gap(QUEUE, 9, 12, "dropped")])

    read = ArchiveManifest.load(folder)

    assert [(one.start, one.end) for one in read.files(QUEUE)] == [(0, 5), (5, 9), (12, 20)]
    assert read.files() == written.files()
    assert (read.start(other), read.end(other), read.end(QUEUE)) == (7, 8, 20)
    assert [(gap.start, gap.end, gap.why) for gap in read.gaps()] == [(9, 12, "dropped")]


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        (8, 12, r"messages 8 to 9 would be there twice"),
        (11, 12, r"messages 10 to 10 are missing"),
        (10, 10, "none"),
    ],
)
def test_a_commit_that_repeats_or_leaves_out_a_message_is_refused_and_changes_nothing(
    folder: ArchiveFolder, start: int, end: int, said: str
) -> None:
    manifest = ArchiveManifest.load(folder)
    manifest.commit([file(0, 10)])

    with pytest.raises(ArchiveFault, match=said):
        manifest.commit([file(start, end)])

    assert manifest.end(QUEUE) == 10
    assert ArchiveManifest.load(folder).commit_count == 1


def test_of_two_jobs_at_once_the_second_to_commit_is_refused(folder: ArchiveFolder) -> None:
    first, second = ArchiveManifest.load(folder), ArchiveManifest.load(folder)
    first.commit([file(0, 10)])

    with pytest.raises(ArchiveFault, match="another job"):
        second.commit([file(0, 7)])

    assert ArchiveManifest.load(folder).end(QUEUE) == 10


def test_a_commit_that_is_missing_or_damaged_is_named(folder: ArchiveFolder) -> None:
    manifest = ArchiveManifest.load(folder)
    manifest.commit([file(0, 10)])
    manifest.commit([file(10, 20)])
    commits = Path(folder.uri) / "_manifest"

    (commits / "0000000002.json").write_text('{"version": 1, "files": [{}]')
    with pytest.raises(ArchiveFault, match=r"0000000002\.json does not read"):
        ArchiveManifest.load(folder)
    (commits / "0000000001.json").unlink()
    with pytest.raises(ArchiveFault, match=r"commit 0000000001\.json is missing"):
        ArchiveManifest.load(folder)


def test_a_file_is_created_whole_and_once(folder: ArchiveFolder) -> None:
    folder.create("_manifest/1", b"one")

    with pytest.raises(FolderTaken):
        folder.create("_manifest/1", b"two")

    assert (folder.read("_manifest/1"), folder.names("_manifest")) == (b"one", ["1"])
    assert [path.name for path in (Path(folder.uri) / "_manifest").iterdir()] == ["1"]


def test_a_folder_that_no_file_system_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match="nosuch://bucket"):
        ArchiveManifest.load(ArchiveFolder("nosuch://bucket"))


def test_the_first_run_takes_all_there_is_and_the_next_goes_on_behind_it(folder: ArchiveFolder) -> None:
    manifest = ArchiveManifest.load(folder)

    assert plan(manifest, edges(5, 9), accepts_gaps=False) == ({QUEUE: (5, 9)}, [])
    manifest.commit([file(5, 9)])
    assert plan(manifest, edges(6, 12), accepts_gaps=False) == ({QUEUE: (9, 12)}, [])
    assert plan(manifest, edges(6, 9), accepts_gaps=False) == ({}, [])


def test_messages_that_were_dropped_too_early_are_a_fault_or_a_gap_that_is_noted(
    folder: ArchiveFolder,
) -> None:
    manifest = ArchiveManifest.load(folder)
    manifest.commit([file(0, 5)])

    with pytest.raises(ArchiveFault, match=r"offset 5: the broker has dropped 3 messages"):
        plan(manifest, edges(8, 12), accepts_gaps=False)
    waiting, gaps = plan(manifest, edges(8, 12), accepts_gaps=True)

    assert waiting == {QUEUE: (8, 12)}
    assert [(gap.start, gap.end) for gap in gaps] == [(5, 8)]


def test_a_queue_that_ends_before_its_archive_is_another_queue(folder: ArchiveFolder) -> None:
    manifest = ArchiveManifest.load(folder)
    manifest.commit([file(0, 5)])

    with pytest.raises(ArchiveFault, match="deleted and created again"):
        plan(manifest, edges(0, 4), accepts_gaps=True)
