"""What a slave makes of the bytes that its master sends."""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from replication_stage import LOG_FILE_BYTES, open_epochs, open_store, put, whole_log

from pyromq.broker.replication.copying import Copying
from pyromq.broker.replication.dialects import WithEpochs
from pyromq.broker.replication.divergence import Diverged, last_record_position
from pyromq.codes import SysFlag
from pyromq.errors import CorruptRecord, RemoteProtocolError, StoreError
from pyromq.store.store import MessageStore
from pyromq.wire.replication import Welcome, encode_epoch_piece_head, encode_piece_head


@pytest.fixture
def master(tmp_path: Path) -> Iterator[MessageStore]:
    store = open_store(tmp_path / "master")
    yield store
    store.close()


@pytest.fixture
def slave(tmp_path: Path) -> Iterator[MessageStore]:
    store = open_store(tmp_path / "slave")
    yield store
    store.close()


def piece(store: MessageStore, start: int, size: int) -> bytes:
    data = store.log_bytes(start, size)
    return encode_piece_head(start, len(data)) + data


def epoch_piece(store: MessageStore, start: int, size: int, epoch: tuple[int, int], confirmed: int) -> bytes:
    data = store.log_bytes(start, size)
    return encode_epoch_piece_head(start, len(data), *epoch, confirmed) + data


def test_pieces_of_any_size_in_reads_of_any_size_become_the_same_log(
    master: MessageStore, slave: MessageStore
) -> None:
    chance = random.Random(8)
    for number in range(600):
        put(master, b"%d" % number + b"x" * chance.randrange(400), queue_id=chance.randrange(3))
    sent, position = [], 0
    while position < master.max_position:
        sent.append(piece(master, position, chance.randrange(1, 6000)))
        position += len(sent[-1]) - 12
    stream, copying, held = b"".join(sent), Copying(slave), b""
    edges = sorted(chance.sample(range(len(stream)), 100))
    for start, end in itertools.pairwise([0, *edges, len(stream)]):
        held += stream[start:end]
        held = held[copying.take(memoryview(held)) :]
    assert whole_log(slave) == whole_log(master)
    assert [slave.max_offset("orders", queue) for queue in range(3)] == [
        master.max_offset("orders", queue) for queue in range(3)
    ]


