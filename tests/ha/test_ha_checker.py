"""The rules of a group's probe find each kind of fault in a record that was made up to have it."""

from dataclasses import replace
from pathlib import Path

import pytest

from pyromq.torture.probe.probe_record import Final, LoggedMessage, ProbeRecord, SendFate
from pyromq.torture.probe.rules import ProbePromise, judge
from pyromq.torture.replica_audit import compare_logs, lag_bytes, read_epochs

QUEUE = ("orders", 0)
OTHER = ("orders", 1)
SYNCHRONOUS = ProbePromise()
ASYNCHRONOUS = ProbePromise(is_synchronous=False, unshipped_s_max=3.0)


class Story:
    """A cluster without faults: each send is acknowledged, stored and read; then one thing is changed."""

    def __init__(self) -> None:
        self.record = ProbeRecord()
        self.final = Final(queues={QUEUE: {}, OTHER: {}}, epochs=[(1, 0)], reigns={0: {1}, 1: {2}})
        self.now = 0.0
        self.position = 0

    def send(
        self,
        node: int = 0,
        *,
        queue: tuple[str, int] = QUEUE,
        connection: int | None = None,
        stays: bool = True,
    ) -> int:
        """Send a message that is acknowledged; return its number."""
        send = self.record.begin(
            queue, node=node, connection=node if connection is None else connection, now=self.now
        )
        self.now += 0.5
        send.ended_at, send.fate = self.now, SendFate.ACKNOWLEDGED
        send.offset, send.position = len(self.final.queues[queue]), self.position
        self.now += 0.5
        if stays:
            self.final.queues[queue][send.offset] = LoggedMessage(send.number, send.position, node)
            self.record.see(queue, send.offset, send.number, node=node, now=self.now)
            self.position += 100
        return send.number

    def new_epoch(self) -> None:
        """Let another master begin where the log ends."""
        self.final.epochs.append((self.final.epochs[-1][0] + 1, self.position))

    def complaints(self, promise: ProbePromise = SYNCHRONOUS) -> set[str]:
        """Return the kinds of faults that the judge found."""
        return {text.partition(":")[0] for text in judge(self.record, self.final, promise).broken}


@pytest.fixture
def story() -> Story:
    """Two masters, one after the other, and nothing wrong."""
    story = Story()
    for _ in range(3):
        story.send(0)
        story.send(0, queue=OTHER)
    story.new_epoch()
    for _ in range(3):
        story.send(1)
        story.send(1, queue=OTHER)
    return story


@pytest.mark.parametrize("promise", [SYNCHRONOUS, ASYNCHRONOUS])
def test_a_history_without_faults_is_left_alone(story: Story, promise: ProbePromise) -> None:
    verdict = judge(story.record, story.final, promise)

    assert not verdict.broken
    assert not verdict.lost
    assert verdict.masters == 2


def test_unknown_and_refused_sends_may_be_there_or_not(story: Story) -> None:
    gone = story.record.begin(QUEUE, node=1, connection=9, now=story.now)
    gone.fate = SendFate.REFUSED
    there = story.record.sends[story.send(1)]
    there.fate, there.offset, there.position = SendFate.UNKNOWN, -1, -1

    assert not story.complaints()


def test_an_acknowledged_message_that_is_not_there_is_lost(story: Story) -> None:
    story.send(1, stays=False)

    assert story.complaints() == {"lost"}


def test_an_offset_that_nobody_has_is_a_gap(story: Story) -> None:
    number = story.final.queues[QUEUE].pop(1).number
    story.record.reads.clear()
    story.record.sends[number].fate = SendFate.UNKNOWN

    assert story.complaints() == {"gap"}


def test_a_message_that_is_there_twice_is_told(story: Story) -> None:
    queue = story.final.queues[QUEUE]
    queue[len(queue)] = replace(queue[0], position=story.position, node=1)

    assert story.complaints() == {"repeated"}


def test_a_message_that_nobody_sent_is_told(story: Story) -> None:
    queue = story.final.queues[QUEUE]
    queue[len(queue)] = LoggedMessage(4711, story.position, 1)

    assert story.complaints() == {"made up"}


