"""A store's files as bytes, with the times in them taken out: what is left must be the same for both brokers.

A message's stored time is in its record, in the index (header and seconds), and, as the time of delivery, in
the queue entries of delayed messages. It is the only thing that differs when the same requests come again.
"""

from pathlib import Path

from pyromq.store.consumequeue import ENTRY as QUEUE_ENTRY
from pyromq.store.follower import SCHEDULE_TOPIC
from pyromq.store.indexfile import ENTRY as INDEX_ENTRY
from pyromq.store.indexfile import HEADER as INDEX_HEADER
from pyromq.wire.record import BORN_AT_AT, BORN_HOST_AT, HOST_BYTES_V4, Record, decode_record, is_blank

#: The broker makes these messages itself, and they are born when it does.
_BORN_AT_THE_BROKER = frozenset({"RMQ_SYS_TRANS_OP_HALF_TOPIC"})
_STORED_AT_AT = BORN_HOST_AT + HOST_BYTES_V4
_NO_TIME = bytes(8)


def records(root: Path) -> dict[int, Record]:
    """Return the records of the log by their positions."""
    found = {}
    for path in sorted((root / "commitlog").iterdir()):
        data = path.read_bytes()
        for at in _places(data):
            found[int(path.name) + at] = decode_record(data, at)
    return found


def log_files(root: Path) -> dict[str, bytes]:
    """Return the files of the log without their times."""
    return {path.name: _timeless_log(path.read_bytes()) for path in sorted((root / "commitlog").iterdir())}


def _timeless_log(data: bytes) -> bytes:
    text = bytearray(data)
    for at in _places(data):
        text[at + _STORED_AT_AT : at + _STORED_AT_AT + 8] = _NO_TIME
        if decode_record(data, at).topic in _BORN_AT_THE_BROKER:
            text[at + BORN_AT_AT : at + BORN_AT_AT + 8] = _NO_TIME
    return bytes(text)


def _places(data: bytes) -> list[int]:
    places, at = [], 0
    while at < len(data) and any(data[at : at + 4]) and not is_blank(data, at):
        places.append(at)
        at += decode_record(data, at).size
    return places


def queue_files(root: Path) -> dict[str, bytes]:
    """Return the consume queues' files; a time of delivery is told as the time after the message's storing."""
    stored = records(root)
    folder = root / "consumequeue"
    return {
        str(path.relative_to(folder)): _timeless_queue(path, stored, folder)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _timeless_queue(path: Path, stored: dict[int, Record], folder: Path) -> bytes:
    data = path.read_bytes()
    if path.relative_to(folder).parts[0] != SCHEDULE_TOPIC:
        return data
    return b"".join(
        QUEUE_ENTRY.pack(position, size, due_ms - stored[position].stored_at_ms if size else due_ms)
        for position, size, due_ms in QUEUE_ENTRY.iter_unpack(data)
    )


def index_files(root: Path, slots: int) -> list[bytes]:
    """Return the index files, oldest first, without their times."""
    return [_timeless_index(path.read_bytes(), slots) for path in sorted((root / "index").iterdir())]


def _timeless_index(data: bytes, slots: int) -> bytes:
    _, _, begin, end, used, count = INDEX_HEADER.unpack_from(data)
    entries_at = INDEX_HEADER.size + 4 * slots
    entries = [
        INDEX_ENTRY.pack(key_hash, position, 0, before)
        for key_hash, position, _, before in INDEX_ENTRY.iter_unpack(data[entries_at:])
    ]
    header = INDEX_HEADER.pack(0, 0, begin, end, used, count)
    return header + data[INDEX_HEADER.size : entries_at] + b"".join(entries)


def wrong_index_times(root: Path, slots: int) -> list[str]:
    """Return what the index files say of times that the log's records do not."""
    stored = records(root)
    wrong = []
    for path in sorted((root / "index").iterdir()):
        data = path.read_bytes()
        begin_ms, end_ms, begin, end, _, count = INDEX_HEADER.unpack_from(data)
        if (begin_ms, end_ms) != (stored[begin].stored_at_ms, stored[end].stored_at_ms):
            wrong.append(f"{path.name}: the header says {begin_ms} to {end_ms}")
        for number in range(1, count):
            at = INDEX_HEADER.size + 4 * slots + INDEX_ENTRY.size * number
            _, position, seconds, _ = INDEX_ENTRY.unpack_from(data, at)
            if seconds != (stored[position].stored_at_ms - begin_ms) // 1000:
                wrong.append(f"{path.name}: entry {number} says {seconds} s")
    return wrong