def test_what_one_read_brought_is_appended_at_once(
    master: MessageStore, slave: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        put(master, b"%d" % number)
    appended: list[int] = []
    append = slave.append_copied

    def counted(*parts: bytes | memoryview) -> None:
        appended.append(sum(map(len, parts)))
        append(*parts)

    monkeypatch.setattr(slave, "append_copied", counted)
    stream = b"".join(piece(master, position, 100) for position in range(0, master.max_position, 100))
    assert Copying(slave).take(memoryview(stream)) == len(stream)
    assert appended == [master.max_position]


def test_a_new_slave_begins_where_the_master_lets_it(master: MessageStore, slave: MessageStore) -> None:
    while master.max_position < LOG_FILE_BYTES + 1000:
        put(master, b"x" * 300)
    stream = piece(master, LOG_FILE_BYTES, 1 << 20)
    Copying(slave).take(memoryview(stream))
    assert (slave.min_position, slave.max_position) == (LOG_FILE_BYTES, master.max_position)


def test_a_heartbeat_lets_nothing_begin(slave: MessageStore) -> None:
    assert Copying(slave).take(memoryview(encode_piece_head(LOG_FILE_BYTES, 0))) == 12
    assert slave.max_position == 0


def test_a_log_cannot_begin_in_the_middle_of_a_file(master: MessageStore, slave: MessageStore) -> None:
    with pytest.raises(StoreError, match="mappedFileSizeCommitLog"):
        Copying(slave).take(memoryview(encode_piece_head(1000, 4) + b"abcd"))
    assert slave.max_position == 0


def test_a_gap_is_told_with_what_to_do_and_what_came_before_it_is_kept(
    master: MessageStore, slave: MessageStore
) -> None:
    put(master, b"one")
    end = master.max_position
    stream = piece(master, 0, end) + encode_piece_head(end + 500, 4) + b"abcd"
    with pytest.raises(Diverged, match=rf"up to {end}, .* goes on at {end + 500}.*remove its store folder"):
        Copying(slave).take(memoryview(stream))
    assert slave.max_position == end


def test_a_master_that_ends_before_the_slave_is_not_followed(slave: MessageStore) -> None:
    put(slave, b"one")
    end = slave.max_position
    with pytest.raises(Diverged, match="has what the master has not"):
        Copying(slave).take(memoryview(encode_piece_head(end - 1, 0)))


def test_bytes_that_are_no_record_change_nothing(slave: MessageStore) -> None:
    put(slave, b"one")
    end = slave.max_position
    with pytest.raises(CorruptRecord):
        Copying(slave).take(memoryview(encode_piece_head(end, 400) + b"?" * 400))
    assert slave.max_position == end


class TestWithEpochs:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return tmp_path / "slave"

    def test_an_epoch_is_written_down_with_its_first_piece(
        self, master: MessageStore, slave: MessageStore, folder: Path
    ) -> None:
        put(master, b"one")
        middle = master.max_position
        put(master, b"two")
        copying = Copying(slave, open_epochs(folder))
        copying.take(
            memoryview(
                epoch_piece(master, 0, middle, (1, 0), 0)
                + epoch_piece(master, middle, 5000, (4, middle), middle)
            )
        )
        assert open_epochs(folder).entries == ((1, 0), (4, middle))
        assert whole_log(slave) == whole_log(master)

    def test_a_heartbeat_begins_an_epoch_too(self, slave: MessageStore, folder: Path) -> None:
        Copying(slave, open_epochs(folder)).take(memoryview(encode_epoch_piece_head(0, 0, 2, 0, 0)))
        assert open_epochs(folder).entries == ((2, 0),)

    def test_what_is_confirmed_may_be_read(
        self, master: MessageStore, slave: MessageStore, folder: Path
    ) -> None:
        first = put(master, b"one")
        put(master, b"two")
        slave.readable_position = 0
        copying = Copying(slave, open_epochs(folder))
        copying.take(memoryview(epoch_piece(master, 0, 5000, (1, 0), first.end)))
        assert slave.readable_end("orders", 0) == 1
        copying.take(memoryview(encode_epoch_piece_head(master.max_position, 0, 1, 0, 0)))
        assert slave.readable_position == first.end

    def test_a_piece_of_an_older_epoch_is_refused(self, slave: MessageStore, folder: Path) -> None:
        epochs = open_epochs(folder)
        epochs.append(5, 0)
        with pytest.raises(RemoteProtocolError, match=r"epoch 4 .* epoch 5"):
            Copying(slave, epochs).take(memoryview(encode_epoch_piece_head(0, 0, 4, 0, 0)))

    def test_an_epoch_that_began_elsewhere_is_refused(self, slave: MessageStore, folder: Path) -> None:
        epochs = open_epochs(folder)
        epochs.append(5, 0)
        with pytest.raises(RemoteProtocolError, match="epoch 5 from 7 on"):
            Copying(slave, epochs).take(memoryview(encode_epoch_piece_head(0, 0, 5, 7, 0)))

    def test_no_piece_crosses_into_another_epoch(self, master: MessageStore, tmp_path: Path) -> None:
        epochs = open_epochs(tmp_path / "master")
        epochs.append(1, 0)
        epochs.append(2, 700)
        dialect = WithEpochs(master, epochs)
        assert [dialect.piece_end(place) for place in (0, 699, 700, 900)] == [700, 700, None, None]

    def test_a_log_that_is_a_beginning_of_the_master_s_is_followed(
        self, slave: MessageStore, folder: Path
    ) -> None:
        end = put(slave, b"one").end
        epochs = open_epochs(folder)
        epochs.append(1, 0)
        Copying(slave, epochs).compare(Welcome(end + 100, 2, ((1, 0), (2, end))))

    def test_what_is_behind_the_common_part_is_told(self, slave: MessageStore, folder: Path) -> None:
        common = put(slave, b"one").end
        put(slave, b"never confirmed")
        epochs = open_epochs(folder)
        epochs.append(1, 0)
        with pytest.raises(Diverged, match=f"up to {common} only") as caught:
            Copying(slave, epochs).compare(Welcome(common + 900, 2, ((1, 0), (2, common))))
        assert caught.value.common_end == common

    def test_without_a_common_epoch_nothing_may_be_cut(self, slave: MessageStore, folder: Path) -> None:
        put(slave, b"one")
        epochs = open_epochs(folder)
        epochs.append(1, 0)
        with pytest.raises(Diverged, match=r"no epoch in common.*remove its store folder") as caught:
            Copying(slave, epochs).compare(Welcome(900, 7, ((6, 0), (7, 100))))
        assert caught.value.common_end is None

    @pytest.mark.parametrize(("own", "expected"), [(5, 0), (1, 5)])
    def test_a_master_of_an_older_epoch_is_followed_no_more(
        self, slave: MessageStore, folder: Path, own: int, expected: int
    ) -> None:
        put(slave, b"one")
        epochs = open_epochs(folder)
        epochs.append(own, 0)
        with pytest.raises(RemoteProtocolError, match="epoch 5 has begun"):
            Copying(slave, epochs, epoch=expected).compare(Welcome(900, 4, ((own, 0),)))

    def test_epochs_of_a_log_that_is_gone_do_not_count(self, slave: MessageStore, folder: Path) -> None:
        epochs = open_epochs(folder)
        epochs.append(3, 77)
        Copying(slave, epochs).compare(Welcome(900, 4, ((1, 0), (4, 50))))
        assert epochs.entries == ()


def test_the_beginning_of_a_record_is_forgotten_before_another_link(
    master: MessageStore, slave: MessageStore
) -> None:
    one, two = put(master, b"one"), put(master, b"two")
    Copying(slave).take(memoryview(piece(master, 0, two.end - 1)))
    assert slave.max_position == two.end - 1
    slave.forget_arriving()
    assert slave.max_position == one.end
    Copying(slave).take(memoryview(piece(master, one.end, 5000)))
    assert whole_log(slave) == whole_log(master)


class TestTheLastRecord:
    def test_it_is_where_the_last_message_begins(self, slave: MessageStore) -> None:
        assert last_record_position(slave) is None
        put(slave, b"one")
        two = put(slave, b"two")
        assert last_record_position(slave) == two.position

    def test_it_may_be_one_without_a_place_in_a_queue(self, slave: MessageStore) -> None:
        put(slave, b"one")
        placed = put(slave, b"half", sys_flag=int(SysFlag.TRANSACTION_PREPARED))
        assert last_record_position(slave) == placed.position

    def test_the_beginning_of_another_does_not_count(self, master: MessageStore, slave: MessageStore) -> None:
        one, two = put(master, b"one"), put(master, b"two")
        Copying(slave).take(memoryview(piece(master, 0, two.end - 1)))
        assert last_record_position(slave) == one.position

    def test_it_may_be_in_the_file_before_the_last(self, master: MessageStore, slave: MessageStore) -> None:
        while (last := put(master, b"x" * 300)).end < LOG_FILE_BYTES - 500:
            pass
        put(master, b"y" * 700)
        Copying(slave).take(memoryview(piece(master, 0, LOG_FILE_BYTES)))
        assert slave.max_position == LOG_FILE_BYTES
        assert last_record_position(slave) == last.position
