"""`kill -9` of a process that does nothing but replace tables: each is the old one or the new one, whole."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from effort import times

from pyromq.store.atomic_file import read_with_backup

WRITER = Path(__file__).with_name("table_writer.py")
NAMES = ("topics.json", "consumerOffset.json")
KILLS = times(6)


def write_and_kill(folder: Path, first: int, writes: int) -> int:
    """Let a process write a number of times and a moment longer; return the last number it called safe."""
    process = subprocess.Popen(
        [sys.executable, str(WRITER), str(folder), str(first)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        lines = [process.stdout.readline() for _ in range(writes)]
        os.kill(process.pid, signal.SIGKILL)
        lines += [line for line in process.stdout if line.endswith("\n")]
    assert process.wait() == -signal.SIGKILL
    return int(lines[-1])


@pytest.mark.row("ST-25")
@pytest.mark.timeout(300)
def test_a_table_is_whole_and_not_older_than_what_was_safe_after_each_kill(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    safe = 0
    for _ in range(KILLS):
        safe = write_and_kill(tmp_path, safe + 1, chance.randrange(1, 20))
        for name in NAMES:
            table = read_with_backup(tmp_path / name, json.loads)
            assert table is not None
            number = table["number"]
            # The write that the kill interrupted may have got through.
            assert safe <= number <= safe + 1
            assert table["padding"] == [number] * (number % 7000)
    assert caplog.records == []
    # A write that was interrupted leaves at most its temporary file.
    kinds = {path.suffix for path in tmp_path.iterdir()}
    assert kinds <= {".json", ".bak", ".tmp"}