def test_an_offset_that_was_given_to_two_messages_is_told_although_one_is_not_there(story: Story) -> None:
    lost = story.record.sends[story.send(1, stays=False)]
    lost.offset = 0

    assert story.complaints() == {"lost", "given twice"}


def test_an_acknowledged_message_that_moved_is_told(story: Story) -> None:
    queue = story.final.queues[QUEUE]
    last = len(queue) - 1
    story.record.reads.clear()
    story.record.sends[queue[last].number].offset = last - 1

    assert story.complaints() == {"given twice"}


def test_a_message_that_was_read_and_then_replaced_is_told(story: Story) -> None:
    unknown = story.record.begin(QUEUE, node=0, connection=9, now=story.now)
    story.record.see(QUEUE, 2, unknown.number, node=0, now=story.now)

    assert story.complaints() == {"taken back"}
    assert not story.complaints(ASYNCHRONOUS)


def test_a_message_that_was_read_and_then_gone_is_told(story: Story) -> None:
    unknown = story.record.begin(QUEUE, node=0, connection=9, now=story.now)
    story.record.see(QUEUE, 99, unknown.number, node=0, now=story.now)

    assert story.complaints() == {"taken back"}


def _swap(story: Story, one: int, other: int) -> None:
    """Let two messages of a queue have each other's places, in all that anybody knows."""
    queue = story.final.queues[QUEUE]
    queue[one], queue[other] = (
        replace(queue[one], number=queue[other].number),
        replace(queue[other], number=queue[one].number),
    )
    for offset in (one, other):
        send = story.record.sends[queue[offset].number]
        send.offset, send.position = offset, queue[offset].position
    story.record.reads.clear()


def test_a_message_that_stands_before_an_earlier_acknowledged_one_is_told(story: Story) -> None:
    for send in story.record.sends.values():
        send.connection = send.number
    _swap(story, 0, 1)

    assert story.complaints() == {"out of order"}


def test_messages_of_one_connection_that_changed_places_are_told(story: Story) -> None:
    for send in story.record.sends.values():
        # All at once: time says nothing about who was first.
        send.sent_at, send.ended_at = 0.0, 1.0
    assert not story.complaints()

    _swap(story, 0, 1)

    assert story.complaints() == {"out of order"}


def test_a_master_that_acknowledges_after_the_next_one_did_is_told_although_nothing_is_lost(
    story: Story,
) -> None:
    late = next(iter(story.record.sends.values()))
    late.sent_at, late.ended_at, late.queue = story.now, story.now + 1, ("late", 0)
    stored = story.final.queues[QUEUE].pop(0)
    story.final.queues[QUEUE] = {offset - 1: stored for offset, stored in story.final.queues[QUEUE].items()}
    for offset, kept in story.final.queues[QUEUE].items():
        story.record.sends[kept.number].offset = offset
    story.final.queues["late", 0] = {0: stored}
    story.record.reads.clear()

    assert story.complaints() == {"two masters"}


def test_a_deposed_master_that_acknowledges_what_gets_lost_is_told(story: Story) -> None:
    story.send(0, stays=False)

    assert "two masters" in story.complaints(ASYNCHRONOUS)


def test_a_master_of_whose_time_nothing_is_left_was_a_master_all_the_same(story: Story) -> None:
    story.final.reigns[0].add(3)
    story.send(0, stays=False)

    assert not story.complaints(ASYNCHRONOUS)


def test_a_deposed_master_that_is_master_again_later_is_told_all_the_same(story: Story) -> None:
    story.final.reigns[0].add(3)
    story.send(0, stays=False)
    story.final.not_before[3] = story.now

    assert story.complaints(ASYNCHRONOUS) == {"two masters"}


def test_two_nodes_that_wrote_one_epoch_are_told(story: Story) -> None:
    queue = story.final.queues[QUEUE]
    queue[0] = replace(queue[0], node=2)

    assert story.complaints() == {"two masters"}


