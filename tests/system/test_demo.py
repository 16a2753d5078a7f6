"""`make demo`, as a stranger runs it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(900)
def test_the_demo_sends_reads_back_and_sums_every_message_per_minute() -> None:
    done = subprocess.run(
        [sys.executable, "examples/demo.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2,000 messages acknowledged" in done.stdout
    assert "2,000 messages read back and committed" in done.stdout
    assert "2,000 orders to a topic, 2,000 to Parquet" in done.stdout
    assert "10:04" in done.stdout
    # A line is broken where the terminal ends.
    assert "topic and Parquet have the sums of what was sent" in " ".join(done.stdout.split())
