"""Epochs: which master wrote which part of a log, and how far two logs are the same."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import CorruptRecord, StoreError
from pyromq.store.epochs import Epoch, Epochs, decode_epochs, encode_epochs
from pyromq.testing.disk import SimulatedDisk, kills_of

PATH = Path("/store/epochFileCheckpoint")


def epochs_of(*entries: tuple[int, int]) -> Epochs:
    epochs = Epochs(SimulatedDisk(), PATH)
    for epoch, start in entries:
        epochs.append(epoch, start)
    return epochs


# The file


def test_the_file_is_the_one_that_rocketmq_5_writes():
    # CheckpointFile.java: how many lines, their CRC-32, and the lines themselves.
    assert encode_epochs([Epoch(7, 7000), Epoch(8, 8000)]) == b"2\n773307083\n7-7000\n8-8000\n"


def test_a_file_is_read_again():
    disk = SimulatedDisk()
    epochs = Epochs(disk, PATH)
    epochs.append(1, 0)
    epochs.append(4, 900)

    again = Epochs(disk, PATH)
    again.load()

    assert again.entries == (Epoch(1, 0), Epoch(4, 900))
    assert again.last == Epoch(4, 900)


def test_without_a_file_there_are_no_epochs():
    epochs = Epochs(SimulatedDisk(), PATH)
    epochs.load()

    assert epochs.entries == ()
    assert epochs.last is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"1\n",
        b"2\n773307083\n7-7000\n",
        b"2\n773307084\n7-7000\n8-8000\n",
        b"3\n0\n7-7000\n8-8000\n",
        b"2\n0\n8-7000\n7-8000\n",
        b"2\n0\n7-7000\n8-7000\n",
        b"1\n0\n7-7000-1\n",
        b"1\n0\nseven\n",
        b"\xff\n",
    ],
)
def test_a_damaged_file_is_never_taken_for_an_empty_one(text):
    disk = SimulatedDisk()
    disk.make_folder(PATH.parent)
    disk.open(PATH, 0).write(text, 0)

    with pytest.raises(CorruptRecord, match="epochFileCheckpoint"):
        Epochs(disk, PATH).load()


def test_a_checksum_of_zero_is_not_looked_at():
    assert decode_epochs(b"1\n0\n7-7000\n") == (Epoch(7, 7000),)


@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 1 << 40)), max_size=9))
def test_what_is_written_is_read(steps):
    entries, epoch, start = [], 0, -1
    for more, further in steps:
        epoch, start = epoch + more, start + further
        entries.append(Epoch(epoch, start))

    assert list(decode_epochs(encode_epochs(entries))) == entries


def test_a_kill_leaves_the_old_epochs_or_the_new_ones():
    disk = SimulatedDisk()
    epochs = Epochs(disk, PATH)
    epochs.append(1, 0)
    before = len(disk.journal)
    epochs.append(2, 500)
    seen = set()

    for cut in kills_of(disk.journal, base=disk.base):
        if cut.at >= before:
            again = Epochs(SimulatedDisk(cut.image), PATH)
            again.load()
            seen.add(again.entries)

    assert seen == {(Epoch(1, 0),), (Epoch(1, 0), Epoch(2, 500))}


# What they say


def test_an_epoch_that_wrote_nothing_leaves_no_trace():
    assert epochs_of((1, 0), (2, 500), (3, 500)).entries == (Epoch(1, 0), Epoch(3, 500))


def test_an_epoch_that_begins_again_changes_nothing():
    disk = SimulatedDisk()
    epochs = Epochs(disk, PATH)
    epochs.append(1, 0)
    written = len(disk.journal)

    epochs.append(1, 0)

    assert len(disk.journal) == written


@pytest.mark.parametrize("epoch", [3, 4])
def test_an_epoch_that_is_not_newer_is_refused(epoch):
    epochs = epochs_of((1, 0), (4, 500))

    with pytest.raises(StoreError, match="epoch 4"):
        epochs.append(epoch, 900)

    assert epochs.entries == (Epoch(1, 0), Epoch(4, 500))


def test_a_cut_forgets_the_epochs_that_begin_behind_it():
    epochs = epochs_of((1, 0), (2, 500), (3, 900))

    epochs.cut(900)
    assert epochs.entries == (Epoch(1, 0), Epoch(2, 500))
    epochs.cut(501)
    assert epochs.entries == (Epoch(1, 0), Epoch(2, 500))
    epochs.cut(0)
    assert epochs.entries == ()


@pytest.mark.row("HA-09")
@pytest.mark.parametrize(
    ("own", "own_end", "theirs", "their_end", "expected"),
    [
        # The same, and one is behind.
        ([(1, 0)], 400, [(1, 0)], 700, 400),
        ([(1, 0)], 700, [(1, 0)], 400, 400),
        # They went over to another master where this log ended, or before.
        ([(1, 0)], 400, [(1, 0), (2, 400)], 700, 400),
        ([(1, 0)], 400, [(1, 0), (2, 300)], 700, 300),
        # This log went over to a master that they do not know.
        ([(1, 0), (2, 300)], 400, [(1, 0), (3, 350)], 700, 300),
        ([(1, 0), (2, 350)], 400, [(1, 0), (3, 300)], 700, 300),
        ([(1, 0), (2, 300)], 400, [(1, 0)], 700, 300),
        # Both have an epoch, and not from the same position on.
        ([(1, 0), (2, 300)], 400, [(1, 0), (2, 350)], 700, 300),
        # The newest that both have counts.
        ([(1, 0), (2, 300), (5, 600)], 700, [(1, 0), (2, 300), (3, 500)], 900, 500),
        # An epoch that begins behind the end of a log says nothing.
        ([(1, 0), (2, 300)], 200, [(1, 0), (2, 300)], 700, 200),
        ([(1, 0), (2, 300)], 700, [(1, 0), (2, 300)], 200, 200),
        # A replica that began in the middle.
        ([(5, 4096)], 5000, [(1, 0), (5, 4096)], 9000, 5000),
        # Nothing in common.
        ([(1, 0)], 400, [(2, 0)], 700, None),
        ([(1, 0)], 400, [(1, 10)], 700, None),
        ([], 400, [(1, 0)], 700, None),
        ([(1, 0)], 400, [], 700, None),
    ],
)
def test_two_logs_are_the_same_up_to_the_end_of_the_newest_epoch_that_both_have(
    own, own_end, theirs, their_end, expected
):
    epochs = epochs_of(*own)

    assert epochs.common_end([Epoch(*one) for one in theirs], their_end, own_end) == expected


@given(st.data())
def test_what_the_epochs_say_of_two_logs_is_so(data):
    """Replicas of one byte a message, each the number of the epoch that wrote it."""
    logs: list[bytearray] = [bytearray() for _ in range(3)]
    epochs = [Epochs(SimulatedDisk(), PATH) for _ in logs]
    for epoch in range(1, data.draw(st.integers(2, 8))):
        master = data.draw(st.integers(0, 2))
        epochs[master].append(epoch, len(logs[master]))
        logs[master] += bytes([epoch]) * data.draw(st.integers(0, 5))
        for follower in {0, 1, 2} - {master}:
            if not data.draw(st.booleans()):
                continue
            ends = len(logs[master]), len(logs[follower])
            epochs[follower].cut(len(logs[follower]))
            common = epochs[follower].common_end(epochs[master].entries, *ends)
            if common is None:
                if logs[follower]:
                    continue
                common = 0
            assert logs[follower][:common] == logs[master][:common]
            del logs[follower][common:]
            epochs[follower].cut(common)
            copied = data.draw(st.integers(common, len(logs[master])))
            for entry in epochs[master].entries:
                # An epoch is written down before its first byte, which may not come.
                if entry.start <= copied and entry not in epochs[follower].entries:
                    epochs[follower].append(*entry)
            logs[follower] += logs[master][common:copied]