def _lose_the_end(story: Story, count: int) -> None:
    """Let the first master have acknowledged more than the second one got."""
    for number in list(story.record.sends)[6 - count : 6]:
        send = story.record.sends[number]
        del story.final.queues[send.queue][send.offset]
    story.record.reads.clear()
    for queue, messages in story.final.queues.items():
        story.final.queues[queue] = dict(enumerate(stored for _, stored in sorted(messages.items())))
        for offset, stored in story.final.queues[queue].items():
            story.record.sends[stored.number].offset = offset


def test_asynchronous_replication_may_lose_a_master_s_young_end_and_it_is_counted(story: Story) -> None:
    _lose_the_end(story, 2)

    verdict = judge(story.record, story.final, ASYNCHRONOUS)

    assert not verdict.broken
    assert len(verdict.lost) == 2
    assert "lost" in story.complaints(SYNCHRONOUS)


def test_asynchronous_replication_must_not_lose_what_is_old(story: Story) -> None:
    _lose_the_end(story, 5)

    assert story.complaints(ASYNCHRONOUS) == {"lost too old"}


def test_asynchronous_replication_must_not_lose_what_is_followed_by_what_is_kept(story: Story) -> None:
    send = story.record.sends[4]
    del story.final.queues[QUEUE][send.offset]
    story.record.reads.clear()
    for offset in range(3, 6):
        story.final.queues[QUEUE][offset - 1] = story.final.queues[QUEUE].pop(offset)
        story.record.sends[story.final.queues[QUEUE][offset - 1].number].offset = offset - 1

    assert story.complaints(ASYNCHRONOUS) == {"lost from the middle"}


FILE_BYTES = 64


def _write_log(folder: Path, *files: bytes) -> Path:
    log = folder / "commitlog"
    log.mkdir(parents=True)
    for number, data in enumerate(files):
        (log / f"{number * FILE_BYTES:020d}").write_bytes(data.ljust(FILE_BYTES, b"\0"))
    return folder


@pytest.mark.parametrize(
    ("replica", "is_prefix"),
    [
        ([b"a" * 64, b"b" * 20], True),
        ([b"a" * 64, b"b" * 10], True),
        ([b"a" * 64], True),
        ([b"a" * 64, b"b" * 20, b""], True),
        ([b""], True),
        ([b"a" * 63 + b"x", b"b" * 20], False),
        ([b"a" * 64, b"b" * 21], False),
        ([b"a" * 64, b"b" * 20, b"c"], False),
        ([b"a" * 40, b"b" * 20], False),
        ([b"a" * 64, b"", b"c"], False),
    ],
)
def test_a_replica_s_log_is_a_prefix_of_its_master_s_or_it_is_told(
    tmp_path: Path, replica: list[bytes], is_prefix: bool
) -> None:
    master = _write_log(tmp_path / "master", b"a" * 64, b"b" * 20)

    found = list(compare_logs(master, _write_log(tmp_path / "replica", *replica)))

    assert (not found) == is_prefix, found


def test_a_replica_may_begin_at_a_later_file_than_its_master(tmp_path: Path) -> None:
    master = _write_log(tmp_path / "master", b"a" * 64, b"b" * 20)
    replica = _write_log(tmp_path / "replica", b"a" * 64, b"b" * 20)
    (replica / "commitlog" / f"{0:020d}").unlink()

    assert not list(compare_logs(master, replica))
    assert lag_bytes(master, replica) == 0


def test_the_bytes_that_a_replica_lacks_are_counted(tmp_path: Path) -> None:
    master = _write_log(tmp_path / "master", b"a" * 64, b"b" * 20)

    assert lag_bytes(master, _write_log(tmp_path / "replica", b"a" * 60)) == 24


def test_epochs_are_read_as_rocketmq_writes_them(tmp_path: Path) -> None:
    (tmp_path / "epochFileCheckpoint").write_text("1827368\n2\n1-0\n3-4096\n")

    assert read_epochs(tmp_path) == [(1, 0), (3, 4096)]
    assert read_epochs(tmp_path / "nowhere") == []
