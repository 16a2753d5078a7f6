"""`make demo`, as a stranger runs it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(300)
def test_the_demo_sends_reads_back_and_counts_every_message() -> None:
    done = subprocess.run(
        [sys.executable, "examples/demo.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2,000 messages acknowledged" in done.stdout
    assert "2,000 messages read back and committed" in done.stdout
    assert "counted by Spark" in done.stdout
