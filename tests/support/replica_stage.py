"""A master's store and a slave's, each on a simulated disk, and the bytes between them."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from store_story import HOST, ROOT, SETTINGS

from pyromq.codes import SysFlag
from pyromq.store.delay_levels import parse_delay_levels
from pyromq.store.inspect.findings import StoreReport
from pyromq.store.inspect.store_survey import Layout
from pyromq.store.inspect.store_verification import Verification
from pyromq.store.store import Draft, MessageStore
from pyromq.testing.disk import Image, SimulatedDisk
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.record import encode_host, is_blank

PREPARED, ROLLBACK = int(SysFlag.TRANSACTION_PREPARED), int(SysFlag.TRANSACTION_ROLLBACK)
COMMIT = int(SysFlag.TRANSACTION_COMMIT)
HOST_V6 = encode_host("::1", 10911)


def open_on(disk: SimulatedDisk, cut_at: int | None = None, **changes: Any) -> MessageStore:
    """Return a store that is open on a disk."""
    store = MessageStore(replace(SETTINGS, **changes), clock=ManualClock(), files=disk)
    store.open(cut_at)
    return store


def drafts_of_one_queue(count: int, *, body: bytes = b"body") -> Iterator[Draft]:
    """Yield plain messages to queue 0 of «orders»."""
    for number in range(count):
        yield Draft("orders", 0, body, f"KEYS\x01k{number}\x02TAGS\x01t", 0, 0, 0, HOST, HOST)


def some_drafts(seed: int, count: int) -> Iterator[Draft]:
    """Yield messages of all kinds that leave different traces in queues and index."""
    chance = random.Random(seed)
    for number in range(count):
        body = chance.randbytes(chance.choice((0, 1, 30, 200, 200, 900)))
        unique_id = f"UNIQ_KEY\x01ID{chance.getrandbits(32):08X}{number:04d}"
        draft = Draft("orders", chance.randrange(2), body, unique_id, 0, 0, 0, HOST, HOST)
        match chance.randrange(10):
            case 0:
                draft.sys_flag = PREPARED
            case 1:
                draft.sys_flag = chance.choice((ROLLBACK, COMMIT))
            case 2:
                draft.topic, draft.properties = "SCHEDULE_TOPIC_XXXX", f"DELAY\x013\x02{unique_id}"
            case 3:
                draft.topic, draft.properties = "rmq_sys_wheel_timer", "TIMER_OUT_MS\x011700000099000"
            case 4:
                draft.born_host = draft.store_host = HOST_V6
            case 5:
                draft.topic, draft.properties = "größe", f"TAGS\x01größer\x02KEYS\x01schlüssel {number}"
            case 6 | 7:
                draft.properties = f"{unique_id}\x02KEYS\x01a b{number}\x02TAGS\x01t{number % 3}"
            case 8:
                draft.properties = ""
            case _:
                pass
        yield draft


def fill(store: MessageStore, seed: int, count: int) -> None:
    """Store messages one by one and in batches."""
    drafts = list(some_drafts(seed, count))
    chance = random.Random(seed)
    while drafts:
        together, drafts = drafts[: (size := chance.choice((1, 1, 3)))], drafts[size:]
        if size == 1:
            store.put(together[0])
        else:
            # A batch is of one queue.
            store.put_batch([one for one in together if one.topic == together[0].topic])


def log_of(store: MessageStore, start: int = 0) -> bytes:
    """Return the log from a position on, as a master reads it to send it."""
    data = bytearray()
    while part := store.log_bytes(start + len(data), 32768):
        data += part
    return bytes(data)


def in_pieces(data: bytes, cuts: Iterable[int]) -> Iterator[bytes]:
    """Yield the bytes between cuts."""
    for start, end in pairwise(sorted({0, len(data), *(cut for cut in cuts if 0 < cut < len(data))})):
        yield data[start:end]


def copy_all(slave: MessageStore, data: bytes, cuts: Iterable[int] = ()) -> None:
    """Feed a slave with a log that follows at its end."""
    for piece in in_pieces(data, cuts):
        slave.append_copied(piece)


def record_ends(data: bytes) -> list[int]:
    """Return where the records of a log from position 0 end."""
    ends, at, file_bytes = [], 0, SETTINGS.mapped_file_size_commit_log
    while at < len(data):
        if is_blank(data, at):
            at += file_bytes - at % file_bytes
        else:
            at += int.from_bytes(data[at : at + 4], "big")
            ends.append(at)
    return ends


def verified(disk: SimulatedDisk, folder: Path) -> StoreReport:
    """Return what `pyromq store verify` says of a disk; its files are copied into a folder."""
    disk.copy_to(folder)
    root = folder / ROOT.relative_to("/")
    layout = Layout(
        root,
        root / "commitlog",
        slots=SETTINGS.max_hash_slot_num,
        entries_max=SETTINGS.max_index_num,
        delays_ms=parse_delay_levels(SETTINGS.message_delay_level),
    )
    return Verification(layout).run()


def followers(image: Image) -> dict[str, list[tuple[str, bytes]]]:
    """Return the files of queues and index; an index file is named by when it was made, which differs."""
    files = sorted((path, data) for path, data in image.items())
    return {
        "queues": [(str(path), data) for path, data in files if path.is_relative_to(ROOT / "consumequeue")],
        "index": [("", data) for path, data in files if path.is_relative_to(ROOT / "index")],
    }


def log_files(image: Image) -> dict[Path, bytes]:
    """Return the files of the log."""
    return {path: data for path, data in image.items() if path.is_relative_to(ROOT / "commitlog")}
