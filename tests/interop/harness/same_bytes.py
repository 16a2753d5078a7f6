"""A store's files as bytes, with the times in them taken out: what is left must be the same for both brokers.

A message's stored time is in its record, in the index (header and seconds), and, as the time of delivery, in
the queue entries of delayed messages. It is the only thing that differs when the same requests come again.
"""

import struct
from pathlib import Path

import msgspec

from harness.same_files import LOG_FILE_BYTES
from pyromq.store.consumequeue import ENTRY as QUEUE_ENTRY
from pyromq.store.index.indexfile import ENTRY as INDEX_ENTRY
from pyromq.store.index.indexfile import HEADER as INDEX_HEADER
from pyromq.system_names import SCHEDULE
from pyromq.wire.record import (
    BORN_AT_AT,
    BORN_HOST_AT,
    HOST_BYTES_V4,
    Record,
    decode_record,
    encode_record,
    is_blank,
)

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
    """Return the consume queues' files; a time of delivery is told as the time after the storing."""
    stored = records(root)
    folder = root / "consumequeue"
    return {
        str(path.relative_to(folder)): _timeless_queue(path, stored, folder)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _timeless_queue(path: Path, stored: dict[int, Record], folder: Path) -> bytes:
    data = path.read_bytes()
    if path.relative_to(folder).parts[0] != SCHEDULE:
        return data
    return b"".join(
        QUEUE_ENTRY.pack(position, size, due_ms - stored[position].stored_at_ms if size else due_ms)
        for position, size, due_ms in QUEUE_ENTRY.iter_unpack(data)
    )


def checkpoint(root: Path) -> tuple[int, int, int]:
    """Return the stored times up to which log, queues and index are safe."""
    times: tuple[int, int, int] = struct.unpack_from(">qqq", (root / "checkpoint").read_bytes())
    return times


def tear(root: Path) -> None:
    """Leave two thirds of another message at the end of the log, as a crash in a write may."""
    last = list(records(root).values())[-1]
    position = last.position + last.size
    torn = encode_record(
        msgspec.structs.replace(
            last, position=position, queue_offset=last.queue_offset + 1, body=b"never acknowledged " * 20
        )
    )
    base = position - position % LOG_FILE_BYTES
    with (root / "commitlog" / f"{base:020d}").open("r+b") as file:
        file.seek(position - base)
        file.write(torn[: len(torn) * 2 // 3])


def forgotten_by_apache(root: Path) -> range:
    """Return the log positions whose keys Apache's broker forgets when it opens these files after a crash.

    It drops the index files that are newer than the checkpoint, and makes entries again only from the log
    file on where it begins to recover; so it is with its own files too (IndexService.java, load;
    CommitLog.java, isMappedFileMatchedRecover).
    """
    log_ms, queues_ms, index_ms = checkpoint(root)
    headers = [INDEX_HEADER.unpack_from(path.read_bytes()) for path in sorted((root / "index").iterdir())]
    kept_until = max((end for _, end_ms, _, end, *_ in headers if end_ms <= index_ms), default=-1)
    firsts = [record for record in records(root).values() if record.position % LOG_FILE_BYTES == 0]
    old_ms = min(log_ms, queues_ms) - 3000
    start = max((first.position for first in firsts if first.stored_at_ms <= old_ms), default=0)
    return range(kept_until + 1, start)


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
