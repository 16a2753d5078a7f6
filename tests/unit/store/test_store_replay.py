"""Records that recovery gives once more to queues and index: the kernel's part and Python's."""

from pathlib import Path

import pytest

from pyromq.kernel import IS_COMPILED
from pyromq.store.consumequeues import ConsumeQueues
from pyromq.store.follower import LogEntry

HALF = 4
COUNT = 240


def fill(store, draft):
    """Put messages of all sorts into six queues; return how many of them are not plain."""
    unusual = 0
    for number in range(COUNT):
        properties = (
            f"UNIQ_KEY\x01id-{number:04d}\x02KEYS\x01k{number % 5} k{number % 7}\x02TAGS\x01t{number}"
        )
        is_half, is_foreign = number % 40 == 17, number % 60 == 33
        store.put(
            draft(
                topic=f"topic-{number % 3}",
                queue_id=number // 3 % 2,
                body=b"%d " % number * (number % 9),
                properties=f"{properties}\x02name\x01Zoë" if is_foreign else properties,
                sys_flag=HALF if is_half else 0,
            )
        )
        unusual += is_half or is_foreign
    return unusual


def files_of(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for folder in ("commitlog", "consumequeue", "index")
        for path in sorted((root / folder).rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def taken_by_python(monkeypatch: pytest.MonkeyPatch) -> list[LogEntry]:
    """The records that were given to the queues one by one."""
    taken: list[LogEntry] = []
    apply = ConsumeQueues.apply

    def note(queues: ConsumeQueues, entry: LogEntry) -> None:
        taken.append(entry)
        apply(queues, entry)

    monkeypatch.setattr(ConsumeQueues, "apply", note)
    return taken


def test_what_is_replayed_is_what_was_there(box, draft, taken_by_python):
    store = box.open()
    unusual = fill(store, draft)
    killed = box.after_kill()
    store.close()
    taken_by_python.clear()

    again = killed.store()
    report = again.open()

    assert (report.replayed, report.end, report.findings) == (COUNT, store.max_position, [])
    assert report.last_stored_at_ms == box.clock.now_ms()
    again.close()
    assert files_of(killed.root) == files_of(box.root)
    # Each queue's first message, each file's, what is not plain, and keys for a new file of the index.
    log_files = len(list((box.root / "commitlog").iterdir()))
    index_files = len(list((box.root / "index").iterdir()))
    assert len(taken_by_python) <= (unusual + 6 + log_files + index_files if IS_COMPILED else COUNT)


def test_a_replay_ends_before_the_first_record_that_is_torn(box, draft):
    store = box.open(mapped_file_size_commit_log=1 << 20)
    fill(store, draft)
    placed = store.put(draft(topic="topic-1", body=b"whole"))
    torn = store.put(draft(topic="topic-1", body=b"torn one"))
    killed = box.after_kill()
    path = killed.root / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[torn.position + 90] ^= 1
    path.write_bytes(data)

    again = killed.store(mapped_file_size_commit_log=1 << 20)
    report = again.open()

    assert (report.replayed, report.end) == (COUNT + 1, placed.end)
    assert again.max_offset("topic-1", 0) == torn.queue_offset
