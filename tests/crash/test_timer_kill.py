"""`kill -9` of a broker that delivers timed messages, again and again: each message comes once."""

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq.clock import SystemClock
from pyromq.config.settings import StoreSettings
from pyromq.store.store import MessageStore

BROKER = Path(__file__).with_name("timer_dies.py")
KILLS = 3
SENT_EACH = 150


class Life:
    """One process, from its start to its end."""

    def __init__(self, folder: Path, first: int, count: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(BROKER), str(folder), str(first), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.sent: list[int] = []
        self.delivered = 0
        self.waiting: int | None = None

    def run_until(self, is_enough: Callable[[], bool]) -> None:
        """Read what it prints until that is enough."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._read(line)
            if is_enough():
                return

    def run_until_delivered(self, count: int) -> None:
        """Read what it prints until it has delivered so many in all."""
        self.run_until(lambda: self.delivered >= count)

    def _read(self, line: str) -> None:
        kind, _, number = line.partition(" ")
        # The last line of a process that was killed may be half a line.
        if line.endswith("\n") and kind == "sent":
            self.sent.append(int(number))
        elif line.endswith("\n") and kind == "delivered":
            self.delivered = int(number)
        elif line.endswith("\n"):
            self.waiting = int(number)

    def kill(self) -> None:
        """End it as nobody should, and read what it said before.

        `communicate` reads the pipe past what `stdout` has buffered, and would begin within a line.
        """
        with self.process:
            self.process.kill()
            self.run_until(lambda: False)

    def stop(self) -> None:
        """End it in order."""
        self.process.communicate("stop\n", timeout=120)
        assert self.process.returncode == 0


def bodies_in(folder: Path) -> Counter[int]:
    settings = StoreSettings(
        store_path_root_dir=str(folder),
        mapped_file_size_commit_log=64 * 1024,
        mapped_file_size_consume_queue=20 * 1000,
        max_hash_slot_num=1000,
        max_index_num=4000,
    )
    store = MessageStore(settings, clock=SystemClock())
    store.open()
    bodies: Counter[int] = Counter()
    offset = 0
    while entries := store.entries("orders", 0, offset, 100):
        offset += len(entries)
        records = [store.record_at(entry.position) for entry in entries]
        bodies.update(int(record.body) for record in records if record is not None)
    store.close()
    return bodies


@pytest.mark.row("DE-10")
def test_a_broker_that_is_killed_again_and_again_delivers_each_message_once(tmp_path: Path) -> None:
    chance = random.Random(6)
    sent: set[int] = set()
    delivered = 0
    for number in range(KILLS):
        life = Life(tmp_path, number * SENT_EACH, SENT_EACH)
        life.run_until_delivered(delivered + chance.randrange(20, SENT_EACH - 20))
        life.kill()
        sent |= set(life.sent)
        delivered = life.delivered

    last = Life(tmp_path, KILLS * SENT_EACH, 0)
    last.run_until(lambda: last.waiting == 0)
    last.stop()

    bodies = bodies_in(tmp_path)
    assert {number: times for number, times in bodies.items() if times > 1} == {}
    assert sent - set(bodies) == set()
